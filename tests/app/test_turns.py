"""Which messages are questions, and what they ask."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from app import turns
from app.records import Arrival, PastAnswer, Turn


def message(**more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "channel": "D1",
        "channel_type": "im",
        "user": "U1",
        "text": "how long?",
        "ts": "1700000000.000100",
        **more,
    }


def reason(event: dict[str, Any]) -> str | None:
    return turns.find_reason_to_ignore(event, bot_user_id="UBOT", bot_id="BBOT")


def plain(text: str) -> str:
    return turns.build_plain_text(text, bot_user_id="UBOT")


@pytest.mark.parametrize(
    ("more", "ignored"),
    [
        ({}, None),
        ({"subtype": "file_share", "files": [{}]}, None),
        ({"subtype": "thread_broadcast", "thread_ts": "1700000000.000001"}, None),
        ({"bot_id": "BBOT"}, "OWN"),
        ({"user": "UBOT"}, "OWN"),
        ({"subtype": "bot_message", "bot_id": "BBOT", "user": None}, "OWN"),
        ({"bot_id": "BOTHER"}, "OTHER_BOT"),
        ({"bot_profile": {"id": "BOTHER"}}, "OTHER_BOT"),
        ({"subtype": "bot_message", "text": "<@UBOT> how long?"}, "OTHER_BOT"),
        ({"subtype": "message_changed", "message": {"text": "how far?"}}, "SUBTYPE"),
        ({"subtype": "message_changed", "hidden": True}, "HIDDEN"),
        ({"subtype": "message_deleted", "deleted_ts": "1700000000.000001"}, "SUBTYPE"),
        ({"subtype": "channel_join"}, "SUBTYPE"),
        ({"channel": "C1", "channel_type": "channel"}, "NOT_DIRECT"),
        ({"channel": "G1", "channel_type": "mpim"}, "NOT_DIRECT"),
        ({"type": "app_mention", "channel": "C1", "channel_type": None}, None),
        ({"type": "app_mention", "channel": "C1", "bot_id": "BOTHER"}, "OTHER_BOT"),
    ],
)
def test_what_is_ignored_and_why(more: dict[str, Any], ignored: str | None) -> None:
    assert reason(message(**more)) == ignored


def test_p35_markup_is_decoded_and_only_our_mention_goes() -> None:
    text = (
        "<@UBOT> is <#C0ABC|help-it> the place for R&amp;D laptop asks?"
        " see <https://wiki.example/it|IT wiki>"
    )
    assert plain(text) == "is #help-it the place for R&D laptop asks? see IT wiki"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@UBOT|footnote>: how long?", "how long?"),
        ("hey <@UBOT> how long?", "hey how long?"),
        ("how long, <@UBOT>", "how long,"),
        ("<@UBOT>", ""),
        (" <@UBOT> <@UBOT|footnote> ", ""),
        ("may <@U9> and <@U8|ana> go?", "may @U9 and @ana go?"),
        ("what is <#C123>, <#C124|>?", "what is #C123, #C124?"),
        ("does <!subteam^S1|@oncall> page <!subteam^S2>?", "does @oncall page @S2?"),
        ("may I write <!here> or <!channel|channel>?", "may I write @here or @channel?"),
        ("since <!date^1392734382^{date}|18 Feb>?", "since 18 Feb?"),
        ("see <https://wiki.example/a?b=1&amp;c=2>", "see https://wiki.example/a?b=1&c=2"),
        ("ask <mailto:pay@corp.example|pay@corp.example>", "ask pay@corp.example"),
        ("is 1 &lt; 2 &amp;&amp; 3 &gt; 2?", "is 1 < 2 && 3 > 2?"),
        ("what does &amp;lt; mean?", "what does &lt; mean?"),
        ("what does &amp;nbsp; mean?", "what does &nbsp; mean?"),
        ("is a < b or c > d?", "is a < b or c > d?"),
        ("run:\n    a  b\n<@UBOT> why?", "run:\n    a  b\n why?"),
        ("a\0b", "ab"),
    ],
)
def test_text_is_what_the_sender_saw(text: str, shown: str) -> None:
    assert plain(text) == shown


def arrival(event: dict[str, Any]) -> Arrival:
    return turns.build_arrival(event, team_id="T1", bot_user_id="UBOT")


def test_p13_a_message_outside_a_thread_is_the_root_of_its_own() -> None:
    assert arrival(message()) == Arrival(
        surface="slack",
        question="how long?",
        team_id="T1",
        channel_id="D1",
        message_ts="1700000000.000100",
        thread_ts="1700000000.000100",
        user_id="U1",
    )
    assert arrival(message(thread_ts="")).thread_ts == "1700000000.000100"
    assert arrival(message(thread_ts="1700000000.000001")).thread_ts == "1700000000.000001"


def test_a_message_without_text_asks_nothing() -> None:
    assert arrival(message(text=None)).question == ""


def test_the_question_comes_last_in_the_conversation() -> None:
    past = [
        PastAnswer(trace_id=uuid4(), question="", answer="Ask me something."),
        PastAnswer(trace_id=uuid4(), question="how many days?", answer="25 [1]"),
    ]
    assert turns.read(past, "and part-time?") == (
        Turn(speaker="user", text="how many days?"),
        Turn(speaker="bot", text="25 [1]"),
        Turn(speaker="user", text="and part-time?"),
    )


def changed(text: str = "how far?", *, after_s: float = 5, **more: Any) -> dict[str, Any]:
    """What Slack sends when message() is edited; more is laid over the event."""
    old = {"type": "message", "user": "U1", "text": "how long?", "ts": "1700000000.000100"}
    edited = {"user": "U1", "ts": f"{1700000000.0001 + after_s:.6f}"}
    return {
        **message(ts="1700000009.000100", subtype="message_changed", hidden=True),
        "message": {**old, "text": text, "edited": edited},
        "previous_message": old,
        **more,
    }


def question_after(event: dict[str, Any]) -> str | None:
    edited = turns.find_edited(event, bot_user_id="UBOT", bot_id="BBOT")
    return None if edited is None else arrival({**edited}).question


@pytest.mark.parametrize(
    ("event", "question"),
    [
        (changed(), "how far?"),
        (changed("<@UBOT> how far?", channel="C1", channel_type="channel"), "how far?"),
        (changed(after_s=599), "how far?"),
        (changed(after_s=601), None),
        (changed("how long?"), None),
        (changed(channel="C1", channel_type="channel"), None),  # no longer for us
        (changed(message={"text": "how far?", "ts": "1700000000.000100"}), None),  # by Slack
        (changed(message={"text": "how far?"}), None),
        (changed(message=None), None),
        (changed(subtype=None), None),
        (changed(message={**changed()["message"], "bot_id": "BBOT"}), None),
        (changed(message={**changed()["message"], "subtype": "bot_message"}), None),
    ],
)
def test_an_edit_is_a_question_where_its_text_is_another(
    event: dict[str, Any], question: str | None
) -> None:
    assert question_after(event) == question


def test_an_edited_question_keeps_its_place() -> None:
    edited = turns.find_edited(changed(), bot_user_id="UBOT", bot_id="BBOT")
    assert edited is not None
    assert arrival({**edited}) == replace(arrival(message()), question="how far?")


@pytest.mark.parametrize(
    ("event", "ts"),
    [
        (message(subtype="message_deleted", deleted_ts="1700000000.000001"), "1700000000.000001"),
        (changed(message={"subtype": "tombstone", "ts": "1700000000.000002"}), "1700000000.000002"),
        (changed(), None),
        (changed(message=None), None),
        (message(), None),
    ],
)
def test_a_root_with_replies_is_deleted_by_becoming_a_tombstone(
    event: dict[str, Any], ts: str | None
) -> None:
    assert turns.find_deleted(event) == ts
