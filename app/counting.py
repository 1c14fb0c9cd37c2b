"""Counts and lists in words, wherever they are told."""

from collections.abc import Sequence


def count(number: int, noun: str) -> str:
    """As "1 case" or "1,200 cases"; the noun's plural must end in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_names(names: Sequence[str], conjunction: str = "and") -> str:
    """As "A", "A and B" or "A, B and C"; there must be one."""
    return f" {conjunction} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
