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


# From asking to the end of an edit: whoever has read an answer for longer relies on it.
REVISABLE_S = 600


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


def find_deleted(event: Event) -> str | None:
    """The ts of the message that an event says is gone, or None.

    One with replies, as a question has when it is answered, leaves a tombstone in its place.
    """
    if event.get("subtype") == "message_deleted":
        return event.get("deleted_ts")
    message = event.get("message") or {}
    if event.get("subtype") == "message_changed" and message.get("subtype") == "tombstone":
        return message.get("ts")
    return None


def find_edited(event: Event, *, bot_user_id: str, bot_id: str) -> Event | None:
    """The message that an event says was edited, as if just written, or None.

    None also where it reads as before, as when a link unfurls, where it was edited too late, and
    where it is none that we would have answered.
    """
    if event.get("subtype") != "message_changed":
        return None
    message = {**(event.get("message") or {}), "channel": event.get("channel")}
    before = event.get("previous_message") or {}
    written, edited = message.get("ts"), (message.get("edited") or {}).get("ts")
    if not written or not edited or float(edited) - float(written) > REVISABLE_S:
        return None
    text = message.get("text") or ""
    is_for_us = event.get("channel_type") == "im" or f"<@{bot_user_id}" in text
    if text == before.get("text") or not is_for_us:
        return None
    asked = {**message, "type": "app_mention"}  # wherever it stands, it is for us
    if find_reason_to_ignore(asked, bot_user_id=bot_user_id, bot_id=bot_id):
        return None
    return message


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
