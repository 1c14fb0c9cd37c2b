"""Installations of many workspaces: found by who writes, kept in the database, refreshed once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import time
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.oauth.installation_store import Bot, Installation
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from app.installations import Installations, OneRotator, find_tenant_id
from retrieval.db import Database
from tests.stand_ins.slack import SlackStandIn


def build_engine(url: str) -> Engine:
    return create_engine(make_url(url).set(drivername="postgresql+psycopg"))


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = build_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def installations(engine: Engine) -> Installations:
    return Installations("1.2", engine)


def build(**said: Any) -> Installation:
    said = {
        **{"app_id": "A1", "user_id": "U1", "team_id": "T1", "enterprise_id": None},
        **{"bot_token": "xoxb-1", "bot_id": "B1", "bot_user_id": "U0", "bot_scopes": "commands"},
        **said,
    }
    return Installation(installed_at=time(), **said)


def find_token(installations: Installations, **by: str | None) -> str | None:
    bot = installations.find_bot(**{"enterprise_id": None, "team_id": None, **by})
    return bot and bot.bot_token


def test_each_workspace_has_a_token_and_an_identity_of_its_own(
    installations: Installations,
) -> None:
    installations.save(build())
    installations.save(build(team_id="T2", bot_token="xoxb-2", bot_user_id="U00"))
    assert find_token(installations, team_id="T1") == "xoxb-1"
    assert find_token(installations, team_id="T2") == "xoxb-2"
    assert find_token(installations, team_id="T3") is None
    second = installations.find_bot(enterprise_id=None, team_id="T2")
    assert second is not None and second.bot_user_id == "U00"


def test_a_workspace_is_found_by_the_installation_of_its_organisation(
    installations: Installations,
) -> None:
    installations.save(build(enterprise_id="E1", team_id=None, is_enterprise_install=True))
    assert find_token(installations, enterprise_id="E1", team_id="T9") == "xoxb-1"
    assert find_token(installations, enterprise_id="E1") == "xoxb-1"
    assert find_token(installations, enterprise_id="E2", team_id="T9") is None
    assert find_token(installations, team_id="T9") is None


def test_a_workspace_that_installed_it_itself_comes_before_its_organisation(
    installations: Installations,
) -> None:
    installations.save(build(enterprise_id="E1", team_id=None, is_enterprise_install=True))
    installations.save(build(enterprise_id="E1", team_id="T9", bot_token="xoxb-9"))
    assert find_token(installations, enterprise_id="E1", team_id="T9") == "xoxb-9"
    assert find_token(installations, enterprise_id="E1", team_id="T8") == "xoxb-1"


@pytest.mark.parametrize(
    ("said", "tenant_id"),
    [
        ({}, "T1"),
        ({"enterprise_id": "E1"}, "T1"),
        ({"enterprise_id": "E1", "team_id": None, "is_enterprise_install": True}, "E1"),
    ],
)
def test_a_tenant_is_the_workspace_or_the_organisation_that_installed_it(
    said: dict[str, Any], tenant_id: str
) -> None:
    assert find_tenant_id(build(**said).to_bot()) == tenant_id


def test_installations_outlive_the_process(installations: Installations, database_url: str) -> None:
    installations.save(build())
    engine = build_engine(database_url)
    assert find_token(Installations("1.2", engine), team_id="T1") == "xoxb-1"
    assert find_token(Installations("another app", engine), team_id="T1") is None
    engine.dispose()


def test_no_tenant_reads_a_token(installations: Installations, database: Database) -> None:
    installations.save(build())
    with database.unrestricted.transaction() as connection:
        for table in ("slack_installations", "slack_bots", "slack_oauth_states"):
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 0
    with pytest.raises(DBAPIError), database.transaction() as connection:
        connection.execute(
            text("INSERT INTO slack_oauth_states (state, expire_at) VALUES ('x', now())")
        )


def rotate(engine: Engine, slack: SlackStandIn, bot: Bot, together: Barrier) -> Bot | None:
    """What a worker of its own has in place of a token that is about to expire."""
    installations = Installations("1.2", engine)
    rotator = OneRotator(installations, client_secret="s", client=WebClient(base_url=slack.api_url))
    together.wait()
    return rotator.perform_bot_token_rotation(bot=bot)


def test_of_two_workers_one_refreshes_a_token_and_both_go_on(
    installations: Installations, engine: Engine, slack: SlackStandIn
) -> None:
    slack.oauth.refresh_tokens = {"xoxe-1"}
    installations.save(build(bot_refresh_token="xoxe-1", bot_token_expires_in=30))
    bot = installations.find_bot(enterprise_id=None, team_id="T1")
    assert bot is not None
    together = Barrier(2)
    with ThreadPoolExecutor(2) as workers:
        begun = [workers.submit(rotate, engine, slack, bot, together) for _ in range(2)]
        first, second = (each.result() for each in begun)
    assert first is not None and second is not None
    assert len(slack.calls("oauth.v2.access")) == 1
    assert first.bot_token == second.bot_token == find_token(installations, team_id="T1")
    assert first.bot_token != "xoxb-1"


def test_a_token_that_lasts_is_left_alone(
    installations: Installations, engine: Engine, slack: SlackStandIn
) -> None:
    bot = build(bot_refresh_token="xoxe-1", bot_token_expires_in=43_200).to_bot()
    assert rotate(engine, slack, bot, Barrier(1)) is None
    assert rotate(engine, slack, build().to_bot(), Barrier(1)) is None  # it does not expire
