"""Whether recall@5 of a set has fallen, by its runs compared case by case; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.evaluating import Run, StoredRun, find_shared
from retrieval import comparison
from retrieval.comparison import Difference, Values
from retrieval.evaluation import CaseResult

METRIC = "recall@5"
DROP = 0.02  # in points of recall@5; less is not worth anybody's morning
WINDOW = 30  # runs that one is compared with: so slow a decay is noticed; chosen
FEWEST = 10  # cases that two runs must share to be compared; chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A run that a later one has fallen from."""

    good: StoredRun
    difference: Difference


def find(runs: Sequence[StoredRun], run: Run) -> Drop | None:
    """The drop from the most recent of these runs that the run has fallen from; None: from none.

    runs are latest first. A run that shares too few cases with this one, as the first ones of a
    set that has changed since, is no witness either way.
    """
    for before in runs:
        difference = weigh(before, run)
        if difference and is_drop(difference):
            return Drop(good=before, difference=difference)
    return None


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
    # Rounded as the means are: 0.02 less is written as -0.0200000001 otherwise.
    fallen = round(difference.after - difference.before, 4) < -DROP
    return fallen and difference.interval[1] < 0


def _pick(values: Values) -> Values:
    return {
        case_id: {METRIC: found[METRIC]} for case_id, found in values.items() if METRIC in found
    }
