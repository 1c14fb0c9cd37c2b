"""Slack messages to turns: which are questions, which are ignored and why, and their plain text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from app import fillers
from app.channels import ChannelMode
from app.records import Arrival, PastAnswer, Turn

Event = Mapping[str, Any]
Ignored = Literal["OWN", "OTHER_BOT", "HIDDEN", "SUBTYPE", "NOT_DIRECT", "OVERHEARD"]
Silence = Literal["CHANNEL", "TO_OTHERS", "NOT_OUR_THREAD", "OTHERS_TALK", "NO_QUESTION"]

# A question may come with a file, or be shown in the channel too. Edits, deletions, joins and the
# edit that Slack makes when a link unfurls are messages of other subtypes.
QUESTION_SUBTYPES = (None, "file_share", "thread_broadcast")
ACTION_SUBTYPE = "me_message"  # by /me: said to people, so no question

CHANNEL_TYPES = ("channel", "group")  # "group": a private one
LEAST_WORDS = 3  # of a question to nobody in particular; chosen

_CALLS_CHANNEL = re.compile(r"<!(?:here|channel|everyone)[|>]")
_CALLED = re.compile(r"<(?:@([^|>]*)|!subteam\^)")
_MARKUP = re.compile(r"<([@#!][^<>]*|\w+:[^<>]*)>")
_ESCAPES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}  # the only ones of Slack


# From asking to the end of an edit: whoever has read an answer for longer relies on it.
REVISABLE_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The last question of a thread, and how the thread stands since."""

    trace_id: UUID
    user_id: str | None  # who asked it
    is_answered: bool  # or abstained from, in a message that is there
    is_joined: bool  # in it or since, answered or not, somebody else has been called or has written


def find_reason_to_ignore(event: Event, *, bot_user_id: str, bot_id: str) -> Ignored | None:
    """Why a message or mention is not a question to answer, or None when it is one.

    OVERHEARD is what may be one all the same, where the channel allows it.
    """
    if event.get("bot_id") == bot_id or event.get("user") == bot_user_id:
        return "OWN"
    subtype = event.get("subtype")
    if event.get("bot_id") or event.get("bot_profile") or subtype == "bot_message":
        return "OTHER_BOT"
    if event.get("hidden"):
        return "HIDDEN"
    if subtype not in QUESTION_SUBTYPES:
        return "SUBTYPE"
    if _is_overheard(event, bot_user_id):
        return "OVERHEARD"
    # A mention is for us anywhere, and comes as an event of its own.
    if event.get("type") == "message" and event.get("channel_type") != "im":
        return "NOT_DIRECT"
    return None


def find_reason_for_silence(
    event: Event, arrival: Arrival, mode: ChannelMode, standing: Standing | None
) -> Silence | None:
    """Why a question that was overheard, the event's, is left alone, or None where it is for us.

    standing is that of its thread; None outside any, and in one where nobody has asked us. Who
    calls @here or the like outside a thread asks everybody there, us too.
    """
    text, question = event.get("text") or "", arrival.question
    if mode == "mentions":
        return "CHANNEL"
    if arrival.thread_ts == arrival.message_ts:
        return "CHANNEL" if mode != "questions" else _find_reason_in_channel(text, question)
    if _CALLED.search(text) or _CALLS_CHANNEL.search(text) or fillers.calls_people(question):
        return "TO_OTHERS"
    if standing is None or not standing.is_answered:
        return "NOT_OUR_THREAD"
    if standing.is_joined or standing.user_id != arrival.user_id:
        return "OTHERS_TALK"
    return None if fillers.asks_on(question) else "NO_QUESTION"


