"""App Home: what Footnote knows, how to ask it, and what one person asked last; pure."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from app import mrkdwn, ragstats
from app.blocks import BLOCK_TEXT, Block, build_permalink
from app.records import OwnQuestion
from app.stats import Source

MOST_SOURCES = 30  # with names at their longest, 6 of a view's 100 blocks
NAME_LENGTH = 60
QUESTION_LENGTH = 120

HOW_TO_ASK = """\
• In a channel: mention me with your question. I answer in its thread, with a numbered footnote \
behind every claim, from pages that all who read along may see.
• Directly: write to me under *Messages*. I look in all pages that you may see.
• About what somebody wrote: *Ask Footnote about this* in the menu of the message.
• To go on directly: just write, within half an hour or in the thread of an answer; I know what \
was said before. “new topic”, alone or before a question, begins afresh.
• To go on in a channel: mention me again in the thread. Where `/ragstats` says that I answer \
follow-ups, you need not, until somebody else writes there or is called.
• Something wrong? 👎 on the answer; whoever looks after me sees it. 👍 helps, too.
• `/ragstats` shows, to you alone, how it goes."""


def build_blocks(
    sources: Sequence[Source],
    asked: Sequence[OwnQuestion],
    *,
    freshness_days: int,
    workspace_url: str | None,
) -> list[Block]:
    """The view of one person, whose questions these are, latest first.

    Without the workspace's URL there are no links to the answers.
    """
    return [
        *_build_part("What I know", list(_build_sources(sources, freshness_days))),
        {"type": "divider"},
        *_build_part("How to ask", [HOW_TO_ASK]),
        {"type": "divider"},
        *_build_part(
            "What you asked last",
            [_build_asked(each, workspace_url) for each in asked] or ["Nothing yet."],
        ),
    ]


def _build_part(title: str, lines: Sequence[str]) -> Iterator[Block]:
    yield {"type": "header", "text": {"type": "plain_text", "text": title}}
    for text in mrkdwn.join_lines(lines, BLOCK_TEXT):
        yield mrkdwn.build_section(text)


def _build_sources(sources: Sequence[Source], freshness_days: int) -> Iterator[str]:
    if not sources:
        yield "There are no pages that I may show you."
        return
    shown = sources[:MOST_SOURCES]
    for source in shown:
        yield f"• {_build_source(mrkdwn.quote(source.name, NAME_LENGTH), [source], freshness_days)}"
    if rest := sources[MOST_SOURCES:]:
        yield f"• {_build_source(f'{len(rest):,} more sources', rest, freshness_days)}"


def _build_source(name: str, sources: Sequence[Source], freshness_days: int) -> str:
    pages = sum(source.pages for source in sources)
    counted = f"{pages:,} {'page' if pages == 1 else 'pages'}"
    return f"{name}, {counted}{ragstats.build_freshness(sources, freshness_days)}"


def _build_asked(asked: OwnQuestion, workspace_url: str | None) -> str:
    """A question, when it was asked, what came of it, and where to read that."""
    said = {
        "answered": "answer",
        "abstained": "no answer found",
        "failed": "something broke",
        "limited": "over the hourly limit",
        "stopped": "stopped",
    }
    outcome = said.get(asked.outcome, "not answered yet")
    if workspace_url and asked.answer_ts:
        outcome = mrkdwn.link(
            build_permalink(workspace_url, asked.channel_id, asked.answer_ts, asked.thread_ts),
            outcome,
        )
    question = mrkdwn.quote(asked.question, QUESTION_LENGTH)
    return f"• {question} · {asked.asked_at.astimezone(UTC):%Y-%m-%d} · {outcome}"
