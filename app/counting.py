"""Counts in words, wherever they are told."""


def count(number: int, noun: str) -> str:
    """As "1 case" or "1,200 cases"; the noun's plural must end in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
