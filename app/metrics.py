"""What Prometheus is told: of this process, and of the queue that all share."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from slack_sdk.http_retry import HttpRequest, HttpResponse, RetryHandler, RetryState
from sqlalchemy import Row, text
from sqlalchemy.exc import SQLAlchemyError

from app import traces
from retrieval.db import Database
from retrieval.records import LEGS

OUTCOMES = ("answered", "abstained", "failed", "stopped")  # as in a trace
BUCKETS_S = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 900)
STAGE_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
SAMPLE_S = 1  # the queue is looked at no more often than so; chosen


class Metrics:
    """Counts since the process began; of a question, nothing but what came of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.questions = self._counter("questions", "Questions by outcome", "outcome")
        self.in_flight = Gauge(
            "footnote_questions_in_flight", "Questions being answered", registry=self.registry
        )
        self.answer_seconds = Histogram(
            "footnote_answer_seconds",
            "Seconds from taking up a question to its outcome, its wait included",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self.stage_seconds = Histogram(
            "footnote_stage_seconds",
            "Seconds that a question spent in each stage",
            ["stage"],
            buckets=STAGE_BUCKETS_S,
            registry=self.registry,
        )
        self.attempts = self._counter("attempts", "Attempts at questions")
        self.retries = self._counter("retries", "Attempts at questions that had one before")
        self.given_up = self._counter("given_up", "Questions given up after their last attempt")
        self.taken_over = self._counter("jobs_taken_over", "Jobs taken over from dead workers")
        self.found = self._counter("kept_sections", "Kept sections by leg that found them", "leg")
        self.empty = self._counter("empty_legs", "Questions of which a leg found nothing", "leg")
        self.degraded = self._counter(
            "degraded_answers", "Answers made with something missing, by what", "kind"
        )
        self.tokens = self._counter("tokens", "Tokens billed", "model", "kind")
        self.slack_calls = self._counter("slack_calls", "Slack calls", "method", "outcome")
        for outcome in OUTCOMES:  # a rate needs the 0 before the first one
            self.questions.labels(outcome)
        for leg in LEGS:
            self.found.labels(leg)
            self.empty.labels(leg)

    def watch(
        self, database: Database, queue: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Tell of a queue, too, and whether the database answers; now: seconds."""
        self.registry.register(_Queue(database.unrestricted, queue, now))

    def working(self) -> AbstractContextManager[object]:
        """Count a question as being answered while the block runs."""
        return self.in_flight.track_inprogress()

    def note(
        self, database: Database, trace_id: UUID, attempt: int, *, was_told: bool = False
    ) -> str | None:
        """Count an attempt that is over; the outcome of its question, None where it has none yet.

        A question counts once, with the attempt that leaves nothing to be said of it: not while
        more attempts follow, nor with one that another attempt has overtaken, nor where all was
        told before. Small talk is none.
        """
        self.attempts.inc()
        if attempt > 1:
            self.retries.inc()
        try:
            row = _find(database, trace_id)
        except SQLAlchemyError:
            return None  # nor could an outcome be saved, then
        if row is None or row.outcome not in OUTCOMES:
            return None
        is_last = row.attempts == attempt and row.outbox is None and not was_told
        if is_last and "small_talk" not in row.settings:
            self._count(row)
        return str(row.outcome)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"footnote_{name}", what, labels, registry=self.registry)

    def _count(self, row: Row[Any]) -> None:
        self.questions.labels(row.outcome).inc()
        self.answer_seconds.observe(row.seconds)
        for stage, ms in row.stage_ms.items():
            self.stage_seconds.labels(stage).observe(ms / 1000)
        for kind in traces.list_degraded(row.settings):
            self.degraded.labels(kind).inc()
        for kind, count in row.tokens.items():
            model = "rewrite_model" if kind.startswith("rewrite_") else "generator"
            self.tokens.labels(row.settings.get(model), kind).inc(count)
        if row.stage_ms:  # it was searched for
            self._count_legs(row.candidates, set(row.kept))

    def _count_legs(self, candidates: Iterable[Mapping[str, object]], kept: set[int]) -> None:
        for leg in LEGS:
            found = {each["section_id"] for each in candidates if f"{leg}_rank" in each}
            self.found.labels(leg).inc(len(found & kept))
            if not found:
                self.empty.labels(leg).inc()


class CountedCalls(RetryHandler):
    """Counts what Slack says to each call, and has none repeated."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._calls = metrics.slack_calls

    def can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        method = urlsplit(request.url).path.rpartition("/")[2]
        self._calls.labels(method, _find_call_outcome(response)).inc()
        return False


class _Queue(Collector):
    """The queue as it is when Prometheus asks, looked at once in SAMPLE_S at most."""

    def __init__(self, database: Database, queue: str, now: Callable[[], float]) -> None:
        self._database = database
        self._queue = queue
        self._now = now
        self._lock = threading.Lock()  # of who looks; whoever else asks gets what was seen last
        self._seen: tuple[GaugeMetricFamily, ...] = ()
        self._due_at = now()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if self._lock.acquire(blocking=False):
            try:
                if self._now() >= self._due_at:
                    self._seen = tuple(self._look())
                    self._due_at = self._now() + SAMPLE_S
            finally:
                self._lock.release()
        yield from self._seen

    def _look(self) -> Iterator[GaugeMetricFamily]:
        try:
            with self._database.transaction() as connection:
                row = connection.execute(text(_QUEUE), {"queue": self._queue}).one()
        except SQLAlchemyError:
            yield _gauge("database_up", "Whether the database answers", 0)
            return
        yield _gauge("database_up", "Whether the database answers", 1)
        yield _gauge("queue_waiting", "Questions that wait for a worker", row.waiting)
        yield _gauge("queue_at_work", "Questions that a worker is at", row.at_work)
        yield _gauge("queue_oldest_seconds", "Age of the oldest that waits; 0: none", row.oldest_s)


# A job has no time of its own: its events do. Jobs go when they end, so that there are few.
_QUEUE = """
    SELECT count(*) FILTER (WHERE status = 'todo') AS waiting,
           count(*) FILTER (WHERE status = 'doing') AS at_work,
           coalesce(extract(epoch FROM clock_timestamp() - min(
               (SELECT min(at) FROM procrastinate_events WHERE job_id = jobs.id)
           ) FILTER (WHERE status = 'todo')), 0) AS oldest_s
    FROM procrastinate_jobs AS jobs
    WHERE queue_name = :queue AND status IN ('todo', 'doing')
"""


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"footnote_{name}", what, value=float(value))


def _find(database: Database, trace_id: UUID) -> Row[Any] | None:
    with database.unrestricted.transaction() as connection:
        return connection.execute(
            text("""
                SELECT outcome, attempts, outbox, stage_ms, tokens, settings, candidates, kept,
                       CAST(extract(epoch FROM clock_timestamp() - asked_at) AS float) AS seconds
                FROM traces WHERE trace_id = :trace_id
            """),
            {"trace_id": trace_id},
        ).one_or_none()


def _find_call_outcome(response: HttpResponse | None) -> str:
    if response is None:
        return "lost"
    if response.status_code == 429:
        return "429"
    if response.status_code >= 500:
        return "5xx"
    return "ok" if response.body and response.body.get("ok") else "refused"
