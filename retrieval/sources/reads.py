"""What becomes of a file: a page, a document, or a reason why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from retrieval.records import Anchors, Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that did not become a document."""

    path: str
    reason: str


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
