"""The work on each question, on threads of our own, so that none waits for another."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from typing import Protocol
from uuid import UUID, uuid4

from slack_sdk import WebClient

from app import blocks, posting, traces, turns
from app.records import Answer, Arrival, Turn
from retrieval.db import Database
from retrieval.errors import FootnoteError

NOTHING_ASKED = Answer(
    text="Ask me a question and I look for the answer in our documents. Mention me with it, "
    "or write to me directly: “How many days of leave can I carry over?”"
)

log = logging.getLogger(__name__)


class Answering(Protocol):
    """What answers a conversation and completes its trace, or raises."""

    def answer(self, turns: tuple[Turn, ...], trace_id: UUID) -> Answer: ...


class Stopped(FootnoteError):
    """Footnote was stopped before the answer was ready; asking again later helps."""


class Jobs:
    """The questions being worked on."""

    def __init__(
        self, *, client: WebClient, database: Database, answerer: Answering, executor: Executor
    ) -> None:
        self._client = client
        self._database = database
        self._answerer = answerer
        self._executor = executor
        self._lock = threading.Lock()
        self._open: dict[Future[None], tuple[Arrival, UUID]] = {}

    def take(self, arrival: Arrival) -> None:
        """Start on a question and return; nothing happens when a delivery of it was taken before.

        Slack delivers a mention in two events and repeats what it thinks is lost, perhaps to
        another process or after a restart: only the claim in the database decides.
        """
        trace_id = traces.claim(self._database, arrival)
        if trace_id is None:
            return
        log.info("Question %s in %s", trace_id, arrival.channel_id)
        posting.show_working(self._client, arrival)
        with self._lock:
            job = self._executor.submit(self._work, arrival, trace_id)
            self._open[job] = (arrival, trace_id)
        job.add_done_callback(self._forget)

    def fail(self, error: Exception, arrival: Arrival, trace_id: UUID | None) -> None:
        """The one broad handler: log the traceback, tell the asker, complete the trace.

        Nothing of the question or of the error's text reaches Slack.
        """
        reference = trace_id or uuid4()
        log.error("Question %s failed", reference, exc_info=error)
        if trace_id is not None:
            with _despite_errors("complete the trace"):
                traces.save_failure(self._database, trace_id, type(error).__name__)
        if not isinstance(error, posting.PostLost):  # the answer may stand there
            with _despite_errors("tell the asker"):
                posting.post_failure(self._client, arrival, reference)

    def close(self, timeout_s: float) -> None:
        """Finish what is begun; what is not done in time, or not begun, is told to its asker."""
        self._executor.shutdown(wait=False)
        with self._lock:
            left = dict(self._open)
        for job in wait(left, timeout_s).not_done:
            job.cancel()
            self.fail(Stopped("Footnote was stopped."), *left[job])
            posting.clear_working(self._client, left[job][0])

    def _work(self, arrival: Arrival, trace_id: UUID) -> None:
        try:
            self._post(self._answer(arrival, trace_id), arrival, trace_id)
        except Exception as error:
            self.fail(error, arrival, trace_id)
        finally:
            posting.clear_working(self._client, arrival)

    def _answer(self, arrival: Arrival, trace_id: UUID) -> Answer:
        if not arrival.question:
            traces.save_answer(self._database, trace_id, NOTHING_ASKED, settings={}, stage_ms={})
            return NOTHING_ASKED
        past = traces.find_past_answers(
            self._database, str(arrival.channel_id), str(arrival.thread_ts)
        )
        return self._answerer.answer(turns.read(past, arrival.question), trace_id)

    def _post(self, answer: Answer, arrival: Arrival, trace_id: UUID) -> None:
        answer_ts: list[str] = []
        for message in blocks.build_messages(answer):
            answer_ts.append(posting.post(self._client, arrival, message, trace_id))
            # One by one, so that a vote on the first finds its trace if the second fails.
            traces.save_answer_ts(self._database, trace_id, answer_ts)

    def _forget(self, job: Future[None]) -> None:
        with self._lock:
            self._open.pop(job, None)


@contextmanager
def _despite_errors(what: str) -> Iterator[None]:
    """Do one part of handling an error; its own error must not prevent the rest."""
    try:
        yield
    except Exception:
        log.exception("Could not %s", what)
