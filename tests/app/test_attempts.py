"""Attempts at a question: each takes up where the trace stands, and what is told is told once."""

from contextlib import nullcontext
from dataclasses import replace
from threading import Event, Thread
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.errors import AdminShutdown
from slack_sdk.errors import SlackApiError
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from app import blocks, claims, posting, traces
from app.attempts import LATE_S, MOST_ATTEMPTS, UNTOLD_S, Again
from app.outbox import Outbox
from app.posting import FAILURE, LATE, Part
from app.records import Answer, Arrival
from app.rights import RightsUnknown
from retrieval.db import Database
from tests.app.bot import Bot, find_rows
from tests.app.questions import reopen

Json = dict[str, Any]
COUNTED = ("footnote_questions_total", {"outcome": "answered"})


def claim(bot: Bot, question: str = "how long?", **more: Any) -> UUID:
    """A question that was claimed, and whose job is nobody's."""
    ts = bot.slack.write(question, channel_id="C1")["ts"]
    arrival = Arrival(
        question=question,
        surface="slack",
        team_id="T1",
        channel_id="C1",
        message_ts=ts,
        thread_ts=ts,
        user_id="U1",
        **more,
    )
    trace_id = claims.claim(bot.database, arrival)
    assert trace_id is not None
    return trace_id


def change(bot: Bot, assignment: str, **values: object) -> None:
    with bot.database.unrestricted.transaction() as connection:
        connection.execute(text(f"UPDATE traces SET {assignment}"), values)


def find_trace(bot: Bot) -> Any:
    (trace,) = find_rows(bot.database, "traces")
    return trace


def posted(bot: Bot) -> list[Json]:
    return [each for each in bot.slack.messages("C1") if each.get("bot_id")]


def leave(bot: Bot, trace_id: UUID, *texts: str) -> tuple[Arrival, Outbox]:
    """What an attempt has answered whose process was killed before it told anything."""
    begun = claims.begin(bot.database, trace_id)
    assert begun is not None
    messages = tuple(blocks.build_notice(each) for each in texts)
    outbox = Outbox(messages=messages, attempt=begun.attempt)
    traces.save_answer(
        bot.database,
        trace_id,
        Answer(text=" ".join(texts)),
        settings={},
        stage_ms={},
        attempt=begun.attempt,
        outbox=outbox,
    )
    return begun.arrival, outbox


def put(bot: Bot, arrival: Arrival, outbox: Outbox, trace_id: UUID, number: int = 0) -> str:
    part = Part(trace_id=trace_id, key=outbox.key, number=number, count=len(outbox.messages))
    client = posting.build_client(bot.slack.bot_token, bot.slack.api_url)
    return posting.post(client, arrival, outbox.messages[number], part)


def test_what_was_answered_before_a_process_died_is_told_without_being_answered_again(
    bot: Bot,
) -> None:
    trace_id = claim(bot)
    leave(bot, trace_id, "30 days.")
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["30 days."]
    assert bot.answerer.asked.having() == ()
    trace = find_trace(bot)
    assert (trace.answer_ts, trace.outbox) == ([posted(bot)[0]["ts"]], None)


def test_p26_what_is_answered_waits_for_slack_to_say_who_may_read_it(bot: Bot) -> None:
    trace_id = claim(bot)
    leave(bot, trace_id, "30 days.")
    bot.slack.fail_next("conversations.info", status=429, headers={"Retry-After": "7"})
    with pytest.raises(Again) as again:
        bot.attempts.run(trace_id)
    assert again.value.after_s == 7
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["30 days."]


@pytest.mark.parametrize("standing", [(0,), (1,), (0, 1)])
def test_p27_of_what_was_posted_before_a_process_died_only_the_rest_is_posted(
    bot: Bot, standing: tuple[int, ...]
) -> None:
    trace_id = claim(bot)
    arrival, outbox = leave(bot, trace_id, "First.", "Second.")
    for number in standing:
        put(bot, arrival, outbox, trace_id, number)
    bot.attempts.run(trace_id)
    assert sorted(each["text"] for each in posted(bot)) == ["First.", "Second."]
    assert sorted(find_trace(bot).answer_ts) == [each["ts"] for each in posted(bot)]


