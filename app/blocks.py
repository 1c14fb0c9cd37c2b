"""Answer to Slack messages, under Slack's limits by construction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app import mrkdwn
from app.feedback import Vote
from app.records import Answer, Citation

Block = dict[str, Any]

BLOCK_TEXT = 3_000  # of a section or a context element
MESSAGE_BLOCKS = 50
# Over all blocks but the buttons: Slack has refused about 13,200 (slackapi/bolt-js#2509).
MESSAGE_TEXT = 10_000
FALLBACK_TEXT = 3_900  # chat.update takes 4,000
LABEL_LENGTH = 200  # with a URL and an owner, a source's line stays under BLOCK_TEXT
OWNER_LENGTH = 60

FEEDBACK, SAY_MORE = "feedback", "say_more"  # the action_ids of the buttons

THANKS: dict[Vote, str] = {
    1: "Thanks, your 👍 is counted. If something is wrong after all, 👎 takes its place.",
    -1: "Thanks, your 👎 is counted. If you say what is wrong, it is put right sooner.",
}
NO_TRACE = "I no longer know how this answer came about, so nothing is counted or kept."

_FEEDBACK: Block = {
    "type": "context_actions",
    "elements": [
        {
            "type": "feedback_buttons",
            "action_id": FEEDBACK,
            "positive_button": {
                "text": {"type": "plain_text", "text": "Helpful"},
                "accessibility_label": "Vote for this answer: it is helpful",
                "value": "+1",
            },
            "negative_button": {
                "text": {"type": "plain_text", "text": "Not helpful"},
                "accessibility_label": "Vote against this answer: something is wrong with it",
                "value": "-1",
            },
        }
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one call to Slack posts."""

    text: str  # for notifications and screen readers, which do not read blocks
    blocks: tuple[Block, ...]


def build_messages(answer: Answer) -> list[Message]:
    """The answer with its source list; a longer one goes on in further messages.

    The last one ends with 👍 and 👎 where the answer rests on sources or says that there are none;
    any other is small talk.
    """
    urls = [citation.url for citation in answer.citations]
    parts = mrkdwn.build_parts(answer.text, urls=urls, limit=BLOCK_TEXT)
    sections = [
        {"type": "section", "text": _mrkdwn(part)}
        for part in parts or [mrkdwn.escape(answer.text)[:BLOCK_TEXT]]
    ]
    *others, last = [
        Message(text=_build_fallback(blocks), blocks=tuple(blocks))
        for blocks in _share_out([*sections, *_build_source_blocks(answer.citations)])
    ]
    if answer.citations or answer.abstained_because:
        last = replace(last, blocks=(*last.blocks, _FEEDBACK))
    return [*others, last]


def build_thanks(vote: Vote, answer_ts: str) -> Message:
    """What a person is told after voting; after a 👎 with the way to say more.

    answer_ts is the message voted on: the button is pressed in another one.
    """
    section = {"type": "section", "text": _mrkdwn(THANKS[vote])}
    button = {
        "type": "button",
        "action_id": SAY_MORE,
        "text": {"type": "plain_text", "text": "Say what is wrong"},
        "value": answer_ts,
    }
    more: list[Block] = [{"type": "actions", "elements": [button]}] if vote < 0 else []
    return Message(text=THANKS[vote], blocks=(section, *more))


def build_notice(text: str) -> Message:
    """A line that is told to one person."""
    return Message(text=text, blocks=({"type": "section", "text": _mrkdwn(text)},))


def build_source_line(citation: Citation) -> str:
    """A footnote: its number, where it leads, how fresh it is and who owns it, if known."""
    link = mrkdwn.link(citation.url, _shorten(citation.place, LABEL_LENGTH))
    facts = [f"[{citation.marker}] {link}"]
    if citation.dated:
        facts.append(citation.dated)
    if citation.owner:
        facts.append(mrkdwn.escape(_shorten(citation.owner, OWNER_LENGTH)))
    return " · ".join(facts)


def _build_source_blocks(citations: Sequence[Citation]) -> Iterator[Block]:
    """Context blocks; a block's elements would stand side by side, so lines share one."""
    lines = ""
    for line in map(build_source_line, citations):
        if lines and len(lines) + 1 + len(line) > BLOCK_TEXT:
            yield {"type": "context", "elements": [_mrkdwn(lines)]}
            lines = ""
        lines += f"\n{line}" if lines else line
    if lines:
        yield {"type": "context", "elements": [_mrkdwn(lines)]}


def _mrkdwn(text: str) -> Block:
    # verbatim: Slack makes no links and mentions of its own from plain text.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _share_out(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """The blocks in order, in as few messages as take them and, each, one block more."""
    message: list[Block] = []
    for block in blocks:
        length = sum(len(_text(each)) for each in (*message, block))
        if message and (length > MESSAGE_TEXT or len(message) == MESSAGE_BLOCKS - 1):
            yield message
            message = []
        message = [*message, block]
    yield message


def _build_fallback(blocks: Sequence[Block]) -> str:
    text = _text(blocks[0])
    for block in blocks[1:]:
        if len(text) + len(_text(block)) > FALLBACK_TEXT:
            return f"{text}\n\n…"
        text += f"\n\n{_text(block)}"
    return text


def _text(block: Block) -> str:
    holder = block["elements"][0] if block["type"] == "context" else block["text"]
    return str(holder["text"])


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
