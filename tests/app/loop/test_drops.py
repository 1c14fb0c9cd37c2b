"""When recall@5 has fallen, and from which run."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.eval_runs import Run, StoredCase, StoredRun
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


def pass_nights(nights: Sequence[list[float]], first: int = 0) -> list[bool]:
    """Whether each night from the first one on is a drop, against those before it."""
    alarms = []
    for number, values in enumerate(nights[first:], first):
        window = nights[max(number - drops.WINDOW, 0) : number][::-1]
        alarms.append(drops.find(list(map(before, window)), run(values)) is not None)
    return alarms


def flicker(seed: int, nights: int, cases: int, of: int) -> list[list[float]]:
    """Nights in which so many cases are found every other time, by chance."""
    draw = random.Random(seed)
    return [
        [*(float(draw.random() < 0.5) for _ in range(cases)), *found(of - cases, of - cases)]
        for _ in range(nights)
    ]


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


@pytest.mark.parametrize("witnesses", [1, 2])
def test_it_has_to_have_fallen_from_more_than_a_third_of_the_runs(witnesses: int) -> None:
    runs = [before(found(90, 100))] * 2 * witnesses
    good = [before(found(100, 100))] * witnesses
    unlike = [before(found(9, 9))] * 9  # too few cases in common to count
    assert drops.find([*runs, *good, *unlike], run(found(90, 100))) is None  # a third
    assert drops.find([*runs[1:], *good, *unlike], run(found(90, 100))) is not None


def test_cases_that_come_and_go_are_hardly_ever_a_drop() -> None:
    alarms = [each for seed in range(2) for each in pass_nights(flicker(seed, 45, 8, 40))]
    assert sum(alarms) <= 0.02 * len(alarms)


def test_a_sudden_drop_is_seen_the_same_night_even_among_cases_that_come_and_go() -> None:
    nights = flicker(1, 30, 8, 100)
    fallen = [[*values[:-10], *[0.0] * 10] for values in flicker(2, 1, 8, 100)]
    assert pass_nights([*nights, *fallen], 29) == [False, True]


def test_a_case_a_night_is_seen_after_four_of_them() -> None:
    decay = [found(100 - lost, 100) for lost in range(1, 9)]
    alarms = pass_nights([*[found(100, 100)] * 30, *decay], 30)
    assert alarms.index(True) == 3  # the night of the fourth lost case


def test_a_case_every_five_nights_is_seen_after_five_and_one_every_seven_never() -> None:
    def decay(every: int) -> list[bool]:
        lost = [1 + number // every for number in range(5 * every)]
        nights = [*[found(100, 100)] * 30, *(found(100 - each, 100) for each in lost)]
        return pass_nights(nights, 30)

    assert decay(5).index(True) == 15  # the night of the fourth lost case
    assert not any(decay(7))
