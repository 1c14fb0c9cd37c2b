"""What is served over HTTP: to Slack, to whoever keeps Footnote running, to Prometheus."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from slack_bolt import Ack
from sqlalchemy import make_url

from app import health, web
from app.health import Check, Health, Probe
from app.metrics import Metrics
from retrieval.db import Database
from retrieval.errors import ConfigError
from tests.app.bot import Bot, find_rows
from tests.app.callers import FORM, SECRET, Caller, Reply, sign
from tests.conftest import Server
from tests.stand_ins import slack_payloads
from tests.stand_ins.slack import SlackStandIn


@pytest.fixture
def bot(slack: SlackStandIn, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    """The bot as it is set up for HTTP, not connected."""
    monkeypatch.setenv("SLACK_SIGNING_SECRET", SECRET)
    bot = Bot(slack, database)
    yield bot
    bot.settle()


def build_health(database: Database, stop: Event | None = None, **probes: Probe) -> Health:
    return Health(stop or Event(), {"database": partial(health.check_database, database), **probes})


@contextmanager
def serving(bot: Bot, metrics: Metrics | None = None) -> Iterator[Caller]:
    pages = web.build_web(build_health(bot.database), metrics or Metrics(), bolt=bot.app)
    with web.listening(pages, "127.0.0.1", 0) as port:
        yield Caller(port)


def build_mention(question: str) -> dict[str, Any]:
    """A mention that nobody wrote in the stand-in."""
    message = slack_payloads.message(
        channel_id="C1", user_id="U1", text=f"<@U0BOT> {question}", ts="1767225600.000900"
    )
    return slack_payloads.event_callback({**message, "type": "app_mention"}, "Ev9")


def assert_nothing_came_of_it(bot: Bot) -> None:
    bot.settle()
    assert bot.slack.calls("chat.postMessage") == bot.slack.calls("reactions.add") == ()
    assert find_rows(bot.database, "traces") == []


def test_a_mention_over_http_is_answered_in_its_thread(bot: Bot) -> None:
    event = bot.mention("how long?")
    with serving(bot) as caller:
        reply = caller.send(slack_payloads.event_callback(event, "Ev1"))
        assert (reply.status, reply.body) == (200, "")
        (call,) = bot.slack.wait_for_call("chat.postMessage")
    bot.settle()
    assert call.params["thread_ts"] == event["ts"]
    assert call.params["text"] == "You ask: how long?"
    assert find_rows(bot.database, "traces")[0].outcome == "answered"


def test_a_mention_that_slack_sends_again_is_answered_once(bot: Bot) -> None:
    payload = slack_payloads.event_callback(bot.mention("how long?"), "Ev1")
    with serving(bot) as caller:
        assert {caller.send(payload).status for _ in range(3)} == {200}
    bot.settle()
    assert len(bot.slack.calls("chat.postMessage")) == 1


def test_a_command_over_http_is_answered(bot: Bot) -> None:
    command = slack_payloads.slash_command(
        command="/ragstats",
        text="help",
        user_id="U1",
        channel_id="C1",
        trigger_id="1.1.a",
        response_url=bot.slack.api_url.replace("/api/", "/response/R1"),
    )
    with serving(bot) as caller:
        assert caller.submit(command).status == 200
        (call,) = bot.slack.wait_for_call("response_url")
    assert "/ragstats" in call.params["text"]


def test_slack_is_answered_when_it_verifies_the_url(bot: Bot) -> None:
    with serving(bot) as caller:
        reply = caller.send({"type": "url_verification", "token": "t", "challenge": "3eZbrw1a"})
    assert (reply.status, json.loads(reply.body)) == (200, {"challenge": "3eZbrw1a"})


def test_slack_is_answered_when_it_checks_the_certificate(bot: Bot) -> None:
    with serving(bot) as caller:
        assert caller.submit({"ssl_check": "1", "token": "t"}).status == 200
        assert caller.post("ssl_check=1&token=t", {"Content-Type": FORM}).status == 401


def test_a_verification_token_in_the_environment_decides_nothing(
    slack: SlackStandIn, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_SIGNING_SECRET", SECRET)
    monkeypatch.setenv("SLACK_VERIFICATION_TOKEN", slack_payloads.TOKEN)
    bot = Bot(slack, database)
    check = {"ssl_check": "1", "token": slack_payloads.TOKEN}
    with serving(bot) as caller:
        assert caller.submit(check).status == 200
    bot.settle()


@pytest.mark.parametrize("how", [{"secret": "another"}, {"age_s": 301}, {"age_s": -301}])
def test_a_wrong_signature_or_an_old_one_is_refused(bot: Bot, how: dict[str, Any]) -> None:
    with serving(bot) as caller:
        reply = caller.send(build_mention("how long?"), **how)
    assert (reply.status, reply.body) == (401, "")
    assert_nothing_came_of_it(bot)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Slack-Signature": "v0=" + 64 * "0"},
        {"X-Slack-Request-Timestamp": "now", "X-Slack-Signature": "v0=" + 64 * "0"},
        {"X-Slack-Request-Timestamp": "", "X-Slack-Signature": "v0=" + 64 * "0"},
        {"X-Slack-Request-Timestamp": "9" * 5_000, "X-Slack-Signature": "v0=" + 64 * "0"},
        {"X-Slack-Signature": "v0=é"},
    ],
)
def test_headers_that_cannot_be_compared_are_refused_and_told_to_nobody(
    bot: Bot, headers: dict[str, str]
) -> None:
    body = json.dumps(build_mention("how long?"))
    now = {"X-Slack-Request-Timestamp": str(int(time.time()))}
    with serving(bot) as caller:
        assert caller.post(body, {"Content-Type": "application/json", **headers}).status == 401
        assert caller.post(body, now | headers).status == 401
    assert_nothing_came_of_it(bot)


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"payload=%7B", b'{"team": 1}'])
def test_what_cannot_be_parsed_is_refused(bot: Bot, body: bytes) -> None:
    with serving(bot) as caller:
        assert caller.post(body, {"Content-Type": "application/json"}).status in (400, 401)
    assert_nothing_came_of_it(bot)


def test_a_body_without_end_is_not_read_to_it(bot: Bot) -> None:
    body = b" " * (web.MAX_BODY + 1)
    with serving(bot) as caller:
        assert caller.post(body, sign(body)).status == 413


def test_a_refused_request_is_logged_without_its_text(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with serving(bot) as caller:
        caller.send(build_mention("my SSN is 078-05-1120"), secret="another")
    assert "Refused a request" in caplog.text and "078-05" not in caplog.text


def test_only_slack_posts_and_only_to_its_path(bot: Bot) -> None:
    with serving(bot) as caller:
        assert caller.get(web.EVENTS_PATH).status == 405
        assert caller.get("/").status == 404


def test_while_one_listener_hesitates_others_are_served(bot: Bot) -> None:
    begun, held = Event(), Event()

    def slow(ack: Ack) -> None:
        begun.set()
        assert held.wait(10)
        ack("done")

    bot.app.command("/slow")(slow)
    with serving(bot) as caller, ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(caller.submit, {"command": "/slow", "team_id": "T0001"})
        assert begun.wait(10)
        assert caller.get("/healthz").status == 200
        held.set()
        assert waiting.result(10).body == "done"


def test_it_is_ready_while_the_database_answers(
    bot: Bot, server: Server, database_url: str
) -> None:
    name = make_url(database_url).database
    with serving(bot) as caller:
        reply = caller.get("/healthz")
        assert (reply.status, json.loads(reply.body)) == (
            200,
            {
                "live": True,
                "ready": True,
                "reasons": [],
                "parts": {"database": {"ok": True, "text": "It answers, and takes writes."}},
            },
        )
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        reply = wait_for_status(caller, "/healthz/ready", 503)
        assert json.loads(reply.body)["reasons"] == [
            "database: It does not answer: OperationalError."
        ]
        assert caller.get("/healthz").status == 503
        # To start anew would not bring it back.
        assert caller.get("/healthz/live").status == caller.get("/metrics").status == 200
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        wait_for_status(caller, "/healthz", 200)


def wait_for_status(caller: Caller, path: str, status: int) -> Reply:
    """The first answer with that status; AssertionError after 10 s."""
    until = time.monotonic() + 10
    while (reply := caller.get(path)).status != status:
        assert time.monotonic() < until, reply
        time.sleep(0.05)
    return reply


def test_it_is_not_ready_at_once_when_it_stops(database: Database) -> None:
    stop = Event()
    pages = web.build_web(build_health(database, stop), Metrics())
    with web.listening(pages, "127.0.0.1", 0) as port:
        assert Caller(port).get("/healthz/ready").status == 200
        stop.set()
        reply = Caller(port).get("/healthz/ready")
        assert (reply.status, json.loads(reply.body)["reasons"]) == (503, ["Footnote stops."])
        assert Caller(port).get("/healthz/live").status == 200


def test_it_is_not_live_where_only_a_new_start_helps(database: Database) -> None:
    state = build_health(database, slack=lambda: Check(is_ok=False, text="Deaf.", is_live=False))
    with web.listening(web.build_web(state, Metrics()), "127.0.0.1", 0) as port:
        assert Caller(port).get("/healthz/live").status == 503
        reply = Caller(port).get("/healthz")
        assert (reply.status, json.loads(reply.body)["reasons"]) == (503, ["slack: Deaf."])
        assert Caller(port).post("{}", {}).status == 404  # events come by Socket Mode


def test_metrics_are_what_prometheus_reads(bot: Bot) -> None:
    metrics = Metrics()
    metrics.questions.labels("answered").inc(3)
    metrics.answer_seconds.observe(1.5)
    with serving(bot, metrics) as caller:
        reply = caller.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(reply.body)
        for sample in family.samples
    }
    assert samples["footnote_questions_total", "answered"] == 3
    assert samples["footnote_questions_total", "failed"] == 0
    assert samples["footnote_questions_in_flight",] == 0
    assert samples["footnote_answer_seconds_bucket", "1.0"] == 0
    assert samples["footnote_answer_seconds_bucket", "2.0"] == 1
    assert samples["footnote_answer_seconds_sum",] == 1.5


def test_it_stops_listening_and_may_begin_again(bot: Bot) -> None:
    with serving(bot) as caller:
        assert caller.get("/healthz").status == 200
    with pytest.raises(ConnectionRefusedError):
        caller.get("/healthz")
    pages = web.build_web(build_health(bot.database), Metrics())
    with web.listening(pages, "127.0.0.1", caller.port) as port:
        assert Caller(port).get("/healthz").status == 200


def test_an_address_that_is_not_to_be_had_is_told(database: Database) -> None:
    pages = web.build_web(build_health(database), Metrics())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1, port {port}: "):
            with web.listening(pages, "127.0.0.1", port):
                pass
    with pytest.raises(ConfigError, match=r"cannot listen on no-host\.invalid, port 0: "):
        with web.listening(pages, "no-host.invalid", 0):
            pass
