"""What Prometheus is told of this process."""

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.jobs import Answering
from app.records import Answer

OUTCOMES = ("answered", "abstained", "failed")  # as in a trace
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
        for outcome in OUTCOMES:  # a rate needs the 0 before the first one
            self.questions.labels(outcome)


class MeasuredAnswerer:
    """Answers as another does, and counts it."""

    def __init__(self, answerer: Answering, metrics: Metrics) -> None:
        self._answerer = answerer
        self._metrics = metrics

    def answer(self, *args: Any, **kwargs: Any) -> Answer:
        """What the other answers, or raises, to the same arguments."""
        began, outcome = time.monotonic(), "failed"
        try:
            with self._metrics.in_flight.track_inprogress():
                answer = self._answerer.answer(*args, **kwargs)
            outcome = "abstained" if answer.abstained_because else "answered"
            return answer
        finally:
            self._metrics.questions.labels(outcome).inc()
            self._metrics.answer_seconds.observe(time.monotonic() - began)
