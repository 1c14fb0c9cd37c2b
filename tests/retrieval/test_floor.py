"""What is kept to answer from."""

import pytest

from retrieval import floor
from tests.retrieval.candidates import candidate


def test_what_is_at_the_floor_passes_in_the_order_given() -> None:
    candidates = [candidate(n, relevance=r) for n, r in enumerate([0.9, 0.3, 0.29, 0.5])]
    kept = floor.apply(candidates, floor=0.3, keep=5)
    assert [each.relevance for each in kept] == [0.9, 0.3, 0.5]


def test_no_more_are_kept_than_asked() -> None:
    candidates = [candidate(n, relevance=0.9) for n in range(9)]
    assert floor.apply(candidates, floor=0.3, keep=5) == tuple(candidates[:5])


def test_p71_the_floor_is_not_compared_with_rrf_scores() -> None:
    at_rank_18 = candidate(18, rrf_score=1 / (60 + 18), relevance=0.8)
    assert at_rank_18.rrf_score == pytest.approx(0.013, abs=0.0005)
    assert floor.apply([at_rank_18], floor=0.3, keep=5) == (at_rank_18,)
    assert floor.apply([candidate(rrf_score=0.9, relevance=0.1)], floor=0.3, keep=5) == ()


def test_what_was_not_judged_is_not_kept() -> None:
    assert floor.apply([candidate(relevance=None)], floor=0.0, keep=5) == ()


def test_nothing_is_kept_of_nothing() -> None:
    assert floor.apply([], floor=0.0, keep=5) == ()
