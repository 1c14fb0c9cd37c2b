"""`footnote eval --cases`, as it is typed, and what `footnote serve` does by itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr
from sqlalchemy import text

from app import serve
from app.cli import main
from app.config import Settings
from app.loop import casefiles
from retrieval.db import Database
from retrieval.errors import ConfigError
from tests.app.nights import REPORT_CHANNEL
from tests.conftest import SAMPLE
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.tracker import TrackerStandIn


def footnote(url: str, *arguments: str, **environment: str) -> Result:
    environment = {"DATABASE_URL": url, "TENANT_ID": "acme", **environment}
    return CliRunner().invoke(main, ["eval", *arguments], env=environment)


def load(url: str, *arguments: str, **environment: str) -> Any:
    result = footnote(url, *arguments, "--json", **environment)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def approved(indexed: Database, tmp_path: Path) -> Database:
    """The sample documents, with twelve cases approved."""
    lines = (SAMPLE / "cases.jsonl").read_text("utf-8").splitlines()[:12]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    casefiles.import_file(indexed, path, "U9")
    return indexed


@pytest.fixture
def tracker() -> Iterator[TrackerStandIn]:
    with TrackerStandIn() as stand_in:
        yield stand_in


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--cases", "cases.jsonl"],
        ["cases.jsonl", "--post"],
        ["--cases", "--post", "--set", "keep=4"],
    ],
)
def test_options_that_do_not_go_together_are_refused(
    database_url: str, arguments: list[str]
) -> None:
    assert footnote(database_url, *arguments).exit_code == 2


def test_without_an_approved_case_there_is_nothing_to_run(indexed_url: str) -> None:
    result = footnote(indexed_url, "--cases")
    assert result.exit_code == 1
    assert "No case is approved yet" in result.stderr


def test_the_approved_cases_are_measured_and_compared(
    approved: Database, indexed_url: str, tmp_path: Path
) -> None:
    first = load(indexed_url, "--cases")
    assert (first["cases"], first["means"]["all"]["cases"]) == ("cases", 12)
    page, dump = tmp_path / "page.html", tmp_path / "dump.jsonl"
    files = ("--report", str(page), "--dump", str(dump))
    second = load(indexed_url, "--cases", "--compare", "last", "--answers", *files)
    assert second["comparison"]["run_id"] == first["run_id"]
    assert second["comparison"]["common"] == 12
    assert "quoted" in second["means"]["all"]
    assert len(dump.read_text("utf-8").splitlines()) == 12
    assert f"Against run {first['run_id']}" in page.read_text("utf-8")


def test_a_run_is_posted_only_when_that_is_asked_for(
    approved: Database, indexed_url: str, slack: SlackStandIn, tracker: TrackerStandIn
) -> None:
    environment = {
        "REPORT_CHANNEL": REPORT_CHANNEL,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_API_URL": slack.api_url,
        "TICKETS": tracker.webhook_url,
    }
    load(indexed_url, "--cases", **environment)
    assert slack.messages(REPORT_CHANNEL) == []
    load(indexed_url, "--cases", "--post", **environment)
    with approved.transaction() as connection:
        connection.execute(text("DELETE FROM documents"))
    load(indexed_url, "--cases", "--post", **environment)
    first, digest, report = slack.messages(REPORT_CHANNEL)
    assert "Run 2" in str(first["blocks"]) and "The week to" in str(digest["blocks"])
    assert "Fallen beyond noise" in report["blocks"][1]["text"]["text"]
    assert [event["event"] for event in tracker.events.having()] == ["opened"]


def test_an_index_that_does_not_fit_is_told_or_posted(
    approved: Database, indexed_url: str, tracker: TrackerStandIn
) -> None:
    load(indexed_url, "--cases", "--post", TICKETS=tracker.webhook_url)
    with approved.transaction() as connection:
        connection.execute(text("UPDATE generations SET chunker = 'other'"))
    result = footnote(indexed_url, "--cases")
    assert result.exit_code == 1 and "The index does not fit" in result.stderr
    assert tracker.events.having() == ()
    run = load(indexed_url, "--cases", "--post", TICKETS=tracker.webhook_url)
    assert run["means"]["all"]["recall@5"] == 0
    assert [event["event"] for event in tracker.events.having()] == ["opened"]


def test_nobody_to_tell_is_told_before_anything_is_run(
    approved: Database, indexed_url: str
) -> None:
    result = footnote(indexed_url, "--cases", "--post")
    assert result.exit_code == 1
    assert "Set REPORT_CHANNEL, TICKETS or both" in result.stderr


def test_a_tracker_without_its_token_is_told_when_the_bot_starts() -> None:
    settings = Settings(
        slack_bot_token=SecretStr("xoxb-1"),
        slack_app_token=SecretStr("xapp-1"),
        tickets="github:acme/wiki",
    )
    with pytest.raises(ConfigError, match="set GITHUB_TOKEN"):
        serve.run(settings)
