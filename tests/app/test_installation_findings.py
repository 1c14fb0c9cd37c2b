"""What doctor says of the workspaces that have installed the app."""

from time import time
from typing import Any

import pytest

from app import installation_findings, installing
from app.config import Settings
from app.installations import Installations
from retrieval.db import Database
from tests.app.test_installations import build

ALL = ",".join(installing.SCOPES)


def examine(database: Database, *installed: dict[str, Any]) -> list[str]:
    """Level and text of each finding, where these workspaces have installed the app."""
    installations = Installations("1.2", database.engine)
    for each in installed:
        installations.save(build(**{"bot_scopes": ALL, **each}))
    settings = Settings(slack_client_id="1.2")
    found = installation_findings.examine(database.engine, settings)
    return [f"{finding.level}: {finding.text}" for finding in found]


def test_an_app_for_one_workspace_has_none(database: Database) -> None:
    assert list(installation_findings.examine(database.engine, Settings())) == []


def test_that_nobody_has_installed_the_app_is_noted(database: Database) -> None:
    (told,) = examine(database)
    assert told.startswith("note: No workspace has installed the app: /slack/install ")


def test_installations_with_all_scopes_are_well(database: Database) -> None:
    lasting = {"bot_refresh_token": "xoxe-1", "bot_token_expires_at": int(time()) + 60}
    told = examine(database, {}, {"team_id": "T2", **lasting})
    assert told == ["ok: The app has its scopes in 2 workspaces."]


def test_p51_tokens_that_were_not_refreshed_are_an_error(database: Database) -> None:
    ended = {"bot_refresh_token": "xoxe-1", "bot_token_expires_at": int(time()) - 60}
    (told,) = examine(database, {"team_id": "T7", **ended}, {"team_id": "T2"})
    assert told.startswith("error: 1 token of Slack lasted for 12 hours and ended, those of T7:")


@pytest.mark.parametrize("lost", [installing.SCOPES[0], installing.SCOPES[-1]])
def test_installations_with_fewer_scopes_are_an_error(database: Database, lost: str) -> None:
    fewer = ",".join(scope for scope in installing.SCOPES if scope != lost)
    installed = [{"team_id": f"T{number}", "bot_scopes": fewer} for number in range(7)]
    (told,) = examine(database, *installed, {"team_id": "T9"})
    assert told.startswith("error: The app was installed without scopes that manifest.yml has, ")
    assert f"has, {lost}, in T0, T1, T2, T3, T4 and 2 more: have it installed again" in told