def test_where_the_thread_may_not_be_read_what_was_answered_is_told_all_the_same(
    bot: Bot,
) -> None:
    trace_id = claim(bot)
    leave(bot, trace_id, "30 days.")
    refused = {"ok": False, "error": "missing_scope"}
    bot.slack.fail_next("conversations.replies", body=refused, times=2)
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["30 days."]
    assert find_trace(bot).outbox is None


def test_a_sign_that_slack_does_not_take_away_is_taken_away_later(bot: Bot) -> None:
    trace_id = claim(bot)
    bot.slack.fail_next("assistant.threads.setStatus", status=503)
    bot.slack.fail_next("reactions.remove", status=503, times=2)
    with pytest.raises(Again):
        bot.attempts.run(trace_id)
    assert [each["name"] for each in bot.slack.messages("C1")[0]["reactions"]] == ["eyes"]
    bot.attempts.run(trace_id)
    assert bot.slack.messages("C1")[0]["reactions"] == []
    assert [each["text"] for each in posted(bot)] == ["You ask: how long?"]
    assert bot.metrics.registry.get_sample_value(*COUNTED) == 1


@pytest.mark.parametrize(
    ("fault", "count"),
    [
        ({"status": 429, "headers": {"Retry-After": "7"}}, 2),
        ({"status": 503}, 1),  # they may have been told
        ({"drop_connection": True}, 1),
        ({"body": {"ok": False, "error": "user_not_in_channel"}}, 1),
    ],
    ids=["limited", "failed", "lost", "refused"],
)
def test_what_is_for_the_asker_alone_is_told_again_only_if_they_surely_have_not_been(
    bot: Bot, fault: Json, count: int
) -> None:
    trace_id = claim(bot)
    told = Outbox(messages=(blocks.build_notice("Too many."),), is_private=True)
    with bot.database.unrestricted.transaction() as connection:
        claims.refuse(connection, trace_id, claims.LIMITED, told)
    bot.slack.fail_next("chat.postEphemeral", **fault)
    with pytest.raises(Again) if count > 1 else nullcontext():
        bot.attempts.run(trace_id)
    bot.attempts.run(trace_id)
    calls = bot.slack.calls("chat.postEphemeral")
    assert [(call.params["text"], call.params["user"]) for call in calls] == [
        ("Too many.", "U1")
    ] * count
    assert (posted(bot), find_trace(bot).outbox) == ([], None)


def test_a_duplicate_that_slack_does_not_let_go_goes_later(bot: Bot) -> None:
    trace_id = claim(bot)
    arrival, outbox = leave(bot, trace_id, "30 days.")
    bot.attempts.run(trace_id)
    put(bot, arrival, outbox, trace_id)  # by a process that was taken for dead
    bot.slack.fail_next("chat.delete", status=429, headers={"Retry-After": "7"})
    with pytest.raises(Again) as raised:
        bot.attempts.run(trace_id)
    assert raised.value.after_s == 7
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["30 days."]


def test_a_message_of_somebody_elses_is_not_taken_for_ours(bot: Bot) -> None:
    trace_id = claim(bot)
    arrival, outbox = leave(bot, trace_id, "30 days.")
    ts = put(bot, arrival, outbox, trace_id)
    bot.slack.workspace.change("C1", ts, {"bot_id": "B0OTHER"})
    bot.attempts.run(trace_id)
    assert sorted(each["bot_id"] for each in posted(bot)) == ["B0BOT", "B0OTHER"]


def test_an_attempt_that_comes_too_late_leaves_no_second_answer(bot: Bot) -> None:
    trace_id, arrived = claim(bot), Event()
    bot.slack.delay("chat.postMessage", arrived)
    stalled = Thread(target=bot.attempts.run, args=(trace_id,))
    stalled.start()
    bot.slack.wait_for_call("chat.postMessage")  # Slack has it, and the process has stopped
    bot.attempts.run(trace_id)  # by who takes it for dead
    arrived.set()
    stalled.join()
    (answer,) = posted(bot)
    trace = find_trace(bot)
    assert (trace.answer_ts, trace.outbox, trace.attempts) == ([answer["ts"]], None, 2)


