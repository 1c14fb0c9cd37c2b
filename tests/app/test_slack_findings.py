"""What doctor says of the Slack app: tokens, scopes, clock."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import installing, slack_findings
from app.config import Settings
from app.slack_findings import LOST_WITHOUT, OPTIONAL
from tests.stand_ins.slack import SlackStandIn

MANIFEST = (Path(__file__).parents[2] / "manifest.yml").read_text(encoding="utf-8")
APP_TOKEN = "xapp-1-A0001-123-abc"


def examine(slack: SlackStandIn, *, ahead_s: float = 0, **more: Any) -> list[str]:
    """Level and text of each finding, on a machine whose clock is that much ahead."""
    settings = Settings(
        **{"slack_bot_token": slack.bot_token, "slack_api_url": slack.api_url, **more}
    )
    found = slack_findings.examine(settings, now=lambda: time.time() + ahead_s)
    return [f"{finding.level}: {finding.text}" for finding in found]


def find(told: list[str], words: str) -> str:
    """The one finding that has these words."""
    (found,) = (each for each in told if words in each)
    return found


def test_the_scopes_are_those_of_the_manifest() -> None:
    asked = yaml.safe_load(MANIFEST)["oauth_config"]["scopes"]["bot"]
    assert set(LOST_WITHOUT) == set(installing.SCOPES) == set(asked)
    commented = re.findall(r"^ +# - ([a-z.]+:[a-z.]+)$", MANIFEST, re.MULTILINE)
    assert sorted(commented) == sorted(OPTIONAL)


def test_an_app_with_all_scopes_is_well(slack: SlackStandIn) -> None:
    slack.workspace.scopes = [*installing.SCOPES, "users:read.email"]
    assert examine(slack, slack_app_token=slack.app_token) == [
        "ok: Slack takes SLACK_BOT_TOKEN, for Stand-in.",
        "ok: The Slack app has all the scopes of manifest.yml.",
        "ok: This machine's clock agrees with Slack's.",
        "ok: Slack takes SLACK_APP_TOKEN, for Socket Mode.",
    ]
    assert len(slack.calls("apps.connections.open")) == 1


def test_missing_scopes_are_told_with_what_does_not_work(slack: SlackStandIn) -> None:
    lost = ("channels:read", "users:read", "reactions:read")
    slack.workspace.scopes = [each for each in installing.SCOPES if each not in lost]
    told = find(examine(slack), "lacks scopes")
    assert told.startswith("error: ") and "install it again" in told
    assert "reactions:read: reactions 👍 and 👎 do not count" in told
    assert "channels:read, users:read: nobody can tell who reads an answer" in told
    assert not any("all the scopes" in each for each in examine(slack))


def test_scopes_too_many_are_noted(slack: SlackStandIn) -> None:
    slack.workspace.scopes = [*installing.SCOPES, *OPTIONAL, "chat:write.customize", "admin"]
    told = find(examine(slack), "no use for")
    assert told.startswith("note: ") and "no use for: admin, chat:write.customize. Remove" in told


def test_channels_need_events_of_which_slack_does_not_tell(slack: SlackStandIn) -> None:
    slack.workspace.scopes = [*installing.SCOPES]
    assert "CHANNELS" not in " ".join(examine(slack))
    told = find(examine(slack, channels={"*": "questions"}), "CHANNELS is set")
    assert told.startswith("note: ") and "the events message.channels" in told


def test_scopes_that_slack_does_not_tell_are_none_that_are_missing(slack: SlackStandIn) -> None:
    assert find(examine(slack), "does not tell which scopes").startswith("note: ")


@pytest.mark.parametrize("error", ["invalid_auth", "token_revoked"])
def test_a_token_that_slack_refuses_is_told_without_it(slack: SlackStandIn, error: str) -> None:
    slack.fail_next("auth.test", body={"ok": False, "error": error})
    (told,) = examine(slack, slack_app_token=slack.app_token)
    assert told.startswith(f"error: Slack does not take SLACK_BOT_TOKEN: {error}. Copy it anew")
    assert slack.bot_token not in told


@pytest.mark.parametrize("status", [429, 503])
def test_slack_that_asks_for_patience_has_refused_nothing(slack: SlackStandIn, status: int) -> None:
    slack.fail_next("auth.test", status=status, headers={"Retry-After": "60"})
    (told,) = examine(slack)
    assert told.startswith("note: Slack did not say whether it takes SLACK_BOT_TOKEN")


def test_slack_that_cannot_be_reached_is_told_once(slack: SlackStandIn) -> None:
    slack.fail_next("auth.test", drop_connection=True)
    (told,) = examine(slack, slack_app_token=slack.app_token)
    assert told.startswith(f"error: Slack does not answer at {slack.api_url}")


def test_a_token_of_a_person_is_none_of_a_bot(slack: SlackStandIn) -> None:
    slack.fail_next("auth.test", body={"ok": True, "team": "Stand-in", "user_id": "U1"})
    (told,) = examine(slack)
    assert told.startswith("error: SLACK_BOT_TOKEN is no bot's token")


def test_an_app_token_that_slack_refuses_is_told(slack: SlackStandIn) -> None:
    told = find(examine(slack, slack_app_token=slack.bot_token), "SLACK_APP_TOKEN")
    assert told.startswith("error: Slack does not take SLACK_APP_TOKEN: not_allowed_token_type.")
    assert "connections:write" in told
    slack.fail_next("apps.connections.open", drop_connection=True)
    told = find(examine(slack, slack_app_token=slack.app_token), "SLACK_APP_TOKEN")
    assert told.startswith("note: Slack did not say")


@pytest.mark.parametrize(("app_id", "is_well"), [("A0001", True), ("A0002", False)])
def test_tokens_of_two_apps_are_told(slack: SlackStandIn, app_id: str, is_well: bool) -> None:
    slack.app_token = APP_TOKEN
    slack.allow("bots.info", {"bot": {"id": "B1", "app_id": app_id}})
    told = find(examine(slack, slack_app_token=APP_TOKEN), "SLACK_APP_TOKEN")
    assert told.startswith("ok: " if is_well else "error: SLACK_APP_TOKEN is of the app A0001")
    assert is_well or "SLACK_BOT_TOKEN of A0002" in told


@pytest.mark.parametrize(
    ("ahead_s", "level", "words"),
    [(2, "ok", "agrees"), (-2, "ok", "agrees"), (20, "note", "ahead of"), (-90, "error", "behind")],
)
def test_a_clock_that_is_off_is_told(
    slack: SlackStandIn, ahead_s: float, level: str, words: str
) -> None:
    told = find(examine(slack, ahead_s=ahead_s), "clock")
    assert told.startswith(f"{level}: ") and words in told


def test_without_a_token_slack_is_not_asked(slack: SlackStandIn) -> None:
    assert examine(slack, slack_bot_token=None) == []
    assert examine(slack, slack_client_id="1.2") == []
    assert not slack.calls("auth.test")
