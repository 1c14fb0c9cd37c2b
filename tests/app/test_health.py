"""Whether Slack reaches us and takes our token."""

import logging
import socket
import time
from threading import Event
from typing import Any

import pytest
from slack_sdk.socket_mode.builtin.connection import Connection

from app import health, posting
from retrieval.db import Database
from tests.app.bot import Bot
from tests.stand_ins.slack import SlackStandIn


def test_it_hears_while_the_connection_is_alive(slack: SlackStandIn, database: Database) -> None:
    pulse = health.Pulse()
    with slack.connected(Bot(slack, database).app) as handler:
        assert pulse.is_hearing(handler.client.current_session)
    assert not pulse.is_hearing(handler.client.current_session)
    assert not pulse.is_hearing(None)


def test_it_is_deaf_when_nothing_was_heard_for_a_minute() -> None:
    times = [1000.0]
    pulse = health.Pulse(now=lambda: times[-1])
    session = Connection("ws://127.0.0.1:1", logging.getLogger("deaf"))  # has heard nothing yet
    with socket.socket() as session.sock:
        times.append(1059)
        assert pulse.is_hearing(session)
        times.append(1060)  # P17: nor does one new connection after the other make it hear
        assert not pulse.is_hearing(session)
        pulse.note("hello")
        assert pulse.is_hearing(session)
        session.last_ping_pong_time = 1110
        times.append(1169)
        assert pulse.is_hearing(session)
        times.append(1170)
        assert not pulse.is_hearing(session)


REVOKED = {"ok": False, "error": "token_revoked"}


def build_check(slack: SlackStandIn, times: list[float]) -> health.TokenCheck:
    client = posting.build_client(slack.bot_token, slack.api_url)
    return health.TokenCheck(client, now=lambda: times[-1])


@pytest.mark.parametrize("error", health.TOKEN_REFUSALS)
def test_a_token_that_slack_no_longer_takes_is_noticed(slack: SlackStandIn, error: str) -> None:
    times = [1000.0]
    check = build_check(slack, times)
    assert check.is_taken()
    slack.fail_next("auth.test", body={"ok": False, "error": error})
    times.append(1059)
    assert check.is_taken()  # as Slack said last
    times.append(1060)
    assert [check.is_taken() for _ in range(3)] == [False] * 3
    assert len(slack.calls("auth.test")) == 2  # however often it is asked for
    times.append(1120)
    assert check.is_taken()


@pytest.mark.parametrize(
    "fault",
    [{"status": 429, "headers": {"Retry-After": "60"}}, {"drop_connection": True}, {"status": 500}],
    ids=["limited", "lost", "broken"],
)
def test_what_says_nothing_of_the_token_changes_nothing(
    slack: SlackStandIn, fault: dict[str, Any]
) -> None:
    times = [1000.0]
    check = build_check(slack, times)
    slack.fail_next("auth.test", **fault)
    assert check.is_taken()
    slack.fail_next("auth.test", body=REVOKED)
    times.append(1060)
    assert not check.is_taken()
    slack.fail_next("auth.test", **fault)
    times.append(1120)
    assert not check.is_taken()


def test_health_waits_for_slack_only_shortly(slack: SlackStandIn) -> None:
    answered = Event()
    slack.delay("auth.test", answered)
    began = time.monotonic()
    assert build_check(slack, [1000.0]).is_taken()
    assert time.monotonic() - began < 10  # slack_sdk's default is 30
    answered.set()
