"""Slack messages to turns: which are questions, which are ignored and why, and their plain text."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from app.records import Arrival, PastAnswer, Turn

Event = Mapping[str, Any]
Ignored = Literal["OWN", "OTHER_BOT", "HIDDEN", "SUBTYPE", "NOT_DIRECT"]

# A question may come with a file, or be shown in the channel too. Edits, deletions, joins and the
# edit that Slack makes when a link unfurls are messages of other subtypes.
QUESTION_SUBTYPES = (None, "file_share", "thread_broadcast")

_MARKUP = re.compile(r"<([@#!][^<>]*|\w+:[^<>]*)>")
_ESCAPES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}  # the only ones of Slack


def find_reason_to_ignore(event: Event, *, bot_user_id: str, bot_id: str) -> Ignored | None:
    """Why a message or mention is not a question to answer, or None when it is one."""
    if event.get("bot_id") == bot_id or event.get("user") == bot_user_id:
        return "OWN"
    subtype = event.get("subtype")
    if event.get("bot_id") or event.get("bot_profile") or subtype == "bot_message":
        return "OTHER_BOT"
    if event.get("hidden"):
        return "HIDDEN"
    if subtype not in QUESTION_SUBTYPES:
        return "SUBTYPE"
    # A mention is for us anywhere; what else is said in a channel is not.
    if event.get("type") == "message" and event.get("channel_type") != "im":
        return "NOT_DIRECT"
    return None


def build_arrival(event: Event, *, team_id: str, bot_user_id: str) -> Arrival:
    """The question of a message; its text is "" when there was only our mention.

    A message outside any thread counts as the root of the one in which it is answered.
    """
    return Arrival(
        surface="slack",
        question=build_plain_text(event.get("text") or "", bot_user_id=bot_user_id),
        team_id=team_id,
        channel_id=event["channel"],
        message_ts=event["ts"],
        thread_ts=event.get("thread_ts") or event["ts"],
        user_id=event.get("user"),
    )


def build_plain_text(text: str, *, bot_user_id: str) -> str:
    """What the sender saw, without our mention and with others' as @name, or @ID.

    Source: docs.slack.dev/messaging/formatting-message-text, "Retrieving messages".
    """
    # The look-behind keeps it linear: a run of spaces is tried from its start only.
    ours = rf"(?<![ \t])(?:[ \t]*<@{re.escape(bot_user_id)}(?:\|[^<>]*)?>)+[ \t]*"
    without = re.sub(ours, " ", text).strip().lstrip(":,").lstrip()
    shown = _MARKUP.sub(lambda found: _shown(found[1]), without)
    plain = re.sub("|".join(_ESCAPES), lambda found: _ESCAPES[found[0]], shown)
    return plain.replace("\0", "")  # PostgreSQL stores no NUL


def read(past: Sequence[PastAnswer], question: str) -> tuple[Turn, ...]:
    """The conversation so far, oldest first, ending with the question.

    What was said comes from our traces: Slack's history of a thread may be cut or refused, and
    holds what others wrote as if it were asked.
    """
    said = [
        turn
        for each in past
        if each.question
        for turn in (
            Turn(speaker="user", text=each.question),
            Turn(speaker="bot", text=each.answer),
        )
    ]
    return (*said, Turn(speaker="user", text=question))


def _shown(markup: str) -> str:
    """What Slack shows for the inside of <…>."""
    target, _, label = markup.partition("|")
    if target.startswith("@"):
        return f"@{label or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!date^"):
        return label
    if target.startswith("!"):
        name = label or target[1:].removeprefix("subteam^")
        return f"@{name.removeprefix('@')}"
    return label or target
