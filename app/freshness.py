"""Which cited pages may no longer hold: long unverified, or older than another one cited; pure."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from app.records import Citation

# A year by itself, or two of a season; within a full date or a code it tells of something else.
_YEAR = re.compile(r"(?<![\w.-])(?:19|20)\d\d(?:/(?:\d\d)?\d\d)?(?![\w/]|-\w)")
_VERSION = re.compile(
    r"\b(?:v|rev|version|revision)[. ]?(\d+(?:\.\d+)*)\b"
    r"|(?<![\w.])(\d{1,3}(?:\.\d{1,3})+)(?![\w]|\.\d)"  # no date such as 1.2.2026
)
_SUPERSEDED = re.compile(r"\b(?:old|archived?|obsolete|deprecated|superseded)\b")
_COPIED = re.compile(r"\b(?:copy(?: of)?|draft)\b|\(\d\)")


def mark(
    citations: Sequence[Citation], *, freshness_days: int, today: date
) -> tuple[Citation, ...]:
    """The citations, with a caveat where the page was last verified longer ago than that, or where
    another one has the same title but for its year, its version or a word such as "old"."""
    return tuple(
        replace(each, caveat=_build_caveat(each, citations, freshness_days, today))
        for each in citations
    )


def _build_caveat(
    citation: Citation, citations: Sequence[Citation], freshness_days: int, today: date
) -> str | None:
    newer = next((other for other in citations if _is_older(citation, other)), None)
    dated = citation.dated
    days = (today - citation.verified_at).days if citation.verified_at else 0
    is_stale = days > freshness_days
    if is_stale:
        dated = f"last verified {citation.verified_at:%Y-%m-%d}, {_build_age(days)} ago"
    if newer:
        return ", ".join(filter(None, (dated, f"older than [{newer.marker}]")))
    return dated if is_stale else None


def _is_older(one: Citation, other: Citation) -> bool:
    """Whether two pages are editions of one, and which of them is the older can be told."""
    if _name_work(one.title) != _name_work(other.title):
        return False
    signs = zip(_read_age(one), _read_age(other), strict=True)
    return next((here < there for here, there in signs if here and there and here != there), False)


def _name_work(title: str) -> str:
    """What the editions of a page share in their titles; of one that is but a date, all of it."""
    folded = title.casefold()
    name = folded
    for pattern in (_YEAR, _VERSION, _SUPERSEDED, _COPIED):
        name = pattern.sub(" ", name)
    return " ".join(re.findall(r"\w+", name)) or folded


def _read_age(citation: Citation) -> tuple[Any, ...]:
    """What tells how old a page is, the surest first, each to be compared with its like; an edition
    of 2023 stays one however late it was verified."""
    title = citation.title.casefold()
    versions = (found[1] or found[2] for found in _VERSION.finditer(_YEAR.sub(" ", title)))
    return (
        _YEAR.findall(title),
        [[int(number) for number in version.split(".")] for version in versions],
        citation.verified_at,
        citation.updated_at,
        1 if _SUPERSEDED.search(title) else 2,
    )


def _build_age(days: int) -> str:
    for unit, length in (("year", 365), ("month", 30)):
        if days >= length:
            return f"{days // length} {unit}{'s' if days >= 2 * length else ''}"
    return f"{days} {'day' if days == 1 else 'days'}"
