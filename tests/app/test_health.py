"""How the parts are, as whoever keeps Footnote running sees them."""

import time
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from sqlalchemy import make_url

from app import health, posting
from app.health import Check, Health
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.retrieve import Retriever
from tests.conftest import Server
from tests.stand_ins.slack import SlackStandIn


def build_health(times: list[float], **probes: health.Probe) -> Health:
    return Health(Event(), probes, now=lambda: times[-1])


WELL = Check(is_ok=True, text="It is well.")


def test_each_part_is_looked_at_once_a_second_however_many_ask() -> None:
    times, looks = [1000.0], [0]

    def look() -> Check:
        looks[0] += 1
        return WELL

    state = build_health(times, worker=look)
    for times[-1] in (1000.0, 1000.9, 1001.0, 1001.9):
        assert state.look().checks == {"worker": WELL}
    assert looks == [2]
    state.add("queue", lambda: WELL)
    assert state.look().checks == {"worker": WELL, "queue": WELL}


def test_a_part_that_does_not_answer_counts_as_before_and_soon_as_unwell() -> None:
    times, held, looks = [1000.0], Event(), [0]
    held.set()

    def look() -> Check:
        looks[0] += 1
        assert held.wait(10)
        return WELL

    state = build_health(times, database=look, worker=lambda: WELL)
    assert state.look().is_ready
    held.clear()
    times.append(1004)
    assert state.look().is_ready
    times.append(1005)
    report = state.look()
    assert (report.is_ready, report.is_live) == (False, True)
    assert report.reasons == ["database: It does not answer."]
    assert report.checks["worker"] == WELL
    assert looks == [2]  # what hangs is not asked again
    held.set()
    times.append(1010)
    assert state.look().is_ready


def test_before_a_part_has_answered_it_is_not_ready() -> None:
    held = Event()

    def look() -> Check:
        assert held.wait(10)
        return WELL

    state = build_health([1000.0], models=look)
    assert state.look().reasons == ["models: It does not answer."]
    held.set()


def test_a_part_that_cannot_be_looked_at_is_unwell(caplog: pytest.LogCaptureFixture) -> None:
    def look() -> Check:
        raise RuntimeError("secret")

    state = build_health([1000.0], worker=look)
    assert state.look().reasons == ["worker: It cannot be looked at: RuntimeError."]
    assert "How worker is cannot be told" in caplog.text


def test_a_database_that_takes_no_writes_is_unwell(
    database: Database, server: Server, database_url: str
) -> None:
    assert health.check_database(database).is_ok
    name = make_url(database_url).database
    server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    database.close()  # as when another server takes over
    check = health.check_database(database)
    assert (check.is_ok, check.text) == (False, "It is read-only: no question can be taken.")
    server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


def test_p86_it_is_not_ready_before_the_model_of_the_index_is_loaded(
    retriever: Retriever, mirrored: Embedder
) -> None:
    assert health.check_models(retriever).is_ok
    elsewhere = replace(retriever, embedder=mirrored)
    check = health.check_models(elsewhere)
    assert (check.is_ok, check.text) == (False, "That of the index is not loaded.")


def test_of_models_nothing_is_known_while_the_database_is_away(retriever: Retriever) -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    assert not health.check_models(replace(retriever, database=gone)).is_ok


REVOKED = {"ok": False, "error": "token_revoked"}


def build_check(slack: SlackStandIn, times: list[float]) -> health.TokenCheck:
    client = posting.build_client(slack.bot_token, slack.api_url)
    return health.TokenCheck(client, now=lambda: times[-1])


@pytest.mark.parametrize("error", health.TOKEN_REFUSALS)
def test_a_token_that_slack_no_longer_takes_is_noticed(slack: SlackStandIn, error: str) -> None:
    times = [1000.0]
    check = build_check(slack, times)
    assert check.look().is_ok
    slack.fail_next("auth.test", body={"ok": False, "error": error})
    times.append(1059)
    assert check.look().is_ok  # as Slack said last
    times.append(1060)
    assert [check.look().is_ok for _ in range(3)] == [False] * 3
    assert len(slack.calls("auth.test")) == 2  # however often it is asked for
    times.append(1120)
    assert check.look().is_ok


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
    assert check.look().is_ok
    slack.fail_next("auth.test", body=REVOKED)
    times.append(1060)
    assert not check.look().is_ok
    slack.fail_next("auth.test", **fault)
    times.append(1120)
    assert not check.look().is_ok


def test_health_waits_for_slack_only_shortly(slack: SlackStandIn) -> None:
    answered = Event()
    slack.delay("auth.test", answered)
    began = time.monotonic()
    assert build_check(slack, [1000.0]).look().is_ok
    assert time.monotonic() - began < 10  # slack_sdk's default is 30
    answered.set()
