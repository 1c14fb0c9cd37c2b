"""What becomes of a file: a page, a document, or a reason why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from retrieval.records import Anchors, Document

# Hidden: for nobody until the file is mended, since its readers are not known; gone: as if the file
# were.
Before = Literal["stays", "hidden", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that did not become a document, and what that means for the page of before."""

    path: str
    reason: str
    before: Before = "stays"
    file_hash: str = ""  # as of Read; "" for one that is to be tried again each time


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """A file that is as it was when it was last read, and would be read the same way."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A document and what was cleaned on the way, in words for the operator."""

    document: Document
    notes: tuple[str, ...]
    file_hash: str = ""  # of the file's bytes and of how they were read, in hexadecimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a file from elsewhere than its bytes."""

    path: str  # below the folder, with forward slashes
    url: str
    audience: tuple[str, ...] = ("everyone",)  # the page itself may only narrow it
    owner: str | None = None  # where the page names none
    freshness_days: int | None = None  # where the page says nothing
    anchors: Anchors | None = None
    updated_at: datetime | None = None  # where the page says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A file's text as Markdown, and what it says of itself."""

    text: str
    stated: Mapping[str, Any] = field(default_factory=dict)  # by lower-case name
    notes: tuple[str, ...] = ()


class Unreadable(Exception):
    """What a reader raises for a file that becomes no page; its text is the reason."""

    before: Before = "stays"


class UnknownReaders(Unreadable):
    """Who may read the page cannot be told."""

    before = "hidden"


class Empty(Unreadable):
    """There is nothing in it."""

    before = "gone"
