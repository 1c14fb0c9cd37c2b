"""What of a conversation is known when its next question is asked."""

from typing import Any

import pytest

from app import claims, conversations, traces
from app.conversations import BYTES_A_TOKEN, PAST_TOKENS, RECENT_S
from app.records import Answer, Arrival
from retrieval.db import Database
from tests.app.bot import Bot

ROOT = 1_700_000_000


def asked(
    database: Database,
    question: str,
    answer: str | None,
    *,
    second: int,
    messages: int = 1,
    **more: Any,
) -> None:
    """A question in a thread of C1, and its answer in so many messages."""
    trace_id = claims.claim(database, arrival(question, second=second, **more))
    assert trace_id is not None
    if answer is not None:
        traces.save_answer(database, trace_id, Answer(text=answer), settings={}, stage_ms={})
        ts = [f"{ROOT + second}.{number:06d}" for number in range(2, 2 + messages)]
        traces.save_answer_ts(database, trace_id, ts)


def arrival(question: str, *, second: int, **more: Any) -> Arrival:
    values = {
        "surface": "slack",
        "team_id": "T1",
        "channel_id": "C1",
        "thread_ts": f"{ROOT}.000001",
        "message_ts": f"{ROOT + second}.000001",
        "user_id": "U1",
    }
    return Arrival(**{"question": question, **values, **more})


def direct(second: int, **more: Any) -> dict[str, Any]:
    """A direct message outside any thread."""
    ts = f"{ROOT + second}.000001"
    return {"second": second, "channel_id": "D1", "thread_ts": ts, **more}


def past(database: Database, question: str = "and part-time?", **more: Any) -> list[str]:
    found = conversations.find_past_answers(database, arrival(question, **more))
    return [text for each in found for text in (each.question, each.answer)]


def test_of_a_thread_of_140_messages_the_newest_are_known_with_a_long_answer_whole(
    database: Database,
) -> None:
    long = " ".join(f"Rule {number} holds." for number in range(300)) + " Part-time gets 12 days."
    for number in range(70):
        text, messages = (long, 3) if number == 66 else (f"answer {number}: " + "x" * 180, 1)
        asked(database, f"question {number}?", text, second=number, messages=messages)
    known = past(database, second=70)
    assert known[-8:-6] == ["question 66?", long]
    assert known[-2] == "question 69?"
    size = sum(len(text.encode()) for text in known)
    # One more, as long as the others, would have been too much.
    assert PAST_TOKENS * BYTES_A_TOKEN - 210 < size <= PAST_TOKENS * BYTES_A_TOKEN


def test_the_newest_answer_is_known_whole_however_long_it_is(database: Database) -> None:
    long = "word " * 4 * PAST_TOKENS
    asked(database, "what is the rule?", "short", second=0)
    asked(database, "in full?", long, second=1)
    asked(database, "still there?", None, second=2)
    assert past(database, second=3) == ["in full?", long, "still there?", ""]


def test_what_was_pasted_without_an_answer_is_left_out_where_it_is_too_long(
    database: Database,
) -> None:
    asked(database, "how many days?", "25", second=0)
    for number in range(1, 21):
        asked(database, f"why? {'x' * 39_000}", None, second=number)
    asked(database, "still there?", None, second=21)
    assert past(database, second=22) == ["how many days?", "25", "still there?", ""]


def test_many_questions_without_an_answer_are_no_more_than_others(database: Database) -> None:
    for number in range(20):
        asked(database, f"{number}: " + "x" * 1_000, None, second=number)
    size = sum(len(text.encode()) for text in past(database, second=20))
    assert size <= PAST_TOKENS * BYTES_A_TOKEN


def test_a_question_that_is_not_answered_yet_is_known_without_an_answer(
    database: Database,
) -> None:
    asked(database, "how many days?", None, **direct(0))
    assert past(database, **direct(1)) == ["how many days?", ""]


def test_direct_messages_go_on_from_what_this_person_asked_lately(database: Database) -> None:
    asked(database, "too long ago?", "yes", **direct(0))
    asked(database, "how many days?", "25", **direct(1))
    asked(database, "whose?", "mine", **direct(2, user_id="U2"))
    asked(database, "elsewhere?", "yes", **direct(3, channel_id="D2"))
    asked(database, "and in a thread?", "5", **direct(4, thread_ts=f"{ROOT}.000001"))
    assert past(database, **direct(RECENT_S + 1)) == [
        *("how many days?", "25", "and in a thread?", "5")
    ]


def test_a_reply_in_a_thread_of_direct_messages_goes_on_from_that_thread(
    database: Database,
) -> None:
    asked(database, "how many days?", "25", **direct(0))
    asked(database, "who is my lead?", "Ann", **direct(1))
    assert past(database, **direct(2, thread_ts=f"{ROOT}.000001")) == ["how many days?", "25"]