def test_an_attempt_that_was_overtaken_writes_nothing_more(bot: Bot) -> None:
    trace_id = claim(bot)
    held = bot.answerer.held["how long?"] = Event()
    stalled = Thread(target=bot.attempts.run, args=(trace_id,))
    stalled.start()
    bot.answerer.wait_until_asked("how long?")
    change(bot, "attempts = attempts + 1")
    held.set()
    stalled.join()
    trace = find_trace(bot)
    assert (trace.outcome, trace.answer, posted(bot)) == ("pending", None, [])


def test_what_was_to_grow_when_a_process_died_is_gone_in_the_end(bot: Bot) -> None:
    trace_id = claim(bot)
    begun = claims.begin(bot.database, trace_id)
    assert begun is not None
    client = posting.build_client(bot.slack.bot_token, bot.slack.api_url)
    posting.start_stream(client, replace(begun.arrival, user_team_id="T0001"))
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["You ask: how long?"]


def test_other_messages_of_ours_in_the_thread_stay(bot: Bot) -> None:
    trace_id = claim(bot)
    begun = claims.begin(bot.database, trace_id)
    assert begun is not None
    client = posting.build_client(bot.slack.bot_token, bot.slack.api_url)
    line = blocks.build_notice("Ann has confirmed the page.")
    posting.tell(client, "C1", line, thread_ts=begun.arrival.thread_ts)
    other = claim(bot, "and then?")
    bot.attempts.run(trace_id)
    bot.attempts.run(other)
    assert [each["text"] for each in posted(bot)] == [
        "Ann has confirmed the page.",
        "You ask: how long?",
        "You ask: and then?",
    ]


PASSING = {
    "a limit": {"status": 429, "headers": {"Retry-After": "7"}},
    "an outage": {"status": 503},
    "a fault of Slack's": {"body": {"ok": False, "error": "internal_error"}},
    "a lost connection": {"drop_connection": True},
}


@pytest.mark.parametrize("fault", PASSING)
def test_p26_what_slack_does_not_take_now_is_told_later_and_keeps_nobody_waiting(
    bot: Bot, fault: str
) -> None:
    trace_id = claim(bot)
    bot.slack.fail_next("chat.postMessage", **PASSING[fault])
    with pytest.raises(Again) as again:
        bot.attempts.run(trace_id)
    assert again.value.after_s == (7 if fault == "a limit" else 1)
    assert find_trace(bot).outcome == "answered"
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["You ask: how long?"]
    assert len(bot.answerer.asked.having()) == 1


def test_p26_while_slack_limits_one_channel_others_are_answered(bot: Bot) -> None:
    bot.slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "2"}, times=4)
    for number in range(4):  # as many as are worked on at once
        bot.slack.send_event(bot.mention(f"question {number}?"))
    bot.ended.wait_for(count=4)
    elsewhere = bot.slack.write("<@U0BOT> and here?", channel_id="C2")
    bot.settle(bot.slack.send_event({**elsewhere, "type": "app_mention"}))
    order = [call.params for call in bot.slack.calls("chat.postMessage")][4:]
    assert order[0]["channel"] == "C2" and len(order) == 5
    assert sorted(each["text"] for each in posted(bot)) == [
        f"You ask: question {number}?" for number in range(4)
    ]


def cut_off() -> Exception:
    error = OperationalError("SELECT", None, AdminShutdown("gone"))
    error.__cause__ = error.orig
    return error


@pytest.mark.parametrize(
    "error",
    [
        cut_off(),
        RightsUnknown("Slack does not say."),
        ConnectionResetError("reset"),
    ],
)
def test_what_passes_is_tried_again_and_longer_each_time(bot: Bot, error: Exception) -> None:
    trace_id = claim(bot)
    bot.answerer.answers["how long?"] = error
    waits = []
    for _ in range(3):
        with pytest.raises(Again) as again:
            bot.attempts.run(trace_id)
        waits.append(again.value.after_s)
    assert waits == [1, 2, 4] and posted(bot) == []
    del bot.answerer.answers["how long?"]
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["You ask: how long?"]


def test_what_does_not_pass_is_told_at_once(bot: Bot) -> None:
    trace_id = claim(bot)
    bot.answerer.answers["how long?"] = KeyError("how long?")
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == [FAILURE.format(reference=trace_id)]
    trace = find_trace(bot)
    assert (trace.outcome, trace.error_class, trace.outbox) == ("failed", "KeyError", None)


