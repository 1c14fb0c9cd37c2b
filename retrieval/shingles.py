"""Texts as the runs of words in them, to tell how much of two is the same (Broder, 1997)."""

from collections.abc import Sequence

LENGTH = 3  # words, where nobody says otherwise


def build(words: Sequence[str], length: int = LENGTH) -> frozenset[str]:
    """Each run of so many words that follow each other; of a shorter text, all of it."""
    length = min(length, len(words))
    return frozenset(" ".join(words[at : at + length]) for at in range(len(words) - length + 1))


def find_similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of all runs that both texts have, in [0, 1]."""
    return len(one & other) / len(one | other)
