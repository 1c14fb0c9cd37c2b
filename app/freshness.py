"""Which cited pages may no longer hold: long unverified, or older than another one cited; pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import PurePosixPath
from typing import Literal

from app.records import Citation

# What holds until its next edition. A report, a meeting, a tax rate or a project's plan of one year
# stands beside that of the next, and so do guides to two versions of a product.
_RULES = (
    r"(?:polic(?:y|ies)|procedures?|guidelines?|rules|handbook|fees|prices|price list|bands"
    r"|allowances|benefits|(?:bonus|health|pension|response|recovery|continuity) plan)"
)
_OLD = r"(?:old|archived?|obsolete|outdated|deprecated|superseded)"
# Only where it is set apart: neither "Archived projects" nor "Old town office" is an old page.
_SUPERSEDED = re.compile(
    rf"^copy of |^[\[(]{_OLD}[\])]|^{_OLD}(?::| - )|[\[(]{_OLD}(?: version)?[\])]$| - {_OLD}$"
)
_YEAR = r"(?:fy ?(?:20)?|20)(?P<number>\d\d)(?:[/-](?:20)?\d\d)?"  # of two, the first
_VERSION = r"(?P<number>\d+(?:\.\d+)*)"
_EDITIONS: tuple[tuple[Literal["year", "version"], re.Pattern[str]], ...] = (
    ("year", re.compile(rf"(?P<work>.*\b(?:{_RULES}|guide))\W+{_YEAR}\W*")),
    ("year", re.compile(rf"{_YEAR}\W+(?P<work>.*\b(?:{_RULES}|guide))\W*")),
    ("version", re.compile(rf"(?P<work>.*\b(?:{_RULES}|20\d\d))\W+v(?:ersion)?[. ]*{_VERSION}\W*")),
    ("version", re.compile(rf"(?P<work>.*(?:\d.*|\b{_RULES}))\Wrev(?:ision)?[. ]*{_VERSION}\W*")),
)
OLDER = "older than"  # begins what a caveat says of a page that has a later edition
_AGE_FOLDER = re.compile(rf"{_OLD}|{_YEAR}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edition:
    """What title and path say of a page."""

    work: tuple[list[str], list[str]]  # what editions have in common: folders, words of the title
    is_superseded: bool
    kind: Literal["year", "version"] | None = None  # None: it is the only one
    number: tuple[int, ...] = ()


def mark(
    citations: Sequence[Citation], *, freshness_days: int, today: date
) -> tuple[Citation, ...]:
    """The citations, with a caveat where the page was last verified longer ago than that, or where
    another one is a later edition of it.

    Editions lie in one folder, but for folders such as "archive" or "2023", and have one title, but
    for a word such as "old", or a year that has begun or a version after what is in force until
    replaced, such as a policy. When they were verified tells nothing: each shows that itself.
    """
    return tuple(
        replace(each, caveat=_build_caveat(each, citations, freshness_days, today))
        for each in citations
    )


def _build_caveat(
    citation: Citation, citations: Sequence[Citation], freshness_days: int, today: date
) -> str | None:
    newer = next((other for other in citations if _is_older(citation, other, today)), None)
    dated = citation.dated
    days = (today - citation.verified_at).days if citation.verified_at else 0
    is_stale = days > freshness_days
    if is_stale:
        dated = f"last verified {citation.verified_at:%Y-%m-%d}, {_build_age(days)} ago"
    if newer:
        return ", ".join(filter(None, (dated, f"{OLDER} [{newer.marker}]")))
    return dated if is_stale else None


def _is_older(one: Citation, other: Citation, today: date) -> bool:
    """Whether two pages are editions of one work, of which the other is the later."""
    here, there = _read_edition(one), _read_edition(other)
    if here.work != there.work:
        return False
    if here.is_superseded != there.is_superseded:
        return here.is_superseded
    is_in_force = there.kind == "version" or there.number <= (today.year % 100,)
    return here.kind == there.kind and here.number < there.number and is_in_force


def _read_edition(citation: Citation) -> _Edition:
    folded = re.sub("[–—]", "-", citation.title.casefold()).strip()
    title = _SUPERSEDED.sub(" ", folded).strip()
    folders = PurePosixPath(citation.path.casefold()).parent.parts
    place = [folder for folder in folders if not _AGE_FOLDER.fullmatch(folder)]
    is_superseded = title != folded
    for kind, form in _EDITIONS:
        if found := form.fullmatch(title):
            return _Edition(
                work=(place, re.findall(r"\w+", found["work"])),
                is_superseded=is_superseded,
                kind=kind,
                number=_parse_number(found["number"]),
            )
    return _Edition(work=(place, re.findall(r"\w+", title)), is_superseded=is_superseded)


def _parse_number(number: str) -> tuple[int, ...]:
    """v2.0 is v2."""
    return tuple(map(int, re.sub(r"(?:\.0+)+\Z", "", number).split(".")))


def _build_age(days: int) -> str:
    for unit, length in (("year", 365), ("month", 30)):
        if days >= length:
            return f"{days // length} {unit}{'s' if days >= 2 * length else ''}"
    return f"{days} {'day' if days == 1 else 'days'}"
