"""Two runs over the same cases: what was won and lost, and how sure the difference is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95

Values = Mapping[str, Mapping[str, float]]  # case_id -> metric -> value


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One case that a metric values otherwise than before."""

    case_id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric over the cases that have it in both runs."""

    metric: str
    case_count: int
    before: float  # means, rounded as those of a run are
    after: float
    interval: tuple[float, float]  # of after - before
    won: tuple[Change, ...]
    lost: tuple[Change, ...]


def compare(before: Values, after: Values) -> list[Difference]:
    """Every metric that both runs have for some case, paired by case, in the order of after.

    A case or a value that only one run has does not count.
    """
    pairs: dict[str, list[Change]] = {}
    for case_id, values in after.items():
        for metric in values.keys() & before.get(case_id, {}).keys():
            change = Change(case_id=case_id, before=before[case_id][metric], after=values[metric])
            pairs.setdefault(metric, []).append(change)
    metrics = dict.fromkeys(metric for values in after.values() for metric in values)
    return [_compare_metric(metric, pairs[metric]) for metric in metrics if metric in pairs]


def _compare_metric(metric: str, pairs: Sequence[Change]) -> Difference:
    return Difference(
        metric=metric,
        case_count=len(pairs),
        before=_mean(pair.before for pair in pairs),
        after=_mean(pair.after for pair in pairs),
        interval=find_interval([pair.after - pair.before for pair in pairs]),
        won=tuple(pair for pair in pairs if pair.after > pair.before),
        lost=tuple(pair for pair in pairs if pair.after < pair.before),
    )


def find_interval(differences: Sequence[float]) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean of at least one difference; seeded.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    # Equal differences are drawn together: how often each value comes up is multinomial, and
    # no array of resamples times cases is needed.
    values, counts = np.unique(np.asarray(differences, dtype=np.float64), return_counts=True)
    draws = np.random.default_rng(0).multinomial(
        len(differences), counts / len(differences), size=RESAMPLES
    )
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws @ values / len(differences), (tail, 1 - tail))
    return float(low), float(high)


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 4)
