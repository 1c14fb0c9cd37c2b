"""Two runs over cases few enough to be compared by hand."""

import numpy as np
import pytest

from retrieval.comparison import RESAMPLES, Change, compare, find_interval

BEFORE = {
    "a": {"recall@5": 1.0, "mrr@5": 1.0},
    "b": {"recall@5": 0.0, "mrr@5": 0.0},
    "c": {"recall@5": 1.0, "mrr@5": 0.5, "precision": 0.2},
    "d": {"recall@5": 0.0, "mrr@5": 0.0},
    "gone": {"recall@5": 1.0, "mrr@5": 1.0},
}
AFTER = {
    "a": {"recall@5": 1.0, "mrr@5": 0.5},
    "b": {"recall@5": 1.0, "mrr@5": 1.0},
    "c": {"recall@5": 0.0, "mrr@5": 0.0},
    "d": {"recall@5": 0.5, "mrr@5": 0.0, "precision": 0.2},
    "new": {"recall@5": 0.0, "mrr@5": 0.0},
    "e": {"refused": 1.0},
}


def test_each_metric_is_compared_over_the_cases_that_both_have() -> None:
    recall, mrr = compare(BEFORE, AFTER)
    assert (recall.metric, mrr.metric) == ("recall@5", "mrr@5")
    assert recall.case_count == 4
    assert (recall.before, recall.after) == (2 / 4, 2.5 / 4)
    assert recall.won == (
        Change(case_id="b", before=0, after=1),
        Change(case_id="d", before=0, after=0.5),
    )
    assert recall.lost == (Change(case_id="c", before=1, after=0),)
    assert (mrr.before, mrr.after) == (1.5 / 4, 1.5 / 4)
    assert [change.case_id for change in mrr.won] == ["b"]
    assert [change.case_id for change in mrr.lost] == ["a", "c"]


def test_runs_without_a_common_case_have_no_difference() -> None:
    assert compare({"a": {"recall@5": 1.0}}, {"b": {"recall@5": 1.0}}) == []
    assert compare({}, {}) == []


def test_without_a_change_the_interval_is_nothing() -> None:
    assert find_interval([0.0, 0.0, 0.0]) == (0, 0)
    assert find_interval([0.5]) == (0.5, 0.5)


def test_the_interval_is_that_of_resampled_cases() -> None:
    differences = np.array([1.0] * 12 + [-1.0] * 4 + [0.25] * 3 + [0.0] * 81)
    drawn = np.random.default_rng(7).choice(differences, size=(RESAMPLES, len(differences)))
    expected = np.quantile(drawn.mean(axis=1), (0.025, 0.975))
    low, high = find_interval(differences.tolist())
    assert (low, high) == pytest.approx(tuple(expected), abs=0.01)
    assert find_interval(differences.tolist()) == (low, high)  # the same every time
    # About the mean by 1.96 standard errors, as the central limit theorem has it.
    error = 1.96 * float(differences.std()) / len(differences) ** 0.5
    assert (high - low) / 2 == pytest.approx(error, rel=0.1)


def test_a_difference_known_to_be_sure_is_told_from_chance() -> None:
    before = {str(case): {"recall@5": 0.0} for case in range(40)}
    after = {str(case): {"recall@5": float(case < 10)} for case in range(40)}
    (sure,) = compare(before, after)
    assert sure.interval[0] > 0
    chance = {str(case): {"recall@5": float(case == 1)} for case in range(40)}
    (difference,) = compare(chance, {**before, "0": {"recall@5": 1.0}})
    assert difference.interval[0] < 0 < difference.interval[1]
    assert (len(difference.won), len(difference.lost)) == (1, 1)
