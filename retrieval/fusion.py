"""Hits of several legs to candidates."""

from collections.abc import Mapping, Sequence

from retrieval.records import Hit, Leg

Fused = tuple[tuple[Hit, ...], float]  # the hits of one section, rrf_score


def fuse(legs: Sequence[Sequence[Hit]], *, rrf_k: int, weights: Mapping[Leg, float]) -> list[Fused]:
    """Merge the legs by reciprocal rank fusion: each section's hits and rrf_score, best first.

    rrf_score is the sum of weight / (rrf_k + rank) over the legs that returned the section; a leg
    without a weight has 1.
    Only ranks enter, so the legs need not share a score scale. Equal scores keep the
    order in which sections were first met. No hits: an empty list.

    Source: Cormack, Clarke and Büttcher, SIGIR 2009, which also gives rrf_k = 60.
    """
    found: dict[int, list[Hit]] = {}
    for leg in legs:
        for hit in leg:
            found.setdefault(hit.section_id, []).append(hit)
    scored = [
        (tuple(hits), sum(weights.get(hit.leg, 1) / (rrf_k + hit.rank) for hit in hits))
        for hits in found.values()
    ]
    return sorted(scored, key=lambda entry: -entry[1])
