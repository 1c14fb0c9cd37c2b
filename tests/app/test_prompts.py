"""What is offered to who opens the direct messages, and how little of others it tells."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app import feedback, prompts
from retrieval.db import Database
from tests.app.bot import Bot
from tests.app.questions import ask

LEAVE = "How many days of leave do we get?"


def asked(
    database: Database,
    question: str = LEAVE,
    *,
    by: tuple[str, ...] = ("U1", "U2", "U3"),
    query: str | None = None,
    **more: Any,
) -> UUID:
    """A question that these people asked, and that was searched for as it was typed; the last."""
    for user_id in by:
        trace_id = ask(database, question=question, user_id=user_id, **more)
        with database.transaction() as connection:
            connection.execute(
                text("UPDATE traces SET queries = ARRAY[:query] WHERE trace_id = :trace_id"),
                {"trace_id": trace_id, "query": query or question},
            )
    return trace_id


def offered(database: Database) -> list[str]:
    return [prompt["message"] for prompt in prompts.load(database)]


def test_what_was_asked_most_comes_first_whatever_its_spelling(database: Database) -> None:
    asked(database, "Where is HR?", days_ago=80)
    asked(database, "where is  hr", by=("U1",), days_ago=70)
    asked(database, "Who runs payroll?")
    for number in range(3):
        asked(database, f"What is question {number}?", days_ago=2 + number)
    assert offered(database) == [
        *("where is  hr", "Who runs payroll?", "What is question 0?", "What is question 1?")
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"by": ("U1", "U2", "U2")},
        {"by": ("U1",)},
        {"channel_id": "D1"},
        {"channel_id": "G1"},
        {"days_ago": 91},
        {"outcome": "abstained"},
        {"outcome": "failed"},
        {"settings": {"deleted": True}},
        {"settings": {"small_talk": "thanks"}},
        {"query": "how much leave is there? And how many days of leave do we get?"},
        {"question": f"{LEAVE} {'really ' * 30}"},
    ],
    ids=str,
)
def test_what_is_not_for_others_or_answers_nothing_is_not_offered(
    database: Database, more: dict[str, Any]
) -> None:
    asked(database, **more)
    assert prompts.load(database) == [prompts.WHAT_CAN_YOU_DO]


def test_what_was_asked_directly_counts_only_beside_two_who_asked_in_channels(
    database: Database,
) -> None:
    asked(database, by=("U1", "U2"), channel_id="D1")
    asked(database, by=("U3", "U3"))
    assert prompts.load(database) == [prompts.WHAT_CAN_YOU_DO]
    asked(database, by=("U4",), days_ago=2)
    asked(database, LEAVE.upper(), by=("U5",), channel_id="D5", days_ago=0.5)
    assert offered(database) == [LEAVE]  # as in a channel, not as it was put directly


def test_a_new_topic_is_not_offered_as_one(database: Database) -> None:
    asked(database, f"new topic: {LEAVE}", query=LEAVE)
    asked(database, LEAVE, days_ago=2)
    assert offered(database) == [LEAVE]


def test_what_anybody_has_flagged_is_not_offered(database: Database) -> None:
    asked(database)
    trace_id = asked(database, LEAVE.upper(), by=("U3",), days_ago=2)
    feedback.vote(database, trace_id, "U3", 1)
    assert offered(database) == [LEAVE]
    feedback.vote(database, trace_id, "U4", -1)
    assert prompts.load(database) == [prompts.WHAT_CAN_YOU_DO]


def test_titles_are_short_and_on_one_line(database: Database) -> None:
    question = f"How long is\nthe notice period {'of the works council ' * 5}?"
    asked(database, question)
    (prompt,) = prompts.load(database)
    assert prompt["message"] == question
    assert len(prompt["title"]) <= prompts.TITLE_LENGTH
    assert prompt["title"].startswith("How long is the notice period of")


def test_who_opens_the_messages_tab_is_offered_questions_outside_any_thread(bot: Bot) -> None:
    asked(bot.database)
    bot.slack.send_event(
        {"type": "app_home_opened", "user": "U3", "channel": "D3", "tab": "messages"}
    )
    (call,) = bot.slack.wait_for_call("assistant.threads.setSuggestedPrompts")
    assert call.params == {"channel_id": "D3", "prompts": [{"title": LEAVE, "message": LEAVE}]}
    assert call.answer == {"ok": True}
    assert not bot.slack.calls("views.publish")


def test_then_the_first_message_is_answered_in_a_thread_on_it(bot: Bot) -> None:
    bot.slack.send_event(
        {"type": "app_home_opened", "user": "U3", "channel": "D3", "tab": "messages"}
    )
    (call,) = bot.slack.wait_for_call("assistant.threads.setSuggestedPrompts")
    (prompt,) = call.params["prompts"]
    message = bot.slack.write(prompt["message"], channel_id="D3", user_id="U3")
    bot.slack.send_event(message)
    (post,) = bot.slack.wait_for_call("chat.postMessage")
    assert post.params["thread_ts"] == message["ts"]
    assert post.params["text"].startswith("Ask me a question and I look for the answer")
    assert not bot.answerer.asked.having()  # nothing is searched for


def test_who_opens_the_pane_of_an_older_app_is_offered_questions_in_its_thread(bot: Bot) -> None:
    opened = bot.slack.open_pane(channel_id="D1")
    bot.slack.send_event(opened)
    (call,) = bot.slack.wait_for_call("assistant.threads.setSuggestedPrompts")
    assert call.params == {
        "channel_id": "D1",
        "thread_ts": opened["assistant_thread"]["thread_ts"],
        "prompts": [prompts.WHAT_CAN_YOU_DO],
    }
    assert call.answer == {"ok": True}


@pytest.mark.parametrize(
    "fault", [{"body": {"ok": False, "error": "missing_scope"}}, {"drop_connection": True}], ids=str
)
def test_prompts_that_slack_refuses_are_logged_by_class_alone(
    bot: Bot, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "app.posting")
    asked(bot.database)
    bot.slack.fail_next("assistant.threads.setSuggestedPrompts", **fault)
    event = {"type": "app_home_opened", "user": "U3", "channel": "D3", "tab": "messages"}
    bot.settle(bot.slack.send_event(event))
    kind = "RemoteDisconnected" if "drop_connection" in fault else "SlackApiError"
    assert f"No prompts in D3: {kind}" in caplog.messages
    assert LEAVE not in caplog.text
