"""When recall@5 has fallen, and from which run."""

from dataclasses import replace

import pytest

from app.evaluating import Run, StoredCase, StoredRun
from app.loop import drops
from retrieval.metrics import Gold
from tests.app import eval_runs


def run(values: list[float]) -> Run:
    """A run over so many cases, each found or not."""
    results = [
        eval_runs.result(
            eval_runs.case(f"c{number}"), [eval_runs.FOUND if value else eval_runs.OTHER]
        )
        for number, value in enumerate(values)
    ]
    return eval_runs.run(*results, name="cases")


def before(values: list[float], run_id: int = 6) -> StoredRun:
    stored = eval_runs.stored(
        {f"c{number}": {"recall@5": value} for number, value in enumerate(values)}
    )
    return replace(stored, run_id=run_id)


def found(count: int, of: int) -> list[float]:
    return [1.0] * count + [0.0] * (of - count)


def test_a_drop_is_from_the_most_recent_run_that_was_better() -> None:
    runs = [before(found(90, 100), 9), before(found(99, 100), 8), before(found(100, 100), 7)]
    drop = drops.find(runs, run(found(90, 100)))
    assert drop and drop.good.run_id == 8
    assert (drop.difference.before, drop.difference.after) == (0.99, 0.9)
    assert len(drop.difference.lost) == 9


@pytest.mark.parametrize(
    ("now", "is_drop"),
    [
        (99, False),  # a wobble of one point
        (98, False),  # two points are not more than two
        (97, False),  # three, but e^-3 = 5% of resamples show none of the three losses
        (95, True),  # e^-5 = 0.7% show none
    ],
)
def test_a_drop_is_more_than_two_points_and_beyond_noise(now: int, is_drop: bool) -> None:
    assert bool(drops.find([before(found(100, 100))], run(found(now, 100)))) == is_drop


def test_as_many_won_as_lost_is_no_drop() -> None:
    before_values = [1.0] * 10 + [0.0] * 10 + [1.0] * 80
    now = [0.0] * 10 + [1.0] * 10 + [1.0] * 80
    assert drops.find([before(before_values)], run(now)) is None


def test_too_few_common_cases_tell_nothing() -> None:
    assert drops.find([before(found(9, 9))], run(found(0, 9))) is None
    assert drops.find([before(found(10, 10))], run(found(0, 10))) is not None
    assert drops.find([], run(found(0, 10))) is None


def test_a_case_that_was_changed_is_not_compared_but_one_that_moved_is() -> None:
    case = eval_runs.case("c0")
    moved = replace(case, gold_any=(Gold(doc="new/leave.md", span=eval_runs.GOLD.span),))
    changed = replace(case, gold_any=(Gold(doc="leave.md", span="30 days"),))
    stored = StoredCase(
        digest=case.digest,
        content_digest=case.content_digest,
        kept=(),
        values={"recall@5": 1.0},
    )
    witness = replace(before([]), cases={"c0": stored})
    assert drops.compare(witness, [eval_runs.result(moved, [eval_runs.OTHER])]) is not None
    assert drops.compare(witness, [eval_runs.result(changed, [eval_runs.OTHER])]) is None


def test_cases_that_nothing_answers_do_not_count() -> None:
    unanswerable = eval_runs.result(eval_runs.case("c0", kind="unanswerable"))
    assert drops.compare(before([1.0]), [unanswerable]) is None
