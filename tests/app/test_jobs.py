"""Questions at work: each taken once, each told of its end."""

from dataclasses import replace
from threading import Barrier, Event, Thread

import pytest

from app import traces
from app.blocks import MESSAGE_TEXT
from app.records import Answer, Arrival
from retrieval.db import Database
from tests.app.bot import Bot, connected, find_rows
from tests.stand_ins.slack import SlackStandIn


def written(slack: SlackStandIn, question: str) -> Arrival:
    ts = slack.write(question, channel_id="C1")["ts"]
    return Arrival(
        question=question,
        surface="slack",
        team_id="T1",
        channel_id="C1",
        message_ts=ts,
        thread_ts=ts,
    )


def answers(slack: SlackStandIn) -> list[str]:
    return [call.params["text"] for call in slack.calls("chat.postMessage")]


def test_p04_of_two_deliveries_at_the_same_instant_one_is_taken(
    slack: SlackStandIn, database: Database
) -> None:
    bots = [Bot(slack, database) for _ in range(2)]
    arrivals = [written(slack, f"question {number}?") for number in range(5)]
    together = Barrier(2)

    def deliver(bot: Bot) -> None:
        for arrival in arrivals:
            together.wait(10)
            bot.jobs.take(arrival)

    threads = [Thread(target=deliver, args=(bot,)) for bot in bots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for bot in bots:
        bot.settle()
    assert sorted(answers(slack)) == [f"You ask: question {number}?" for number in range(5)]


def test_every_message_of_a_long_answer_leads_to_its_trace(bot: Bot) -> None:
    paragraphs = "\n\n".join(["word " * 500] * 6)  # 2,500 characters each
    assert len(paragraphs) > MESSAGE_TEXT
    bot.answerer.answers["how?"] = Answer(text=paragraphs)
    bot.ask("how?")
    (trace,) = find_rows(bot.database, "traces")
    (_, *posted) = bot.slack.messages("C1")
    assert trace.answer_ts == [message["ts"] for message in posted]
    assert len(posted) == 2


@pytest.mark.parametrize("after_storing", [True, False])
def test_p27_an_answer_of_which_nobody_knows_whether_it_stands_there_stands_there_once(
    bot: Bot, after_storing: bool
) -> None:
    bot.slack.fail_next("chat.postMessage", drop_connection=True, after_storing=after_storing)
    event = bot.mention("how long?")
    bot.settle(bot.slack.send_event(event))
    (answer,) = bot.slack.messages("C1", event["ts"])[1:]
    assert answer["text"] == "You ask: how long?"
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.answer_ts, trace.outbox) == ("answered", [answer["ts"]], None)
    assert len(bot.answerer.asked.having()) == 1  # it is told again, not answered again


def test_an_index_in_which_nothing_is_found_raises_the_alarm(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    nothing = Answer(text="There are no pages.", abstained_because="NO_CANDIDATES")
    found = Answer(text="I couldn't find it.", abstained_because="BELOW_FLOOR")
    for number, answer in enumerate([nothing] * 4 + [found] + [nothing] * 4):
        bot.answerer.answers[f"question {number}?"] = answer
        bot.ask(f"question {number}?")
    assert "found no page" not in caplog.text
    bot.answerer.answers["and now?"] = nothing
    bot.ask("and now?")
    (record,) = [each for each in caplog.records if "found no page" in each.message]
    assert (record.levelname, record.args) == ("ERROR", (5,))


def test_a_failure_that_cannot_be_told_is_still_saved(bot: Bot) -> None:
    bot.slack.workspace.channels["C1"] = {"is_archived": True}
    bot.jobs.take(written(bot.slack, "how long?"))
    bot.settle()
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.error_class) == ("failed", "SlackApiError")


def test_what_is_begun_is_finished_before_the_end(slack: SlackStandIn, database: Database) -> None:
    with connected(slack, database) as bot:
        bot.answerer.held["slow?"] = Event()
        bot.jobs.take(written(slack, "slow?"))
        bot.answerer.wait_until_asked("slow?")
        closing = Thread(target=bot.close, args=(10,))
        closing.start()
        bot.answerer.held["slow?"].set()
        closing.join()
        assert answers(slack) == ["You ask: slow?"]