@pytest.mark.parametrize(
    ("assignment", "values"),
    [
        ("attempts = :most", {"most": MOST_ATTEMPTS}),
        ("asked_at = now() - make_interval(secs => :late)", {"late": LATE_S + 1}),
    ],
)
def test_what_was_tried_too_often_or_for_too_long_is_given_up_with_a_sentence(
    bot: Bot, assignment: str, values: dict[str, object]
) -> None:
    trace_id = claim(bot)
    change(bot, assignment, **values)
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == [LATE.format(reference=trace_id)]
    assert bot.answerer.asked.having() == ()
    assert find_trace(bot).error_class == "Late"


def test_what_was_given_up_is_tried_as_often_when_it_is_asked_again(bot: Bot) -> None:
    trace_id = claim(bot)
    change(bot, "attempts = :most", most=MOST_ATTEMPTS)
    bot.attempts.run(trace_id)
    reopen(bot.database, trace_id, "how long?")
    bot.answerer.answers["how long?"] = ConnectionResetError("reset")
    with pytest.raises(Again) as again:
        bot.attempts.run(trace_id)
    assert again.value.after_s == 1
    del bot.answerer.answers["how long?"]
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == ["You ask: how long?"]


def test_the_last_attempt_is_given_up_whatever_went_wrong(bot: Bot) -> None:
    trace_id = claim(bot)
    change(bot, "attempts = :most", most=MOST_ATTEMPTS - 1)
    bot.answerer.answers["how long?"] = ConnectionResetError("reset")
    bot.attempts.run(trace_id)
    assert [each["text"] for each in posted(bot)] == [FAILURE.format(reference=trace_id)]


def test_what_slack_takes_for_an_hour_from_nobody_is_no_job_for_ever(bot: Bot) -> None:
    trace_id = claim(bot)
    leave(bot, trace_id, "30 days.")
    change(bot, "asked_at = now() - make_interval(secs => :untold)", untold=UNTOLD_S + 1)
    bot.slack.fail_next("chat.postMessage", status=503)
    bot.attempts.run(trace_id)
    assert find_trace(bot).outbox is None


def test_where_nothing_can_be_posted_the_asker_alone_is_told(bot: Bot) -> None:
    trace_id = claim(bot)
    refused = {"ok": False, "error": "restricted_action_thread_locked"}
    bot.slack.fail_next("chat.postMessage", body=refused, times=2)
    bot.attempts.run(trace_id)
    (shown,) = bot.slack.calls("chat.postEphemeral")
    assert shown.params["text"] == FAILURE.format(reference=trace_id)
    trace = find_trace(bot)
    assert (trace.outcome, trace.outbox, trace.error_class) == (
        "failed",
        None,
        SlackApiError.__name__,
    )


def test_what_was_deleted_before_it_was_answered_is_not_answered(bot: Bot) -> None:
    trace_id = claim(bot)
    trace = find_trace(bot)
    with bot.database.unrestricted.transaction() as connection:
        claims.save_deletion(connection, trace.team_id, trace.channel_id, trace.message_ts)
    bot.attempts.run(trace_id)
    assert posted(bot) == [] and bot.answerer.asked.having() == ()
    assert find_trace(bot).outcome == "stopped"


def test_what_was_overheard_is_answered_if_somebody_asks_meanwhile(bot: Bot) -> None:
    trace_id = claim(bot, is_unasked=True)
    held = bot.answerer.held["how long?"] = Event()
    answering = Thread(target=bot.attempts.run, args=(trace_id,))
    answering.start()
    bot.answerer.wait_until_asked("how long?")
    trace = find_trace(bot)
    bot.jobs.take_again(
        Arrival(
            question="how long?",
            surface="slack",
            team_id=trace.team_id,
            channel_id=trace.channel_id,
            message_ts=trace.message_ts,
            thread_ts=trace.thread_ts,
        )
    )
    held.set()
    answering.join()
    assert [each["text"] for each in posted(bot)] == ["You ask: how long?"]


def test_a_question_that_is_gone_is_no_question(bot: Bot) -> None:
    bot.attempts.run(uuid4())
    assert posted(bot) == []


def test_a_database_that_is_away_has_the_question_taken_up_again(bot: Bot) -> None:
    trace_id = claim(bot)
    bot.attempts.database = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with pytest.raises(Again):
        bot.attempts.run(trace_id)
