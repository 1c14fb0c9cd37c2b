"""Whether recall@5 of a set has fallen, by its runs compared case by case; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.eval_runs import Run, StoredRun, find_shared
from retrieval import comparison
from retrieval.comparison import Difference, Values
from retrieval.evaluation import CaseResult

METRIC = "recall@5"
DROP = 0.02  # in points of recall@5; less is not worth anybody's morning
WINDOW = 30  # runs that one is compared with; chosen
WITNESSES = 3  # more than one in so many of them must have been better; chosen
FEWEST = 10  # cases that two runs must share to be compared; chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A run that a later one has fallen from."""

    good: StoredRun
    difference: Difference


def find(runs: Sequence[StoredRun], run: Run) -> Drop | None:
    """The drop from the most recent of these runs that the run has fallen from; None: no drop.

    runs are latest first. A run that shares too few cases with this one, as the first ones of a
    set that has changed since, is no witness either way.

    It has to have fallen from more than one in WITNESSES of the others: each is asked with an error
    of 2.5%, and of 30 nights one was lucky. Where 8 of 40 cases come and go by chance, so 1% of the
    nights are a drop, and 23% would be one if any witness did (simulated). A sudden drop after good
    nights is one from all of them, and is seen the same night. What it costs: a decay is seen only
    once what is beyond noise (4 cases, if none is won, and more than DROP) was lost within the last
    20 of 30 nights, and never where it is slower; and a drop that nobody mends is seen no more once
    two in three of the nights are as bad.
    """
    differences = [(before, weigh(before, run)) for before in runs]
    comparable = [Drop(good=before, difference=found) for before, found in differences if found]
    fallen = [drop for drop in comparable if is_drop(drop.difference)]
    return fallen[0] if WITNESSES * len(fallen) > len(comparable) else None


def weigh(before: StoredRun, run: Run) -> Difference | None:
    """As compare; None also where the cases that both runs have are fewer than FEWEST."""
    difference = compare(before, run.results)
    return difference if difference and difference.case_count >= FEWEST else None


def compare(before: StoredRun, results: Sequence[CaseResult]) -> Difference | None:
    """recall@5 over the cases that a run of before had too, as they are now but for their page.

    None where there is none.
    """
    shared = find_shared([result.case for result in results], before)
    differences = comparison.compare(
        _pick({case_id: before.cases[case_id].values for case_id in shared}),
        _pick({result.case.case_id: result.values for result in results}),
    )
    return differences[0] if differences else None


def is_drop(difference: Difference) -> bool:
    """Whether it is more than DROP, and beyond noise."""
    return _is_below(difference) and difference.interval[1] < 0


def is_back(difference: Difference) -> bool:
    """Whether all is back but DROP or, of few cases, one of them."""
    missing = sum(each.before - each.after for each in (*difference.lost, *difference.won))
    return missing <= 1 or not _is_below(difference)


def _is_below(difference: Difference) -> bool:
    # Rounded as the means are: 0.02 less is written as -0.0200000001 otherwise.
    return round(difference.after - difference.before, 4) < -DROP


def _pick(values: Values) -> Values:
    return {
        case_id: {METRIC: found[METRIC]} for case_id, found in values.items() if METRIC in found
    }