def test_a_reply_to_a_direct_message_knows_what_that_went_on_from(database: Database) -> None:
    asked(database, "too long ago?", "yes", **direct(0))
    asked(database, "how many days?", "25", **direct(1))
    asked(database, "whose?", "mine", **direct(2, user_id="U2"))
    asked(database, "and for part-timers?", "12", **direct(RECENT_S + 1))
    asked(database, "who is my lead?", "Ann", **direct(RECENT_S + 2))
    thread_ts = f"{ROOT + RECENT_S + 1}.000001"
    assert past(database, **direct(RECENT_S + 3, thread_ts=thread_ts)) == [
        *("how many days?", "25", "and for part-timers?", "12")
    ]


def test_a_new_topic_begins_afresh_in_the_thread_on_it_too(database: Database) -> None:
    asked(database, "how many days?", "25", **direct(0))
    asked(database, "new topic: who is my lead?", "Ann", **direct(1))
    assert past(database, **direct(2, thread_ts=f"{ROOT + 1}.000001")) == [
        *("new topic: who is my lead?", "Ann")
    ]


def test_in_the_pane_of_an_older_app_nothing_is_known_but_its_thread(database: Database) -> None:
    asked(database, "how many days?", "25", **direct(0))
    pane = {"thread_ts": f"{ROOT + 1}.000001"}
    asked(database, "who is my lead?", "Ann", **direct(2, **pane))
    assert past(database, **direct(3, **pane)) == ["who is my lead?", "Ann"]


def test_a_mention_outside_any_thread_goes_on_from_nothing(database: Database) -> None:
    asked(database, "how many days?", "25", **direct(0, channel_id="C1"))
    assert past(database, **direct(1, channel_id="C1")) == []


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (["how many days?", "new topic"], []),
        (["how many days?", "new topic", "where is HR?"], ["where is HR?"]),
        (["how many days?", "New topic: where is HR?"], ["New topic: where is HR?"]),
        (["how many days?", "what is a new topic?"], ["how many days?", "what is a new topic?"]),
    ],
)
def test_with_a_new_topic_what_was_said_before_is_left(
    bot: Bot, said: list[str], known: list[str]
) -> None:
    for number, text in enumerate(said, 1):
        bot.slack.send_event(bot.slack.write(text, channel_id="D1"))
        bot.ended.wait_for(count=number)
    assert past(bot.database, team_id="T0001", **_next(bot))[::2] == known
    assert past(bot.database, "new topic: and?", team_id="T0001", **_next(bot)) == []


def _next(bot: Bot) -> dict[str, Any]:
    """A direct message after all that stand there."""
    ts = float(bot.slack.messages("D1")[-1]["ts"]) + 1
    return direct(0, message_ts=f"{ts:.6f}", thread_ts=f"{ts:.6f}")


def test_the_third_direct_message_in_a_row_is_answered_with_both_sides_of_the_others(
    bot: Bot,
) -> None:
    bot.slack.fail_next("conversations.history", status=429, headers={"Retry-After": "60"})
    bot.slack.fail_next("conversations.replies", status=429, headers={"Retry-After": "60"})
    said = ("how many days of leave?", "can I carry them over?", "and for part-timers?")
    for number, text in enumerate(said):
        bot.slack.send_event(bot.slack.write(text, channel_id="D1"))
        bot.ended.wait_for(count=number + 1)
    assert [turn.text for turn in bot.answerer.asked.having()[-1]] == [
        *(said[0], f"You ask: {said[0]}", said[1], f"You ask: {said[1]}", said[2])
    ]
    questions = [message for message in bot.slack.messages("D1") if message["user"] == "U1"]
    answers = [message for message in bot.slack.messages("D1") if message["user"] != "U1"]
    assert [each["thread_ts"] for each in answers] == [each["ts"] for each in questions]
    # Slack limits both for some apps to one call a minute; nothing waits for it.
    assert not bot.slack.calls("conversations.history")
    assert not bot.slack.calls("conversations.replies")


def test_in_the_pane_of_an_older_app_each_message_is_answered_once_in_its_thread(
    bot: Bot,
) -> None:
    pane = bot.slack.open_pane(channel_id="D1")
    root, *_ = bot.slack.messages("D1")
    bot.slack.send_event({**root, "channel": "D1", "channel_type": "im"})
    bot.slack.send_event({"type": "assistant_thread_context_changed", **pane, "event_ts": "1"})
    thread_ts = pane["assistant_thread"]["thread_ts"]
    envelopes = []
    for number, text in enumerate(("how many days?", "and part-time?")):
        message = bot.slack.write(text, channel_id="D1", thread_ts=thread_ts)
        envelopes += [bot.slack.send_event(message) for _ in range(2)]
        bot.ended.wait_for(count=number + 1)
    bot.settle(*envelopes)
    posts = bot.slack.calls("chat.postMessage")
    assert [call.params["thread_ts"] for call in posts] == [thread_ts, thread_ts]
    assert [turn.text for turn in bot.answerer.asked.having()[-1]] == [
        *("how many days?", "You ask: how many days?", "and part-time?")
    ]
