"""Which candidates are good enough to answer from."""

from collections.abc import Sequence

from retrieval.records import Candidate


def apply(candidates: Sequence[Candidate], *, floor: float, keep: int) -> tuple[Candidate, ...]:
    """The first keep candidates whose relevance is at least the floor, in the order given.

    None of them: an empty tuple, which is a result like any other.
    """
    passed = [each for each in candidates if each.relevance is not None and each.relevance >= floor]
    return tuple(passed[:keep])
