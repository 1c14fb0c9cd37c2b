"""What Prometheus is told of this process."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app.jobs import Answering
from app.records import Answer, Turn
from retrieval.db import Database

OUTCOMES = ("answered", "abstained", "failed", "stopped")  # as in a trace
BUCKETS_S = (0.5, 1, 2, 5, 10, 20, 30, 60, 120)


class Metrics:
    """Counts since the process began; of a question, nothing but what came of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.questions = Counter(
            "footnote_questions", "Questions by outcome", ["outcome"], registry=self.registry
        )
        self.in_flight = Gauge(
            "footnote_questions_in_flight", "Questions being answered", registry=self.registry
        )
        self.answer_seconds = Histogram(
            "footnote_answer_seconds",
            "Seconds from taking up a question to its outcome",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self.at_work = threading.local()  # of a thread: trace_id, of the question that it is at
        for outcome in OUTCOMES:  # a rate needs the 0 before the first one
            self.questions.labels(outcome)

    def count_refused(self) -> None:
        """Count a question that failed without any work, as too much was waiting."""
        self.questions.labels("failed").inc()


class MeasuredAnswerer:
    """Answers as another does, and notes which question its thread is at."""

    def __init__(self, answerer: Answering, metrics: Metrics) -> None:
        self._answerer = answerer
        self._metrics = metrics

    def reading_as(self, audiences: Iterable[str]) -> "MeasuredAnswerer":
        """The same, from what one of these audiences may read."""
        return MeasuredAnswerer(self._answerer.reading_as(audiences), self._metrics)

    def answer(self, turns: tuple[Turn, ...], trace_id: UUID, *args: Any, **kwargs: Any) -> Answer:
        """What the other answers, or raises, to the same arguments."""
        self._metrics.at_work.trace_id = trace_id
        return self._answerer.answer(turns, trace_id, *args, **kwargs)


class MeasuredExecutor(ThreadPoolExecutor):
    """Works on questions, and counts each by what its trace says once the work on it is over.

    Only then is it known: an answer may yet fail to be posted. What was not taken to an answerer,
    as small talk, is none; what is still pending is answered by other work, as it was edited. What
    never came here because too much was waiting is counted by count_refused.
    """

    def __init__(self, workers: int, database: Database, metrics: Metrics) -> None:
        super().__init__(workers, thread_name_prefix="answer")
        self._database = database
        self._metrics = metrics

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(self._measure, work, *args, **kwargs)

    def _measure(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        began, at_work = time.monotonic(), self._metrics.at_work
        at_work.trace_id = None
        try:
            with self._metrics.in_flight.track_inprogress():
                return work(*args, **kwargs)
        finally:
            outcome = self._find_outcome(at_work.trace_id) if at_work.trace_id else None
            if outcome in OUTCOMES:
                self._metrics.questions.labels(outcome).inc()
                self._metrics.answer_seconds.observe(time.monotonic() - began)

    def _find_outcome(self, trace_id: UUID) -> str | None:
        try:
            with self._database.unrestricted.transaction() as connection:
                return connection.execute(
                    text("SELECT outcome FROM traces WHERE trace_id = :trace_id"),
                    {"trace_id": trace_id},
                ).scalar()
        except SQLAlchemyError:
            return "failed"  # nor could it be answered, then
