"""A relevance model fitted on made-up cases that one feature tells apart."""

import numpy as np
import pytest

from retrieval import calibration
from retrieval.calibration import Sample
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase
from retrieval.metrics import Gold
from retrieval.records import Turn
from retrieval.relevance import FEATURES
from retrieval.rerank import Measured
from tests.retrieval.candidates import candidate

LATE = FEATURES.index("late_chunk")


def sample(number: int, *, answerable: bool = True) -> Sample:
    """A case with ten candidates, of which the seventh answers and has the highest feature."""
    gold = (Gold(doc="7.md", span="the answer"),) if answerable else ()
    case = EvalCase(
        case_id=str(number),
        type="t",
        turns=(Turn(speaker="user", text="q"),),
        gold_any=gold,
        gold_all=(),
    )
    generator = np.random.default_rng(number)
    features = generator.normal(0, 0.1, (10, len(FEATURES)))
    if answerable:
        features[7, LATE] += 1
    candidates = [
        candidate(n, path=f"{n}.md", text="the answer" if n == 7 else "other") for n in range(10)
    ]
    measured = Measured(features=features, chunk_ids=[()] * 10)
    return calibration.build_sample(case, candidates, measured)


def fit(samples: list[Sample]) -> calibration.Calibration:
    return calibration.fit(samples, embedder="m", cases=["set/dev"])


def test_a_sample_knows_what_answers_it() -> None:
    assert sample(1).relevant == tuple(n == 7 for n in range(10))
    assert not any(sample(1, answerable=False).relevant)


def test_what_tells_apart_gets_the_weight() -> None:
    samples = [sample(n) for n in range(40)] + [sample(n, answerable=False) for n in range(40, 60)]
    fitted = fit(samples)
    weights = dict(fitted.model.weights)
    assert weights.pop("late_chunk") > 3 * max(map(abs, weights.values()))
    assert fitted.recall_at_5 == 1
    assert (fitted.model.embedder, fitted.model.cases) == ("m", ("set/dev",))
    relevance = fitted.model.relevance(samples[0].features)
    assert int(np.argmax(relevance)) == 7 and relevance[7] > 0.5
    # The floor lets 98% of the answerable through and none of the others.
    assert relevance[7] >= fitted.model.floor
    for each in samples[40:]:
        assert fitted.model.relevance(each.features).max() < fitted.model.floor


def test_coverage_falls_as_the_floor_rises() -> None:
    samples = [sample(n) for n in range(40)] + [sample(n, answerable=False) for n in range(40, 60)]
    floors, answered, false = zip(*fit(samples).coverage, strict=True)
    assert list(floors) == sorted(floors)
    assert list(answered) == sorted(answered, reverse=True)
    assert answered[0] == 1 and answered[-1] == pytest.approx(0.8, abs=0.03)
    assert all(0 <= share <= 1 for share in false)


def test_the_same_cases_give_the_same_model() -> None:
    samples = [sample(n) for n in range(10)]
    assert fit(samples) == fit(samples)


def test_without_unanswerable_cases_there_are_no_false_answers() -> None:
    assert {false for _, _, false in fit([sample(n) for n in range(10)]).coverage} == {0.0}


@pytest.mark.parametrize("answerable", [0, 1, 4])
def test_too_few_cases_are_told(answerable: int) -> None:
    samples = [sample(n, answerable=n < answerable) for n in range(10)]
    with pytest.raises(ConfigError, match="too few to fit on"):
        fit(samples)