def may_join(event: Event, *, bot_user_id: str, bot_id: str) -> bool:
    """Whether a person says something in a thread of a channel, or mentions us anywhere."""
    is_action = event.get("subtype") == ACTION_SUBTYPE
    said = {**event, "subtype": None} if is_action else event
    reason = find_reason_to_ignore(said, bot_user_id=bot_user_id, bot_id=bot_id)
    if reason == "OVERHEARD":
        return bool(event.get("thread_ts"))
    return reason is None and event.get("type") == "app_mention"


def joins(event: Event, standing: Standing, *, bot_user_id: str) -> bool:
    """Whether by this message its thread is no longer between us and who asked last."""
    text = event.get("text") or ""
    called = {found[1] for found in _CALLED.finditer(text)} - {bot_user_id}
    return bool(event.get("user") != standing.user_id or called or _CALLS_CHANNEL.search(text))


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


def find_withdrawn(event: Event, *, bot_user_id: str, bot_id: str) -> Event | None:
    """The question that an event says is gone, as if just written, or None.

    None also where it was written too long ago to come after its deletion, and where it is none
    that we would have answered.
    """
    message = event.get("previous_message") or {}
    written, deleted = message.get("ts"), event.get("event_ts")
    if find_deleted(event) is None or not written or not deleted:
        return None
    # Until then an edit may come that was made in time: Slack sends it again, for minutes.
    if float(deleted) - float(written) > 2 * REVISABLE_S:
        return None
    return _find_question(message, event, bot_user_id=bot_user_id, bot_id=bot_id)


def find_edited(event: Event, *, bot_user_id: str, bot_id: str) -> Event | None:
    """The message that an event says was edited, as if just written, or None.

    None also where it reads as before, as when a link unfurls, where it was edited too late, and
    where it is none that we would have answered.
    """
    if event.get("subtype") != "message_changed":
        return None
    message, before = event.get("message") or {}, event.get("previous_message") or {}
    written, edited = message.get("ts"), (message.get("edited") or {}).get("ts")
    if not written or not edited or float(edited) - float(written) > REVISABLE_S:
        return None
    if (message.get("text") or "") == before.get("text"):
        return None
    return _find_question(message, event, bot_user_id=bot_user_id, bot_id=bot_id)


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
        is_unasked=_is_overheard(event, bot_user_id),
        user_team_id=event.get("user_team") or event.get("team"),
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
    holds what others wrote as if it were asked. "New topic" before a question says nothing of it.
    """
    said = [
        turn
        for each in past
        if each.question
        for turn in (
            Turn(speaker="user", text=fillers.cut_topic(each.question) or each.question),
            Turn(speaker="bot", text=each.answer),
        )
        if turn.text
    ]
    return (*said, Turn(speaker="user", text=fillers.cut_topic(question) or question))


def _find_question(message: Event, event: Event, *, bot_user_id: str, bot_id: str) -> Event | None:
    """A message that another one's event tells of, if we would have answered it."""
    if event.get("channel_type") != "im" and not _calls_us(message.get("text") or "", bot_user_id):
        return None
    message = {**message, "channel": event.get("channel")}
    asked = {**message, "type": "app_mention"}  # wherever it stands, it is for us
    reason = find_reason_to_ignore(asked, bot_user_id=bot_user_id, bot_id=bot_id)
    return message if reason is None else None


def _find_reason_in_channel(text: str, question: str) -> Silence | None:
    if _CALLED.search(text):
        return "TO_OTHERS"
    if not fillers.asks(question) or fillers.count_words(question) < LEAST_WORDS:
        return "NO_QUESTION"
    return "TO_OTHERS" if fillers.is_for_people(question) else None


def _is_overheard(event: Event, bot_user_id: str) -> bool:
    """Whether this was written in a channel without calling us."""
    is_in_channel = event.get("type") == "message" and event.get("channel_type") in CHANNEL_TYPES
    return is_in_channel and not _calls_us(event.get("text") or "", bot_user_id)


def _calls_us(text: str, bot_user_id: str) -> bool:
    return re.search(rf"<@{re.escape(bot_user_id)}[|>]", text) is not None


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
