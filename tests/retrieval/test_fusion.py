"""Reciprocal rank fusion, by hand."""

import pytest

from retrieval.fusion import Fused, fuse
from retrieval.records import Hit, Leg


def fuse_alike(*legs: list[Hit]) -> list[Fused]:
    """All legs at weight 1, with the usual constant."""
    return fuse(legs, rrf_k=60, weights={})


def leg(name: Leg, *section_ids: int) -> list[Hit]:
    return [
        Hit(section_id=section_id, leg=name, rank=rank, score=1 / rank)
        for rank, section_id in enumerate(section_ids, 1)
    ]


def test_scores_add_up_over_the_legs() -> None:
    fused = fuse_alike(leg("dense", 1, 2), leg("lexical", 2, 3))
    assert [hits[0].section_id for hits, _ in fused] == [2, 1, 3]
    assert [score for _, score in fused] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])


def test_a_section_found_by_one_leg_is_kept() -> None:
    fused = fuse_alike(leg("dense", 1), leg("lexical", 1), leg("identifier", 2))
    assert [tuple(hit.leg for hit in hits) for hits, _ in fused] == [
        ("dense", "lexical"),
        ("identifier",),
    ]


def test_equal_scores_keep_the_order_of_first_meeting() -> None:
    fused = fuse_alike(leg("dense", 5, 3), leg("lexical", 4, 9))
    assert [hits[0].section_id for hits, _ in fused] == [5, 4, 3, 9]


def test_a_leg_counts_by_its_weight() -> None:
    legs = [leg("dense", 1, 2), leg("identifier", 3, 1), leg("late", 2)]
    fused = fuse(legs, rrf_k=60, weights={"identifier": 0.5, "late": 2})
    assert [hits[0].section_id for hits, _ in fused] == [2, 1, 3]
    assert [score for _, score in fused] == pytest.approx(
        [1 / 62 + 2 / 61, 1 / 61 + 0.5 / 62, 0.5 / 61]
    )


def test_only_ranks_count() -> None:
    high = Hit(section_id=1, leg="dense", rank=2, score=1000.0)
    low = Hit(section_id=2, leg="lexical", rank=1, score=-5.0)
    assert [hits[0].section_id for hits, _ in fuse_alike([high], [low])] == [2, 1]


def test_no_hits_are_no_candidates() -> None:
    assert fuse_alike() == fuse_alike([], []) == []
