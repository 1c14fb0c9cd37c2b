"""What Prometheus is told of this process."""

import threading

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
