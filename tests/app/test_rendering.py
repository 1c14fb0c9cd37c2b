"""What the terminal shows."""

from dataclasses import replace
from datetime import date

import pytest

from app.records import Answer, Citation, Nearest
from app.rendering import build_answer, build_calibration, build_differences
from retrieval.calibration import Calibration, Contender, Coverage
from retrieval.comparison import Change, Difference
from retrieval.relevance import Basis, RelevanceModel


def test_the_nearest_page_stands_below_what_says_that_there_is_no_answer() -> None:
    nearest = Nearest(
        path="a.md",
        title="Leave",
        heading_path=("Leave", "Carry-over"),
        url="https://wiki.example/a",
    )
    answer = Answer(text="I found none.", abstained_because="BELOW_FLOOR", nearest=nearest)
    assert build_answer(answer) == (
        "I found none.\n\n"
        "Nearest page, may not answer: Leave › Carry-over\n"
        "    https://wiki.example/a"
    )
    stale = replace(answer, nearest=replace(nearest, caveat="is filed as archived"))
    assert "Leave › Carry-over · ⚠️ is filed as archived\n" in build_answer(stale)


def test_a_source_that_may_no_longer_hold_is_marked_in_the_terminal() -> None:
    citation = Citation(
        marker=1,
        section_id=1,
        path="a.md",
        title="Leave",
        heading_path=(),
        url="https://wiki.example/a",
        cited_text="Five days.",
        owner="hr@corp.example",
        updated_at=None,
        verified_at=date(2023, 2, 1),
        caveat="last verified 2023-02-01, 3 years ago",
    )
    assert build_answer(Answer(text="Five days. [1]", citations=(citation,))) == (
        "Five days. [1]\n\n"
        "[1] Leave · ⚠️ last verified 2023-02-01, 3 years ago · hr@corp.example\n"
        "    https://wiki.example/a"
    )


LOST = Difference(
    metric="recall@5",
    case_count=40,
    before=1.0,
    after=0.975,
    interval=(-0.075, 0.0),
    won=(),
    lost=(Change(case_id="c1", before=1.0, after=0.0),),
)


def test_a_table_of_differences_stands_in_columns_whatever_is_compared() -> None:
    assert build_differences([LOST]) == [
        "              cases  before    now   diff.  95% interval       won lost",
        "recall@5         40   1.000  0.975  -0.025  [-0.075, +0.000]     0    1",
    ]
    assert build_differences([LOST], before="as it is", after="tried") == [
        "              cases as it is  tried   diff.  95% interval       won lost",
        "recall@5         40    1.000  0.975  -0.025  [-0.075, +0.000]     0    1",
    ]
    assert build_differences([LOST], before="in use", after="fitted") == [
        "              cases  in use fitted   diff.  95% interval       won lost",
        "recall@5         40   1.000  0.975  -0.025  [-0.075, +0.000]     0    1",
    ]


MODEL = RelevanceModel(
    basis=Basis(reranker="r", ranking=("a",), certainty=(), embedder="m", chunker="1"),
    weights={"a": 1.0},
    certainty={"score": 1.0},
    intercept=0.0,
    floor=0.1,
    cases=("cases",),
    fitted_on="2026-11-30",
)
FITTED = Contender(
    model=MODEL,
    values={"0": {"recall@5": 1.0, "-log loss": -0.1}},
    coverage=(Coverage(floor=0.1, answered=1.0, false_answers={}),),
)
USED = replace(FITTED, model=replace(MODEL, intercept=1.0))
FIRST = Calibration(
    answerable=1, unanswerable={}, fitted=FITTED, in_use=None, rival=None, changes=(), held_out=()
)
BESIDE = replace(FIRST, in_use=USED.model, rival=USED)
SEEN = replace(FIRST, in_use=USED.model)
SAME = replace(LOST, interval=(-0.1, 0.1))


@pytest.mark.parametrize(
    ("calibration", "proposal"),
    [
        (FIRST, "the fitted one"),
        (replace(BESIDE, changes=(replace(LOST, interval=(0.1, 0.2)),)), "the fitted one, which"),
        (replace(FIRST, in_use=MODEL), "nothing; the fitted one is what is in use"),
        (
            replace(BESIDE, changes=(SAME,)),
            "nothing; the fitted one is not better beyond noise than what is in use",
        ),
        (
            replace(BESIDE, held_out=(replace(LOST, metric="answered", interval=(-0.2, -0.1)),)),
            "nothing; beyond noise the fitted one is worse than what is in use: answered",
        ),
        (
            SEEN,
            "nothing; what is in use was fitted on some of these cases, and none or too few are "
            "held out to compare the two on",
        ),
        (
            replace(SEEN, held_out=(SAME,)),
            "nothing; the fitted one is not better beyond noise than what is in use",
        ),
    ],
)
def test_what_is_proposed_is_told_with_why_not(calibration: Calibration, proposal: str) -> None:
    assert f"\nproposed: {proposal}" in build_calibration(calibration)


def test_what_is_compared_is_named() -> None:
    beside = build_calibration(replace(BESIDE, changes=(SAME,))).splitlines()
    assert [line.split()[:2] for line in beside[3:7]] == [
        *(["in", "use"], ["fitted,", "cross-validated"], ["the", "same"], ["cases", "in"]),
    ]
    seen = build_calibration(replace(SEEN, held_out=(SAME,))).splitlines()
    assert seen[4:6] == [
        "what is in use was fitted on some of these cases, so they can't measure it",
        "cases held out:",
    ]
