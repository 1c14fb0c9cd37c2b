"""What is Notion's own in its exports: hashes in names, properties above a text, databases."""

import csv
import io
import re
from collections.abc import Mapping

from retrieval.sources import fields, tables
from retrieval.sources.reads import Page

MAX_ROWS = 2_000  # chosen: who looks for a row of a longer list looks for it in Notion

_HASH = re.compile(
    r"[ _-]?(?P<hash>[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:_all)?"
)
_PROPERTY = re.compile(r"(?P<name>[^\s:][^:\n]{0,40}):[ \t]+(?P<value>\S.*)")


def split_name(stem: str) -> tuple[str, str | None]:
    """A file's name without its suffix in two: the page's title, and its hash if it has one."""
    match = re.fullmatch(rf"(?P<title>.*?){_HASH.pattern}", stem)
    return (match["title"] or stem, match["hash"]) if match else (stem, None)


def read_properties(text: str) -> Mapping[str, object]:
    """The `Name: value` lines between a page's heading and its text, as fields."""
    match = re.match(r"\s*# .*\n\s*\n((?:[^\s:#>|-][^:\n]{0,40}:.*\n?)+)(?:\n|\Z)", text)
    lines = match[1].splitlines() if match else []
    found = [_PROPERTY.match(line) for line in lines]
    return fields.normalize({each["name"]: each["value"].strip() for each in found if each})


def read_database(text: str) -> Page:
    """A database's rows as one table."""
    rows = list(csv.reader(io.StringIO(text)))
    notes: tuple[str, ...] = ()
    if len(rows) > MAX_ROWS + 1:
        notes = (f"{MAX_ROWS:,} of {len(rows) - 1:,} rows are kept; split it",)
    return Page(text=tables.build(rows[: MAX_ROWS + 1]), notes=notes)
