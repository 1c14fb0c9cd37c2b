"""The fields of a page, as front matter, properties and meta elements name them, to values."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time
from email.utils import parsedate_to_datetime
from typing import Any

from retrieval import audiences, languages
from retrieval.errors import ConfigError
from retrieval.sources.reads import UnknownReaders

VERIFIED_KEYS = ("last_verified", "verified_at", "verified", "last_reviewed_on", "last_reviewed")
UPDATED_KEYS = ("updated_at", "last_updated", "updated", "last_modified", "lastmod", "date")
OWNER_KEYS = ("owner", "owners", "owner_slack", "maintainer", "team")
LANGUAGE_KEYS = ("lang", "language", "locale", "content_language")
SUPERSEDED_BY_KEYS = ("superseded_by", "replaced_by")
_WRITTEN = tuple(
    f"{day}{time}"
    for day in ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%Y/%m/%d")
    for time in ("", " %H:%M", " %I:%M %p", ", at %H:%M")
)
MAX_FRESHNESS_DAYS = 36_500  # as FRESHNESS_DAYS

# What is said of a page that no longer holds, in its status or in a notice.
GONE = (
    r"(?:deprecated|superseded|obsolete|archived|outdated|out of date|replaced|retired|withdrawn"
    r"|no longer (?:maintained|valid|current|in use|up to date|applies|in force))"
)
_GONE = re.compile(rf"{GONE}\b", re.IGNORECASE)
# What people write who have nothing to say, without what is no letter or digit.
_FILLERS = frozenset(
    {
        *("", "none", "null", "nil", "no", "false", "0", "na", "notapplicable", "nothing"),
        *("tbd", "tba", "tbc", "todo", "unknown"),
    }
)

Fields = Mapping[str, Any]


def normalize(stated: Mapping[Any, Any]) -> Fields:
    """The fields by name in lower case with underscores; of two of one name the first counts."""
    normal: dict[str, Any] = {}
    for key, value in stated.items():
        normal.setdefault(re.sub(r"[\s-]+", "_", str(key).strip().lower()), value)
    return normal


def find_line(stated: Fields, keys: Iterable[str]) -> str | None:
    """The first of the fields that says something, as one line."""
    return ", ".join(find_lines(stated, keys)) or None


def find_lines(stated: Fields, keys: Iterable[str]) -> list[str]:
    """The first of the fields that says something, a line an item; fillers say nothing."""
    for key in keys:
        value = stated.get(key)
        items = value if isinstance(value, list) else [value]
        if lines := [line for each in items if (line := one_line(each)) and not is_filler(line)]:
            return lines
    return []


def is_filler(line: str) -> bool:
    """Whether it only fills a field that had to be filled: "none", "-", "N/A" and the like."""
    return re.sub(r"[\W_]", "", line.casefold()) in _FILLERS


def find_timestamp(stated: Fields, keys: Iterable[str]) -> datetime | None:
    """The first of the fields that is a date or a time, aware, in UTC."""
    return next((found for key in keys if (found := parse_timestamp(stated.get(key)))), None)


def find_day(stated: Fields, keys: Iterable[str]) -> date | None:
    """The first of the fields that is a date or a time, as its day in UTC."""
    found = find_timestamp(stated, keys)
    return found.date() if found else None


def find_language(stated: Fields) -> str | None:
    """The first language stated that PostgreSQL can search in."""
    values = (one_line(stated.get(key)) for key in LANGUAGE_KEYS)
    return next((found for value in values if value and (found := languages.parse(value))), None)


def find_freshness(stated: Fields) -> int | None:
    """For how many days the page counts as verified; None where it gives no sensible number."""
    line = one_line(stated.get("freshness_days")) or ""
    days = int(line) if re.fullmatch(r"[0-9]{1,5}", line) else 0
    return days if 0 < days <= MAX_FRESHNESS_DAYS else None


def find_superseded(stated: Fields, *, own: Collection[str]) -> tuple[bool, str | None]:
    """Whether the page says that it no longer holds, and the first that it names in its place.

    What it names by its own path and address is a mistake, and counts as nothing. By its title it
    may well name another page of that title.
    """
    named = [line for line in find_lines(stated, SUPERSEDED_BY_KEYS) if line not in own]
    successor = next((line for line in named if line.casefold() not in ("true", "yes")), None)
    is_deprecated = isinstance(stated.get("deprecated"), date) or find_lines(stated, ["deprecated"])
    status = one_line(stated.get("status")) or ""
    return bool(named or is_deprecated or _GONE.match(status)), successor


def narrow(allowed: tuple[str, ...], stated: Fields) -> tuple[str, ...]:
    """Who may read a page: as its source allows, or fewer where the page says so.

    Raises UnknownReaders for an audience that is none, and for one that shares no name with the
    source's: whether the one holds the other, only Slack knows.
    """
    if "audience" not in stated:
        return allowed
    value = stated["audience"]
    names = value if isinstance(value, list) else re.split(r"[,\s]+", str(value).strip())
    try:
        own = audiences.parse(names)
    except ConfigError as error:
        raise UnknownReaders(
            f"its audience cannot be read: {error} If it says something else, give it another name."
        ) from error
    if shared := audiences.intersect(own, allowed):
        return shared
    raise UnknownReaders(
        f"its audience, {', '.join(own)}, shares no name with its source's, {', '.join(allowed)}; "
        "a page can only be for fewer people"
    )


def one_line(value: object) -> str | None:
    """A field as one line of text; lists are joined, anything deeper is not used."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float) for item in items):
        return None
    try:
        line = ", ".join(str(item) for item in items)
    except ValueError:  # a number of thousands of digits
        return None
    return " ".join(shown(line).replace("\0", "").split()) or None


def parse_timestamp(value: object) -> datetime | None:
    """A date, a time or a text that is one as an aware UTC time; None for anything else."""
    if isinstance(value, str):
        value = _parse_text(value.strip().removeprefix("@"))  # Notion's mark of a date
    if isinstance(value, datetime):
        try:
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        except OverflowError:  # the first or last day of the calendar, in another zone
            return None
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    return None


def _parse_text(text: str) -> datetime | None:
    """ISO 8601, HTTP's dates and days with the month's English name; no 03/04/2026."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    for written in _WRITTEN:
        try:
            return datetime.strptime(text, written)
        except ValueError:
            continue
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None


def shown(text: str) -> str:
    """The text with what no encoding can write, half a character, as a question mark."""
    return text.encode(errors="replace").decode()
