"""Features to a probability."""

import json
from pathlib import Path

import numpy as np
import pytest

from retrieval import relevance
from retrieval.relevance import FEATURES, RelevanceModel


def model(intercept: float = -2.0, **weights: float) -> RelevanceModel:
    return RelevanceModel(
        weights={**dict.fromkeys(FEATURES, 0.0), **weights},
        intercept=intercept,
        floor=0.2,
        embedder="m",
        cases=("c",),
        fitted_on="2026-11-30",
    )


def features(*rows: dict[str, float]) -> relevance.Features:
    return np.array([[row.get(name, 0.0) for name in FEATURES] for row in rows])


def test_relevance_is_logistic_in_the_features() -> None:
    found = model(late_chunk=4.0, title=1.0).relevance(
        features({}, {"late_chunk": 0.5}, {"late_chunk": 0.5, "title": 1.0})
    )
    # logits -2, -2 + 4 * 0.5 and -2 + 4 * 0.5 + 1
    assert found == pytest.approx([1 / (1 + np.e**2), 0.5, 1 / (1 + np.e**-1)])


def test_p74_relevance_never_reaches_0_or_1_so_that_the_good_ones_differ() -> None:
    found = model(covered=10.0).relevance(features(*({"covered": n / 2} for n in range(-5, 7))))
    assert ((found > 0) & (found < 1)).all()
    assert (np.diff(found) > 0).all()


def test_no_candidates_have_no_relevance() -> None:
    assert model().relevance(np.zeros((0, len(FEATURES)))).shape == (0,)


def test_the_model_that_comes_along_is_whole() -> None:
    loaded = relevance.load()
    assert set(loaded.weights) == set(FEATURES)
    assert 0 < loaded.floor < 1
    assert loaded.embedder and loaded.cases and loaded.fitted_on
    # What speaks for a section must not count against it.
    assert all(weight > 0 for name, weight in loaded.weights.items() if name != "length")


def test_a_saved_model_is_written_as_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "relevance.json"
    model(covered=1.5).save(path)
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert RelevanceModel(**{**saved, "cases": tuple(saved["cases"])}) == model(covered=1.5)
