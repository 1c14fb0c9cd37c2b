"""The message shortcut, from the menu to the answer in the thread."""

from threading import Event

import pytest
from sqlalchemy import text

from app import abstaining, blocks
from app.records import Answer, Turn
from retrieval.db import Database
from tests.app.bot import Bot, Json, connected, find_rows
from tests.stand_ins.slack import SlackStandIn

QUESTION = "how long is the queue?"


def use(bot: Bot, message: Json, user_id: str = "U2") -> str:
    return bot.slack.send_message_shortcut(
        "ask_footnote", message, user_id=user_id, channel_id=message["channel"]
    )


def write(bot: Bot, said: str = QUESTION, thread_ts: str | None = None) -> Json:
    """A message of somebody who did not ask Footnote."""
    return bot.slack.write(said, channel_id="C1", thread_ts=thread_ts)


def find_told(bot: Bot) -> list[str]:
    return [call.params["text"] for call in bot.slack.calls("response_url")]


def test_a_message_is_answered_in_its_thread_for_who_used_the_shortcut(bot: Bot) -> None:
    message = write(bot, f"<@U3> {QUESTION}")
    envelope_id = use(bot, message)
    assert bot.slack.wait_for_ack(envelope_id).ack_seconds < 3
    bot.settle()
    asked, answer = bot.slack.messages("C1", message["ts"])
    assert asked["text"] == f"<@U3> {QUESTION}"
    assert answer["text"] == f"You ask: @U3 {QUESTION}"
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.user_id, trace.channel_id, trace.thread_ts) == ("U2", "C1", message["ts"])
    (private,) = bot.slack.calls("chat.postEphemeral")
    assert (private.params["user"], private.params["text"]) == ("U2", blocks.ANSWER_IN_THREAD)


def test_a_message_of_a_thread_is_answered_there_with_what_was_said(bot: Bot) -> None:
    first = bot.ask("what is a queue?")
    message = write(bot, thread_ts=first["thread_ts"])
    bot.settle(use(bot, message))
    assert bot.slack.messages("C1", first["thread_ts"])[-1]["text"] == f"You ask: {QUESTION}"
    *_, turns = bot.answerer.asked.having()
    assert turns[0] == Turn(speaker="user", text="what is a queue?")


def test_one_message_is_answered_once_however_many_ask_about_it(bot: Bot) -> None:
    message = write(bot)
    bot.settle(*[use(bot, message, f"U{number}") for number in (2, 2, 3)])
    assert len(bot.slack.messages("C1", message["ts"])) == 2


def test_where_it_is_no_member_it_says_so_privately(bot: Bot) -> None:
    message = write(bot)
    bot.slack.workspace.channels["C1"] = {"is_member": False}
    bot.settle(use(bot, message))
    assert find_told(bot) == [blocks.INVITE_FIRST]
    assert find_rows(bot.database, "traces") == []


def test_the_answer_comes_though_its_promise_was_not_shown(bot: Bot) -> None:
    message = write(bot)
    bot.slack.fail_next("chat.postEphemeral", status=429, headers={"Retry-After": "60"})
    bot.settle(use(bot, message))
    assert len(bot.slack.messages("C1", message["ts"])) == 2


@pytest.mark.parametrize("said", ["", " <@U0BOT> "])
def test_a_message_without_words_is_no_question(bot: Bot, said: str) -> None:
    bot.settle(use(bot, write(bot, said)))
    assert find_told(bot) == [blocks.NOTHING_TO_ASK]
    assert find_rows(bot.database, "traces") == []


def test_its_own_answer_is_no_question(bot: Bot) -> None:
    answer = bot.ask(QUESTION)
    bot.settle(use(bot, {**answer, "channel": "C1"}))
    assert find_told(bot) == [blocks.NOTHING_TO_ASK]
    assert len(find_rows(bot.database, "traces")) == 1


def test_a_question_that_failed_can_be_asked_again(bot: Bot) -> None:
    bot.answerer.answers[QUESTION] = RuntimeError("broken")
    message = write(bot)
    bot.slack.wait_for_ack(use(bot, message))
    bot.ended.wait_for()  # what stands there of it is known by then
    del bot.answerer.answers[QUESTION]
    bot.settle(use(bot, message), use(bot, message, "U3"))
    _, answer = bot.slack.messages("C1", message["ts"])  # in the place of the failure
    assert answer["text"] == f"You ask: {QUESTION}"
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.error_class) == ("answered", None)
    assert trace.answer_ts == [answer["ts"]]


@pytest.mark.parametrize("outcome", ["pending", "answered"])  # the latter: before it was posted
@pytest.mark.parametrize(("age", "count"), [("59 minutes", 1), ("61 minutes", 2)])
def test_a_question_whose_process_has_died_can_be_asked_again(
    bot: Bot, age: str, count: int, outcome: str
) -> None:
    message = write(bot)
    use(bot, message)
    bot.ended.wait_for()
    with bot.database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE traces SET outcome = :outcome, answer_ts = '{}',"
                " asked_at = clock_timestamp() - CAST(:age AS interval)"
            ),
            {"age": age, "outcome": outcome},
        )
    bot.settle(use(bot, message))
    assert len(bot.answerer.asked.having()) == count


def test_a_question_that_is_being_answered_is_not_asked_again(bot: Bot) -> None:
    bot.answerer.held[QUESTION] = Event()
    message = write(bot)
    use(bot, message)
    bot.answerer.wait_until_asked(QUESTION)
    with bot.database.transaction() as connection:
        connection.execute(text("UPDATE traces SET asked_at = now() - interval '2 hours'"))
    bot.slack.wait_for_ack(use(bot, message))
    bot.slack.wait_for_call("chat.postEphemeral", count=2)
    bot.answerer.held[QUESTION].set()
    bot.settle()
    assert len(bot.slack.messages("C1", message["ts"])) == 2


def test_what_is_overheard_when_somebody_asks_for_it_has_an_end_for_them(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database, channels={"C1": "questions"}) as bot:
        bot.answerer.held[QUESTION] = Event()
        bot.answerer.answers[QUESTION] = Answer(
            text="I couldn't find this.", abstained_because="BELOW_FLOOR"
        )
        message = write(bot)
        slack.send_event(message)
        bot.answerer.wait_until_asked(QUESTION)
        slack.wait_for_ack(use(bot, message))
        bot.app.listener_runner.listener_executor.shutdown()
        bot.answerer.held[QUESTION].set()
        bot.settle()
    _, answer = slack.messages("C1", message["ts"])
    assert answer["text"] == f"I couldn't find this. {abstaining.IN_CHANNEL}"


def test_asking_again_leaves_the_one_edit(bot: Bot) -> None:
    bot.answerer.answers[QUESTION] = RuntimeError("broken")
    message = write(bot, f"<@U0BOT> {QUESTION}")
    use(bot, message)
    bot.slack.wait_for_call("chat.postMessage")
    del bot.answerer.answers[QUESTION]
    use(bot, message)
    bot.slack.wait_for_call("chat.update")
    bot.settle(bot.slack.send_event(bot.slack.edit(message, "<@U0BOT> how far?")))
    _, answer = bot.slack.messages("C1", message["ts"])
    assert answer["text"] == "You ask: how far?"
