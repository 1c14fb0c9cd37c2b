"""Everything that a whole run logs, at the lowest level: ids and counts, no words of anybody."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from procrastinate import App, RetryStrategy
from procrastinate.testing import InMemoryConnector
from pydantic import SecretStr
from sqlalchemy import text

from app import claims, logs
from app.answering import Answerer
from app.config import Settings
from app.generate.anthropic import Claude
from app.records import Arrival
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.retrieve import Retriever
from tests.app.test_logs import levels  # noqa: F401, puts back what logs.configure sets
from tests.retrieval.pages import ingest, page
from tests.stand_ins.claude import ClaudeStandIn
from tests.stand_ins.slack import SlackStandIn
from tests.test_question_to_post import serving

QUESTION = "my SSN is 078-05-1120, what is the zanzibar allowance?"
PAGE = "# Zanzibar allowance\n\nThe zanzibar allowance is nine thousand euros.\n"
SECRETS = ("078-05-1120", "SSN", "zanzibar", "Zanzibar", "nine thousand")


@contextmanager
def logging_all(form: logs.Format = "text") -> Iterator[None]:
    """Log as `footnote serve` does at DEBUG, and only so, while the block runs."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    root.handlers.clear()
    logs.configure("DEBUG", form)
    yield
    root.handlers[:] = before
    root.setLevel(level)


def read(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def ask(slack: SlackStandIn, answerer: Answerer, question: str) -> None:
    with serving(slack, answerer):
        event = slack.write(f"<@U0BOT> {question}", channel_id="C1")
        slack.wait_for_ack(slack.send_event({**event, "type": "app_mention", "user_team": "T0001"}))


def test_neither_what_is_asked_nor_what_pages_say_nor_a_token_is_logged(
    retriever: Retriever,
    embedder: Embedder,
    stand_in: ClaudeStandIn,
    slack: SlackStandIn,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = retriever.database
    ingest(database, embedder, page("zanzibar.md", PAGE), source="more")
    settings = Settings(
        anthropic_api_key=SecretStr(stand_in.api_key), anthropic_base_url=stand_in.base_url
    )
    with logging_all(), Claude(settings) as generator:
        answerer = Answerer(retriever=retriever, generator=generator)
        ask(slack, answerer, QUESTION)
        stand_in.fail_next(400)
        ask(slack, answerer, QUESTION)
        refusal = {"ok": False, "error": f"no_text: {QUESTION}"}
        for method in ("chat.postMessage", "chat.startStream", "chat.postEphemeral"):
            slack.fail_next(method, body=refusal, times=4)
        ask(slack, answerer, QUESTION)
    logged = read(capsys)
    assert "Question " in logged and "failed" in logged
    for secret in (*SECRETS, stand_in.api_key, slack.bot_token, slack.app_token):
        assert secret not in logged, [line for line in logged.splitlines() if secret in line]


def test_an_error_of_the_database_quotes_no_value(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    arrival = Arrival(question=QUESTION, surface="slack", channel_id="C1")
    log = logging.getLogger("app.jobs")
    with logging_all():
        for statement in (
            "INSERT INTO traces (tenant_id, surface, question) VALUES ('acme', 'x', :question)",
            "SELECT CAST(:question AS integer)",
            "SELECT CAST(:question AS jsonb)",
        ):
            try:
                with database.transaction() as connection:
                    connection.execute(text(statement), {"question": arrival.question})
            except Exception:
                log.exception("It failed")
    assert claims.claim(database, arrival) is not None
    logged = read(capsys)
    assert logged.count("It failed") == 3
    for secret in SECRETS:
        assert secret not in logged


@pytest.mark.parametrize("form", ["text", "json"])
def test_of_a_job_that_fails_its_ids_are_logged_and_not_why(
    form: logs.Format, capsys: pytest.CaptureFixture[str]
) -> None:
    app = App(connector=InMemoryConnector())

    @app.task(name="answer", retry=RetryStrategy(max_attempts=1))
    def answer(trace_id: str) -> None:
        raise ValueError(QUESTION)

    with logging_all(form):
        answer.defer(trace_id="5eed")
        app.run_worker(wait=False, install_signal_handlers=False, listen_notify=False)
    logged = read(capsys)
    assert "Starting job answer[1](trace_id='5eed')" in logged
    assert "Error, to retry" in logged and "builtins.ValueError" in logged
    for secret in SECRETS:
        assert secret not in logged


@pytest.mark.parametrize(
    ("logger", "words"),
    [
        ("httpx2", "HTTP Request: POST {}"),
        ("sqlalchemy.engine.Engine", "[parameters] {}"),
        ("asyncio", "Using selector: {}"),
        ("markitdown", "could not convert {}"),
        ("urllib3.connectionpool", "https://hooks.example/{}"),
        ("pdfminer.pdfinterp", "add: {}"),
        ("some.library.of.tomorrow", "what it was given: {}"),
    ],
)
def test_what_a_library_says_below_a_warning_is_not_written(
    logger: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_all():
        logging.getLogger(logger).debug(words, QUESTION)
        logging.getLogger(logger).info("%s", words.format(QUESTION))
    assert read(capsys) == ""


def test_a_warning_of_a_library_tells_where_and_not_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logging_all():
        logging.getLogger("markitdown").warning(f"could not convert {QUESTION}")
    logged = read(capsys)
    assert "WARNING markitdown warns in test_logs_hold_no_texts, line " in logged
    assert "SSN" not in logged


def test_a_record_that_cannot_be_written_is_not_shown_either(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logging_all():
        logging.getLogger("app.jobs").error("Question %d failed", QUESTION)
    assert read(capsys) == "A record of app.jobs could not be logged.\n"
