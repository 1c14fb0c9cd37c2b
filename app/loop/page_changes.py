"""What happened to pages since a time: each page once, by what it comes to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, text

Kind = Literal["added", "changed", "removed", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A row of page_changes."""

    kind: Literal["added", "changed", "removed"]
    source: str
    path: str
    title: str
    text_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChange:
    """What a page's changes come to."""

    kind: Kind
    path: str
    title: str
    was: str | None = None  # the path before it was moved

    @property
    def paths(self) -> frozenset[str]:
        """By which a case may know the page."""
        return frozenset({self.path, self.was or self.path})


def load(connection: Connection, since: datetime) -> list[PageChange]:
    """What changed since then, by path."""
    rows = connection.execute(
        text("""
            SELECT kind, source, path, title, text_hash FROM page_changes
            WHERE changed_at >= :since ORDER BY change_id
        """),
        {"since": since},
    )
    return fold([Noted(**row._mapping) for row in rows])


def fold(noted: Iterable[Noted]) -> list[PageChange]:
    """Each page once, by path; what was undone, or put back as it was, is no change.

    A page removed whose text stands on one that was added was moved.
    """
    histories: dict[tuple[str, str], list[Noted]] = {}
    for each in noted:
        histories.setdefault((each.source, each.path), []).append(each)
    ends = [(_find_kind(history), history[-1]) for history in histories.values()]
    added = [end for kind, end in ends if kind == "added"]
    changes = []
    for kind, end in ends:
        if kind == "removed" and (to := _take_same_text(added, end)):
            changes.append(PageChange(kind="moved", path=to.path, title=to.title, was=end.path))
        elif kind in ("changed", "removed"):
            changes.append(PageChange(kind=kind, path=end.path, title=end.title))
    changes += [PageChange(kind="added", path=each.path, title=each.title) for each in added]
    return sorted(changes, key=lambda change: change.path)


def _find_kind(history: Sequence[Noted]) -> Literal["added", "changed", "removed"] | None:
    first, last = history[0], history[-1]
    if first.kind == "added":
        return None if last.kind == "removed" else "added"
    if last.kind == "removed":
        return "removed"
    removed = next((each for each in history if each.kind == "removed"), None)
    was_touched = any(each.kind == "changed" for each in history)
    is_back = removed is not None and removed.text_hash == last.text_hash and not was_touched
    return None if is_back else "changed"


def _take_same_text(added: list[Noted], removed: Noted) -> Noted | None:
    """The page that was added with this text, taken out of those; None where none was."""
    for each in added:
        if each.text_hash == removed.text_hash:
            added.remove(each)
            return each
    return None
