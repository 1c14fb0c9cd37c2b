"""The work on each question, on threads of our own, so that none waits for another."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol
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
    """What answers a conversation and completes its trace, or raises.

    before_saving comes before the trace is completed; what it raises ends the answering.
    """

    def answer(
        self, turns: tuple[Turn, ...], trace_id: UUID, before_saving: Callable[[], None]
    ) -> Answer: ...


class Stopped(FootnoteError):
    """Footnote was stopped before the answer was ready; asking again later helps."""


End = Literal["told by itself", "given up"]


@dataclass(slots=True, kw_only=True, eq=False)
class _Job:
    """A question being worked on."""

    arrival: Arrival
    trace_id: UUID
    end: End | None = None  # None until decided, once: by the job itself, or by close


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
        self._open: dict[Future[None], _Job] = {}  # with every end: under the lock

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
        job = _Job(arrival=arrival, trace_id=trace_id)
        with self._lock:
            future = self._executor.submit(self._work, job)
            self._open[future] = job
        future.add_done_callback(self._forget)

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
        """Finish what is begun; what is not done in time, or not begun, is told to its asker.

        What is being told its end when the time is over is waited for; what is given up goes on,
        but neither posts nor completes its trace.
        """
        self._executor.shutdown(wait=False)
        with self._lock:
            left = dict(self._open)
        telling = []
        for future in wait(left, timeout_s).not_done:
            future.cancel()
            job = left[future]
            if not self._decide(job, "given up"):
                telling.append(future)
                continue
            self.fail(Stopped("Footnote was stopped."), job.arrival, job.trace_id)
            posting.clear_working(self._client, job.arrival)
        wait(telling)

    def _work(self, job: _Job) -> None:
        try:
            self._post(self._answer(job), job.arrival, job.trace_id)
        except Exception as error:
            if self._decide(job, "told by itself"):
                self.fail(error, job.arrival, job.trace_id)
        finally:
            if self._decide(job, "told by itself"):
                posting.clear_working(self._client, job.arrival)

    def _decide(self, job: _Job, end: End) -> bool:
        """Whether this is how the job ends; whoever decides first, decides."""
        with self._lock:
            job.end = job.end or end
            return job.end == end

    def _answer(self, job: _Job) -> Answer:
        def before_saving() -> None:
            if not self._decide(job, "told by itself"):
                raise Stopped("Footnote was stopped.")

        arrival, trace_id = job.arrival, job.trace_id
        if not arrival.question:
            before_saving()
            traces.save_answer(self._database, trace_id, NOTHING_ASKED, settings={}, stage_ms={})
            return NOTHING_ASKED
        past = traces.find_past_answers(
            self._database, str(arrival.channel_id), str(arrival.thread_ts)
        )
        return self._answerer.answer(turns.read(past, arrival.question), trace_id, before_saving)

    def _post(self, answer: Answer, arrival: Arrival, trace_id: UUID) -> None:
        answer_ts: list[str] = []
        for message in blocks.build_messages(answer):
            answer_ts.append(posting.post(self._client, arrival, message, trace_id))
            # One by one, so that a vote on the first finds its trace if the second fails.
            traces.save_answer_ts(self._database, trace_id, answer_ts)

    def _forget(self, future: Future[None]) -> None:
        with self._lock:
            self._open.pop(future, None)


@contextmanager
def _despite_errors(what: str) -> Iterator[None]:
    """Do one part of handling an error; its own error must not prevent the rest."""
    try:
        yield
    except Exception:
        log.exception("Could not %s", what)
