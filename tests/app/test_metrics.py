"""What is counted of the questions."""

from typing import Any

import pytest

from app.metrics import MeasuredAnswerer, Metrics
from app.records import Answer

OUTCOMES = ("answered", "abstained", "failed")


class Answering:
    """Gives one answer, or raises it, and looks at the metrics meanwhile."""

    asked: object = None
    in_flight: float | None = None

    def __init__(self, answer: Answer | Exception, metrics: Metrics) -> None:
        self._answer = answer
        self._metrics = metrics

    def answer(self, *args: Any, **kwargs: Any) -> Answer:
        self.asked = (args, kwargs)
        self.in_flight = self._metrics.registry.get_sample_value("footnote_questions_in_flight")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def count(metrics: Metrics, outcome: str) -> float | None:
    return metrics.registry.get_sample_value("footnote_questions_total", {"outcome": outcome})


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(text="28 days."), "answered"),
        (Answer(text="I found nothing.", abstained_because="NO_CANDIDATES"), "abstained"),
        (ValueError("broken"), "failed"),
    ],
)
def test_each_question_is_counted_once_by_its_outcome(
    answer: Answer | Exception, outcome: str
) -> None:
    metrics = Metrics()
    inner = Answering(answer, metrics)
    measured = MeasuredAnswerer(inner, metrics)
    if isinstance(answer, Exception):
        with pytest.raises(ValueError, match="broken"):
            measured.answer("turns", tell="tell")
    else:
        assert measured.answer("turns", tell="tell") is answer
    assert inner.asked == (("turns",), {"tell": "tell"})
    assert inner.in_flight == 1
    assert metrics.registry.get_sample_value("footnote_questions_in_flight") == 0
    assert metrics.registry.get_sample_value("footnote_answer_seconds_count") == 1
    counts = {each: count(metrics, each) for each in OUTCOMES}
    assert counts == {**dict.fromkeys(OUTCOMES, 0), outcome: 1}
