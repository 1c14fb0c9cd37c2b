"""`footnote trace`, as it is typed."""

import json

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from retrieval.db import Database
from tests.app.questions import ask


def run(url: str, *arguments: str) -> Result:
    environment = {"DATABASE_URL": url, "TENANT_ID": "acme"}
    return CliRunner().invoke(main, arguments, env=environment)


@pytest.mark.model
def test_the_story_of_a_question_that_was_asked_is_told(indexed_url: str) -> None:
    question = "what does err 2041 mean?"
    asked = json.loads(run(indexed_url, "ask", question, "--json").stdout)
    told = run(indexed_url, "trace", asked["trace_id"])
    assert told.exit_code == 0 and told.stderr == ""
    assert told.stdout.startswith(f"Question {asked['trace_id']}: answered\n\n> {question}\n\n")
    for words in ("asked in a terminal", "generator quoted, citing", "total"):
        assert words in told.stdout
    story = json.loads(run(indexed_url, "trace", asked["trace_id"][:8], "--json").stdout)
    assert (story["trace_id"], story["question"]) == (asked["trace_id"], question)
    assert [each["path"] for each in story["kept"]] == [each["doc"] for each in asked["kept"]]
    assert story["stage_ms"] == asked["stage_ms"]


def test_a_question_that_is_not_there_is_an_error_of_one_line(
    database: Database, database_url: str
) -> None:
    ask(database)
    result = run(database_url, "trace", "00000000")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: No question is known by '00000000'.")
    result = run(database_url, "trace", "everything")
    assert result.exit_code == 1 and "'everything' is no reference" in result.stderr