def test_what_does_not_end_in_time_is_answered_by_another_process(
    slack: SlackStandIn, database: Database
) -> None:
    stopping = Bot(slack, database)
    questions = [f"slow {number}?" for number in range(5)]  # one more than threads
    for question in questions:
        stopping.answerer.held[question] = Event()
        stopping.jobs.take(written(slack, question))
    stopping.answerer.asked.wait_for(count=4)
    stopping.close(timeout_s=0)
    with connected(slack, database):
        pass
    for until in stopping.answerer.held.values():
        until.set()
    stopping.ended.wait_for(count=4)  # they were at work, and come too late
    rows = find_rows(database, "traces")
    assert {(row.outcome, row.attempts) for row in rows} == {("answered", 2), ("answered", 1)}
    assert sorted(answers(slack)) == [f"You ask: {question}" for question in questions]


def test_what_is_being_posted_at_the_end_is_waited_for(
    slack: SlackStandIn, database: Database
) -> None:
    arrived = Event()
    slack.delay("chat.postMessage", arrived)
    bot = Bot(slack, database)
    bot.jobs.take(written(slack, "how long?"))
    slack.wait_for_call("chat.postMessage")
    closing = Thread(target=bot.close, args=(0,))
    closing.start()
    closing.join(0.3)  # time enough to give it up
    assert closing.is_alive()
    arrived.set()
    closing.join()
    (trace,) = find_rows(database, "traces")
    assert (trace.outcome, len(trace.answer_ts), trace.outbox) == ("answered", 1, None)
    assert answers(slack) == ["You ask: how long?"]


def test_of_a_long_answer_whose_beginning_is_gone_the_rest_comes_below_it_again(bot: Bot) -> None:
    paragraphs = "\n\n".join(["word " * 500] * 6)  # two messages
    bot.answerer.answers["how?"] = bot.answerer.answers["how far?"] = Answer(text=paragraphs)
    event = bot.mention("how?")
    bot.slack.send_event(event)
    bot.ended.wait_for()
    first, second = bot.slack.messages("C1", event["ts"])[1:]
    bot.slack.fail_next("chat.update", body={"ok": False, "error": "message_not_found"})
    bot.settle(bot.slack.send_event(bot.slack.edit(event, "<@U0BOT> how far?")))
    shown = [message["ts"] for message in bot.slack.messages("C1", event["ts"])[1:]]
    (trace,) = find_rows(bot.database, "traces")
    assert trace.answer_ts == shown and len(shown) == 2
    assert not {first["ts"], second["ts"]} & set(shown)
    for ts in shown:
        assert traces.find_by_answer(bot.database, "C1", ts) == trace.trace_id


def test_what_nobody_has_seen_of_an_answer_was_not_said(bot: Bot) -> None:
    bot.slack.fail_next("chat.postMessage", body={"ok": False, "error": "invalid_blocks"})
    failure = bot.ask("how long?")
    bot.ask("and then?", thread_ts=failure["thread_ts"])
    _, turns = bot.answerer.asked.having()
    assert [turn.text for turn in turns if turn.speaker == "bot"] in ([], [""])
    # Nor is it voted on.
    assert traces.find_by_answer(bot.database, "C1", failure["ts"]) is None


def test_an_edit_that_is_not_begun_when_the_bot_stops_is_answered_by_another(
    slack: SlackStandIn, database: Database
) -> None:
    stopping = Bot(slack, database)
    arrival = written(slack, "how long?")
    stopping.jobs.take(arrival)
    stopping.ended.wait_for()
    stopping.close(timeout_s=10)
    stopping.jobs.revise(replace(arrival, question="how far?"))
    with connected(slack, database):
        pass
    (trace,) = find_rows(database, "traces")
    (told,) = slack.messages("C1", arrival.thread_ts)[1:]
    assert (trace.question, trace.outcome) == ("how far?", "answered")
    assert (told["text"], trace.answer_ts) == ("You ask: how far?", [told["ts"]])
