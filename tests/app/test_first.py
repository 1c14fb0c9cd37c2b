"""What is done before Slack is told that an event came."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from sqlalchemy import make_url, text

from app.posting import FAILURE
from app.serve import LISTENER_THREADS
from retrieval.db import Database
from tests.app.bot import Bot, connected, find_rows
from tests.app.callers import SECRET, Caller, sign
from tests.app.test_web import serving
from tests.conftest import Server
from tests.stand_ins import slack_payloads
from tests.stand_ins.slack import SlackStandIn

AGAIN = "Slack is to send an event again"


@contextmanager
def away(server: Server, database_url: str) -> Iterator[None]:
    """The database takes no connection while the block runs."""
    name = make_url(database_url).database
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    try:
        yield
    finally:
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def wait_for_log(caplog: pytest.LogCaptureFixture, count: int = 1) -> None:
    """Return once that was logged so often; AssertionError after 10 s."""
    until = time.monotonic() + 10
    while sum(AGAIN in message for message in caplog.messages) < count:
        assert time.monotonic() < until, caplog.messages
        time.sleep(0.01)


def posts(slack: SlackStandIn) -> list[str]:
    return [call.params["text"] for call in slack.calls("chat.postMessage")]


@pytest.mark.parametrize("is_direct", [False, True], ids=["mention", "message"])
def test_a_question_while_the_database_is_away_is_answered_when_slack_sends_it_again(
    slack: SlackStandIn,
    database: Database,
    server: Server,
    database_url: str,
    caplog: pytest.LogCaptureFixture,
    is_direct: bool,
) -> None:
    with connected(slack, database) as bot:
        event = slack.write("how long?", channel_id="D1") if is_direct else bot.mention("how long?")
        with away(server, database_url):
            envelope_id = slack.send_event(event)
            wait_for_log(caplog)
            again = slack.send_again(envelope_id)
            wait_for_log(caplog, 2)
        assert slack.find_unacknowledged() == (envelope_id, again)
        assert not slack.calls("chat.postMessage")
        bot.settle(slack.send_again(again))
    assert posts(slack) == ["You ask: how long?"]
    assert len(find_rows(database, "traces")) == 1
    assert "how long?" not in caplog.text


def test_so_it_is_over_http(
    slack: SlackStandIn,
    database: Database,
    server: Server,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLACK_SIGNING_SECRET", SECRET)
    bot = Bot(slack, database)
    payload = json.dumps(slack_payloads.event_callback(bot.mention("how long?"), "Ev1"))
    headers = {"Content-Type": "application/json", **sign(payload)}
    with serving(bot) as caller:
        with away(server, database_url):
            assert deliver(caller, payload, headers, 0) == 503
        assert deliver(caller, payload, headers, 1) == 200
    bot.settle()
    assert posts(slack) == ["You ask: how long?"]


def deliver(caller: Caller, payload: str, headers: dict[str, str], number: int) -> int:
    retry = {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": "http_error"}
    return caller.post(payload, headers | (retry if number else {})).status


def test_after_the_last_time_the_asker_is_told(
    slack: SlackStandIn,
    database: Database,
    server: Server,
    database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with connected(slack, database) as bot:
        with away(server, database_url):
            envelope_id = slack.send_event(bot.mention("how long?"))
            for count in range(1, 4):
                wait_for_log(caplog, count)
                envelope_id = slack.send_again(envelope_id)
            slack.wait_for_ack(envelope_id)
            (call,) = slack.wait_for_call("chat.postMessage")
        bot.settle()
    assert call.params["text"].startswith(FAILURE.split("{reference}")[0])
    assert len(posts(slack)) == 1


def test_after_the_last_time_of_a_mention_that_comes_twice_the_asker_is_told_once(
    slack: SlackStandIn,
) -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with connected(slack, gone, channels={"C1": "follow-ups"}) as bot:
        root = slack.write("hello", channel_id="C1")
        mention = bot.mention("how long?", thread_ts=root["ts"])
        events = [mention, {**mention, "type": "message"}]
        bot.settle(*[slack.send_event(each, retry_attempt=3) for each in events])
    assert len(posts(slack)) == 1


def test_what_is_not_taken_in_time_is_sent_again_and_answered_once(
    slack: SlackStandIn, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(slack, database) as bot:
        with database.engine.begin() as connection:
            connection.execute(text("LOCK TABLE traces"))
            envelope_id = slack.send_event(bot.mention("how long?"))
            wait_for_log(caplog)
        slack.wait_for_call("chat.postMessage")  # it was begun, and is done yet
        assert slack.find_unacknowledged() == (envelope_id,)
        bot.settle(slack.send_again(envelope_id))
    assert f"{AGAIN}: Late" in caplog.text
    assert posts(slack) == ["You ask: how long?"]


def test_what_does_not_pass_by_itself_is_told_at_once_and_not_sent_again(
    slack: SlackStandIn, database: Database
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE traces RENAME TO gone"))
    with connected(slack, database) as bot:
        slack.wait_for_ack(slack.send_event(bot.mention("how long?")))
        bot.settle()
    assert len(posts(slack)) == 1


def test_a_vote_while_the_database_is_away_counts_when_slack_sends_it_again(
    slack: SlackStandIn,
    database: Database,
    server: Server,
    database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with connected(slack, database) as bot:
        answer = bot.ask("how long?")
        item = {"type": "message", "channel": "C1", "ts": answer["ts"]}
        reaction = {"user": "U1", "reaction": "+1", "item": item, "event_ts": "1800000000.000001"}
        with away(server, database_url):
            envelope_id = slack.send_event({"type": "reaction_added", **reaction})
            wait_for_log(caplog)
        assert slack.find_unacknowledged() == (envelope_id,)
        bot.settle(slack.send_again(envelope_id))
    assert [row.vote for row in find_rows(database, "feedback")] == [1]
    assert len(slack.calls("chat.postEphemeral")) == 1


@pytest.mark.parametrize("count", [60, 200])
def test_p06_a_burst_is_acknowledged_in_time(
    slack: SlackStandIn, database: Database, count: int
) -> None:
    questions = [f"question {number}?" for number in range(count)]
    with connected(slack, database) as bot:
        envelopes = [slack.send_event(bot.mention(question)) for question in questions]
        acks = [slack.wait_for_ack(each).ack_seconds for each in envelopes]
        bot.settle()
    print(f"of {count}, the last was acknowledged after {max(acks):.2f} s")
    assert max(acks) < 3
    assert sorted(posts(slack)) == sorted(f"You ask: {question}" for question in questions)


def test_events_are_taken_while_all_of_bolts_threads_wait(
    slack: SlackStandIn, database: Database
) -> None:
    held = Event()
    with connected(slack, database) as bot:
        for _ in range(LISTENER_THREADS):
            bot.app.listener_runner.listener_executor.submit(held.wait, 20)
        ack = slack.wait_for_ack(slack.send_event(bot.mention("how long?")))
        slack.wait_for_call("chat.postMessage")
        held.set()
        bot.settle()
    assert ack.ack_seconds < 3
