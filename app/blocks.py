"""Answer to Slack messages, under Slack's limits by construction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app import mrkdwn
from app.escalation import Escalation
from app.feedback import Vote
from app.records import Answer, Citation, Nearest

Block = dict[str, Any]

BLOCK_TEXT = 3_000  # of a section or a context element
MESSAGE_BLOCKS = 50
# Over all blocks but the buttons: Slack has refused about 13,200 (slackapi/bolt-js#2509).
MESSAGE_TEXT = 10_000
FALLBACK_TEXT = 3_900  # chat.update takes 4,000
LABEL_LENGTH = 200  # with a URL and an owner, a source's line stays under BLOCK_TEXT
OWNER_LENGTH = 60
RELATION_LENGTH = 100  # of which there are at most three
LINK_LENGTH = 500  # of one of them, with its label, that is a link
MOST_BUTTONS = 5  # below an answer, of those that say that a page is still true; chosen
FEW_SOURCES = 3  # of more the list is folded; chosen
QUESTION_LENGTH = 500  # of one that is passed on; escaped, it still fits a block

# The action_ids of the buttons.
FEEDBACK, SAY_MORE, ASK_PERSON, RESOLVED = "feedback", "say_more", "ask_person", "resolved"
STILL_TRUE = "still_true"

THANKS: dict[Vote, str] = {
    1: "Thanks, your 👍 is counted. If something is wrong after all, 👎 takes its place.",
    -1: "Thanks, your 👎 is counted. If you say what is wrong, it is put right sooner.",
}
WHO_READS = "Those who look after the documents see the question and the answer."
ASKED = "I asked <#{channel_id}>. Whoever knows can answer here, in the thread."
ASKED_DIRECTLY = "I asked <#{channel_id}>. Whoever knows can write to you directly."
ASKED_ALREADY = "This question has been passed on already."
NOBODY_ASKED = (
    "I can't reach anybody who may know this, so I have asked nobody. Please tell whoever looks "
    "after Footnote."
)
ANSWER_IN_THREAD = "I answer in the thread of that message, unless I have done so already."
INVITE_FIRST = (
    "I am not in this conversation, so I can't answer here. Invite me first, or ask me directly."
)
NOTHING_TO_ASK = "There are no words in that message that I could look for."
RESOLVED_BY = "<@{user_id}> has marked this question as resolved."
KEPT = "Thanks, that is kept with your 👎."
NO_TRACE = "I no longer know how this answer came about, so nothing is counted or kept."

_ASK_PERSON_CONFIRM = {
    "title": {"type": "plain_text", "text": "Ask a person?"},
    "text": {
        "type": "plain_text",
        "text": "The question and who asked it are shown to those who may know.",
    },
    "confirm": {"type": "plain_text", "text": "Ask"},
    "deny": {"type": "plain_text", "text": "Cancel"},
}
_STILL_TRUE_CONFIRM = {
    "title": {"type": "plain_text", "text": "Still true?"},
    "text": {
        "type": "plain_text",
        "text": "If you look after the page, it counts as verified today, by you.",
    },
    "confirm": {"type": "plain_text", "text": "It is still true"},
    "deny": {"type": "plain_text", "text": "Cancel"},
}
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
        mrkdwn.build_section(part) for part in parts or [mrkdwn.escape(answer.text)[:BLOCK_TEXT]]
    ]
    *others, last = [
        Message(text=_build_fallback(blocks), blocks=tuple(blocks))
        for blocks in _share_out(
            [
                *sections,
                *_build_source_blocks(answer.citations),
                *_build_nearest_blocks(answer.nearest),
            ]
        )
    ]
    if answer.citations or answer.abstained_because:
        buttons = _build_still_true_blocks(answer.citations)
        last = replace(last, blocks=(*last.blocks, *buttons, _FEEDBACK))
    return [*others, last]


def build_below(answer: Answer) -> tuple[Block, ...]:
    """What comes below an answer that has grown: its source list, with 👍 and 👎."""
    sources = _build_source_blocks(answer.citations)
    return (*sources, *_build_still_true_blocks(answer.citations), _FEEDBACK)


def offer_person(message: Message) -> Message:
    """A message that says that there is no answer, with the way to ask a person."""
    *said, feedback = message.blocks
    button = _build_button(ASK_PERSON, "Ask a person", confirm=_ASK_PERSON_CONFIRM)
    return replace(message, blocks=(*said, button, feedback))


def build_thanks(vote: Vote, answer_ts: str, *, is_reviewed: bool = False) -> Message:
    """What a person is told after voting; after a 👎 with the way to say more and, where people
    review such answers, that they read it.

    answer_ts is the message voted on: the button is pressed in another one.
    """
    if vote > 0:
        return build_notice(THANKS[vote])
    thanks = build_notice(f"{THANKS[vote]} {WHO_READS}" if is_reviewed else THANKS[vote])
    more = _build_button(SAY_MORE, "Say what is wrong", value=answer_ts)
    return replace(thanks, blocks=(*thanks.blocks, more))


def build_notice(text: str) -> Message:
    """A line that is told to one person."""
    return Message(text=text, blocks=(mrkdwn.build_section(text),))


def build_escalation(asked: Escalation, group_id: str | None, workspace_url: str | None) -> Message:
    """A question for those who may know, with the way to say that it is resolved."""
    text = _build_passed_on(asked, workspace_url)
    if group_id:
        text = f"<!subteam^{group_id}> {text}"
    button = _build_button(RESOLVED, "Resolved", value=str(asked.trace_id))
    return Message(text=text, blocks=(mrkdwn.build_section(text), button))


def build_resolved(asked: Escalation, workspace_url: str | None) -> Message:
    """The same once somebody has resolved it; a user group is not called again."""
    text = _build_passed_on(asked, workspace_url)
    # Who has had themselves forgotten is nobody.
    end = f"Resolved by <@{asked.resolved_by}>" if asked.resolved_by else "Resolved"
    return Message(
        text=f"{text}\n\n{end}", blocks=(mrkdwn.build_section(text), mrkdwn.build_context(end))
    )


def build_permalink(workspace_url: str, channel_id: str, ts: str, thread_ts: str) -> str:
    """A link to a message, as chat.getPermalink makes it, for which each would cost a call."""
    place = f"{workspace_url.rstrip('/')}/archives/{channel_id}"
    return f"{place}/p{ts.replace('.', '')}?thread_ts={thread_ts}&cid={channel_id}"


def build_source_line(citation: Citation) -> str:
    """A footnote: its number, where it leads, how fresh it is and who owns it, if known."""
    link = mrkdwn.link(citation.url, _shorten(citation.place, LABEL_LENGTH))
    facts = [f"[{citation.marker}] {link}"]
    if age := citation.age:
        facts.append(age)
    if page := citation.successor:
        shown = mrkdwn.link_or_quote(page.url, page.title, RELATION_LENGTH, most=LINK_LENGTH)
        facts.append(f"replaced by {shown}")
    elif citation.replaced:
        facts.append(_quote(citation.replaced))
    facts += map(_quote, citation.differences)
    if citation.owner:
        facts.append(mrkdwn.quote(citation.owner, OWNER_LENGTH))
    return " · ".join(facts)


def _quote(relation: str) -> str:
    return mrkdwn.quote(relation, RELATION_LENGTH)


def _build_source_blocks(citations: Sequence[Citation]) -> Iterator[Block]:
    """Small print or, of many, what Slack folds; a block's elements would stand side by side, so
    lines share one."""
    build = mrkdwn.build_context if len(citations) <= FEW_SOURCES else mrkdwn.build_folding
    yield from map(build, mrkdwn.join_lines(map(build_source_line, citations), BLOCK_TEXT))


def build_still_true(document_id: int, label: str) -> Block:
    """The button with which the owner of a page says that it is still true.

    Its action_id is its own, as those in one block have to differ.
    """
    return {
        "type": "button",
        "action_id": f"{STILL_TRUE}_{document_id}",
        "text": {"type": "plain_text", "text": label},
        "value": str(document_id),
        "confirm": _STILL_TRUE_CONFIRM,
    }


def _build_still_true_blocks(citations: Sequence[Citation]) -> Iterator[Block]:
    """A block with a button for each page that may be confirmed, if there is one."""
    markers: dict[int, int] = {}  # the first of each page
    for each in citations:
        if each.is_due and each.document_id is not None:
            markers.setdefault(each.document_id, each.marker)
    buttons = [
        build_still_true(document_id, f"Still true? Confirm [{marker}]")
        for document_id, marker in markers.items()
    ]
    if buttons:
        yield {"type": "actions", "elements": buttons[:MOST_BUTTONS]}


def _build_nearest_blocks(nearest: Nearest | None) -> Iterator[Block]:
    if nearest:
        link = mrkdwn.link(nearest.url, _shorten(nearest.place, LABEL_LENGTH))
        caveat = f" · ⚠️ {nearest.caveat}" if nearest.caveat else ""
        yield mrkdwn.build_context(f"Nearest page, may not answer: {link}{caveat}")


def _build_passed_on(asked: Escalation, workspace_url: str | None) -> str:
    """Who asked what and where; of direct messages no link, which nobody else can follow."""
    if asked.channel_id.startswith("D"):
        place = "in a direct message"
        help = "Can you help? Please write to them directly: what is said here they do not see."
    else:
        place = f"in <#{asked.channel_id}>"
        help = "Can you help? Please answer there, in the thread."
        if workspace_url:
            url = build_permalink(
                workspace_url, asked.channel_id, asked.message_ts, asked.thread_ts
            )
            place += f" ({mrkdwn.link(url, 'see the thread')})"
    passed_on = f", passed on by <@{asked.asked_by}>" if asked.asked_by != asked.user_id else ""
    return (
        f"<@{asked.user_id}> asked this {place}{passed_on}, and I found no answer. {help}"
        f"\n> {mrkdwn.quote(asked.question, QUESTION_LENGTH)}"
    )


def _build_button(action_id: str, text: str, **more: object) -> Block:
    """A block with one button."""
    button = {
        "type": "button",
        "action_id": action_id,
        "text": {"type": "plain_text", "text": text},
    }
    return {"type": "actions", "elements": [{**button, **more}]}


def _share_out(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """The blocks in order, in as few messages as take them and, each, two blocks more."""
    message: list[Block] = []
    for block in blocks:
        length = sum(len(_text(each)) for each in (*message, block))
        if message and (length > MESSAGE_TEXT or len(message) == MESSAGE_BLOCKS - 2):
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
