"""Which of two pages is the later edition of one work, by title, path and what they say; pure."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal, Protocol, TypeVar

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
_AGE_FOLDER = re.compile(rf"{_OLD}|{_YEAR}")
# Of a rule whose title has no year, where its path has one.
_RULE = re.compile(rf".*\b(?:{_RULES}|guide)\W*")
_IN_PATH = re.compile(rf"(?:.*[^a-z0-9])?{_YEAR}")


class Named(Protocol):
    """A page, or a part of one."""

    @property
    def title(self) -> str: ...
    @property
    def path(self) -> str: ...


class Addressed(Named, Protocol):
    """The same with its address."""

    @property
    def url(self) -> str: ...


class Superseded(Addressed, Protocol):
    """The same with what it says replaces it."""

    @property
    def document_id(self) -> int: ...
    @property
    def superseded_by(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edition:
    """What title and path say of a page."""

    work: tuple[tuple[str, ...], tuple[str, ...]]  # its folders, and the words of its title
    is_superseded: bool
    kind: Literal["year", "version"] | None = None  # None: it is the only one
    number: tuple[int, ...] = ()


def is_older(one: Named, other: Named, today: date) -> bool:
    """Whether two pages are editions of one work, of which the other is the later.

    Editions lie in one folder, but for folders such as "archive" or "2023", and have one title, but
    for a word such as "old", or a year that has begun or a version after what is in force until
    replaced, such as a policy. Where no title has a year, that of the folder or file counts.
    """
    here, there = _read(one.title, one.path), _read(other.title, other.path)
    if here.work != there.work:
        return False
    if here.is_superseded != there.is_superseded:
        return here.is_superseded
    is_in_force = there.kind == "version" or there.number <= (today.year % 100,)
    return here.kind == there.kind and here.number < there.number and is_in_force


def is_one_work(one: Named, other: Named) -> bool:
    """Whether two pages have one title and place, whichever edition either is."""
    return _read(one.title, one.path).work == _read(other.title, other.path).work


def title_words(title: str) -> frozenset[str]:
    """The words of a title, but for what tells editions of one work apart."""
    return frozenset(_read(title, "").work[1])


def is_named(page: Addressed, name: str) -> bool:
    """Whether a name that somebody wrote, a title, path or address, is that of a page."""
    written = name.strip().casefold()
    if written in _find_addresses(page):
        return bool(written)
    wanted = PurePosixPath(written.split("#")[0]).parts
    parts = PurePosixPath(page.path.casefold()).parts
    wanted = tuple(part for part in wanted if part not in (".", "..", "/"))
    endings = (parts, (*parts[:-1], PurePosixPath(parts[-1]).stem)) if parts else ()
    return bool(wanted) and any(each[-len(wanted) :] == wanted for each in endings)


def _find_addresses(page: Addressed) -> tuple[str, ...]:
    """Its title and address, that of a part without its heading, too."""
    url = page.url.casefold()
    return page.title.casefold(), url, re.sub(r"#(?![/!]).*", "", url)  # "#/" begins a page's own


Page = TypeVar("Page", bound=Superseded)


def find_successor(page: Page, pages: Iterable[Page]) -> Page | None:
    """Of pages, the one that a page says replaces it; another of that name before itself."""
    name = page.superseded_by
    if not name:
        return None
    named = (each for each in pages if each.document_id != page.document_id)
    own = [*_find_addresses(page), page.path.casefold()]
    itself = page if name.strip().casefold() in own else None
    return next((each for each in named if is_named(each, name)), itself)


def goes_round(page: Page, find: Callable[[Page], Page | None]) -> bool:
    """Whether from page to the one that replaces it, as find gives it, one comes back to it."""
    seen = {page.document_id}
    successor = find(page)
    while successor is not None and successor.document_id not in seen:
        seen.add(successor.document_id)
        successor = find(successor)
    return successor is not None and successor.document_id == page.document_id


@lru_cache(maxsize=4_096)
def _read(title: str, path: str) -> _Edition:
    folded = re.sub("[–—]", "-", title.casefold()).strip()
    shown = _SUPERSEDED.sub(" ", folded).strip()
    folders = PurePosixPath(path.casefold()).parent.parts
    place = tuple(folder for folder in folders if not _AGE_FOLDER.fullmatch(folder))
    is_superseded = shown != folded
    for kind, form in _EDITIONS:
        if found := form.fullmatch(shown):
            return _Edition(
                work=(place, _words(found["work"])),
                is_superseded=is_superseded,
                kind=kind,
                number=_parse_number(found["number"]),
            )
    alone = _Edition(work=(place, _words(shown)), is_superseded=is_superseded)
    year = _find_year(path) if _RULE.fullmatch(shown) else None
    return replace(alone, kind="year", number=_parse_number(year)) if year else alone


def _find_year(path: str) -> str | None:
    """The year that the file's name ends with or, if it has none, that is a folder's name."""
    file = PurePosixPath(path.casefold())
    if found := _IN_PATH.fullmatch(file.stem):
        return found["number"]
    years = [found["number"] for part in file.parent.parts if (found := re.fullmatch(_YEAR, part))]
    return years[-1] if years else None


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text))


def _parse_number(number: str) -> tuple[int, ...]:
    """v2.0 is v2."""
    return tuple(map(int, re.sub(r"(?:\.0+)+\Z", "", number).split(".")))
