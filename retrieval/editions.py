"""Which of two pages is the later edition of one work, by title, path and what they say; pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
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
_ARCHIVE = re.compile(rf"_?{_OLD}")
_AGE_FOLDER = re.compile(rf"{_ARCHIVE.pattern}|{_YEAR}")
# Of a rule whose title has no year, where its path has one.
_RULE = re.compile(rf".*\b(?:{_RULES}|guide)\W*")
_IN_PATH = re.compile(rf"(?:.*[^a-z0-9])?{_YEAR}")
# Of a question; "from home" and "in May" may be meant otherwise, and what they bring comes behind.
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
)
_AHEAD = re.compile(
    r"\b(?:next|will|upcoming|coming|future|from"
    rf"|(?:in|by|until|as of|starting|beginning) (?:\w+ )?{_MONTH})\b",
    re.IGNORECASE,
)


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


class Listed(Named, Protocol):
    """The same with its id."""

    @property
    def document_id(self) -> int: ...


class Superseded(Listed, Addressed, Protocol):
    """The same with its address and what it says replaces it."""

    @property
    def superseded_by(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edition:
    """What title and path say of a page."""

    work: tuple[tuple[str, ...], tuple[str, ...]]  # its folders, and the words of its title
    age: "_Age"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Age:
    """Which edition of its work a page is."""

    is_superseded: bool
    kind: Literal["year", "version"] | None = None  # None: it is the only one
    number: tuple[int, ...] = ()

    def has_begun(self, today: date) -> bool:
        return self.kind != "year" or self.number <= (today.year % 100,)

    def is_before(self, other: "_Age", today: date) -> bool:
        """Whether the other is the later one, and in force."""
        if self.is_superseded != other.is_superseded:
            return self.is_superseded
        is_later = self.kind == other.kind and self.number < other.number
        return is_later and other.has_begun(today)

    def is_to_come(self, other: "_Age", today: date) -> bool:
        """Whether it will be in force, and the other is."""
        is_in_force = other.has_begun(today) and not other.is_superseded
        return is_in_force and not self.has_begun(today)

    def compares(self, other: "_Age") -> bool:
        """Whether either is known to be the later one; a year and a version tell nothing."""
        if self.is_superseded != other.is_superseded:
            return True
        return self.kind == other.kind and self.number != other.number


def is_older(one: Named, other: Named, today: date) -> bool:
    """Whether two pages are editions of one work, of which the other is the later.

    Editions lie in one folder, but for folders such as "archive" or "2023", and have one title, but
    for a word such as "old", or a year that has begun or a version after what is in force until
    replaced, such as a policy. Where no title has a year, that of the folder or file counts.
    """
    here, there = _read(one.title, one.path), _read(other.title, other.path)
    return here.work == there.work and here.age.is_before(there.age, today)


def find_older(pages: Iterable[Listed], today: date) -> set[int]:
    """The pages, by document_id, of which another one is a later edition."""
    works: dict[tuple[tuple[str, ...], ...], dict[_Age, list[int]]] = {}
    for page in pages:
        edition = _read(page.title, page.path)
        works.setdefault(edition.work, {}).setdefault(edition.age, []).append(page.document_id)
    return {
        document_id
        for ages in works.values()
        for age, document_ids in ages.items()
        if any(age.is_before(other, today) for other in ages)
        for document_id in document_ids
    }


def is_one_work(one: Named, other: Named) -> bool:
    """Whether two pages have one title and place, whichever edition either is."""
    return _read(one.title, one.path).work == _read(other.title, other.path).work


def is_one_edition(one: Named, other: Named) -> bool:
    """Whether neither title nor path of two pages says that one is an earlier or later edition."""
    return not _read(one.title, one.path).age.compares(_read(other.title, other.path).age)


def gives_way(one: Named, other: Named, today: date) -> bool:
    """Whether one, of two pages that are known to be of one work, is an earlier edition than the
    other, or one that is to come while the other is in force."""
    here, there = _read(one.title, one.path).age, _read(other.title, other.path).age
    return here.is_before(there, today) or here.is_to_come(there, today)


def is_to_come(page: Named, today: date) -> bool:
    """Whether the year of an edition has not begun."""
    return not _read(page.title, page.path).age.has_begun(today)


def asks_ahead(question: str, today: date) -> bool:
    """Whether a question may be about what will hold."""
    years = re.findall(rf"\b{_YEAR}\b", question.casefold())
    return bool(_AHEAD.search(question)) or any(int(year) > today.year % 100 for year in years)


def is_archived(path: str) -> bool:
    """Whether a page lies in a folder such as "archive"."""
    return any(map(_ARCHIVE.fullmatch, PurePosixPath(path.casefold()).parent.parts))


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


def find_last(page: Page, find: Callable[[Page], Page | None]) -> Page | None:
    """The last of the pages that replace one another, as find gives them, from page on.

    Page itself where they lead back to it; None where none replaces it, or they go round elsewhere.
    """
    seen = {page.document_id}
    last, successor = None, find(page)
    while successor is not None and successor.document_id not in seen:
        seen.add(successor.document_id)
        last, successor = successor, find(successor)
    if successor is None:
        return last
    return page if successor.document_id == page.document_id else None


def find_all_last(pages: Mapping[int, Page]) -> dict[int, Page]:
    """What find_last gives for each of pages by their document_id, where it is something."""
    find = partial(find_successor, pages=pages.values())
    return {number: last for number, page in pages.items() if (last := find_last(page, find))}


@lru_cache(maxsize=4_096)
def _read(title: str, path: str) -> _Edition:
    folded = re.sub("[–—]", "-", title.casefold()).strip()
    shown = _SUPERSEDED.sub(" ", folded).strip()
    folders = PurePosixPath(path.casefold()).parent.parts
    place = tuple(folder for folder in folders if not _AGE_FOLDER.fullmatch(folder))
    is_superseded = shown != folded or is_archived(path)
    for kind, form in _EDITIONS:
        if found := form.fullmatch(shown):
            return _Edition(
                work=(place, _words(found["work"])),
                age=_Age(
                    is_superseded=is_superseded, kind=kind, number=_parse_number(found["number"])
                ),
            )
    age = _Age(is_superseded=is_superseded)
    if _RULE.fullmatch(shown) and (year := _find_year(path)):
        age = replace(age, kind="year", number=_parse_number(year))
    return _Edition(work=(place, _words(shown)), age=age)


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
