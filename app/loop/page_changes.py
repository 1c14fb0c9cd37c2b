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
    text_hash: str  # of a page removed, its last
    title_before: str | None = None  # None of a page added, as is the next
    hash_before: str | None = None


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

    @property
    def gone(self) -> str | None:
        """The path at which nothing stands any more."""
        return self.path if self.kind == "removed" else self.was


def load(connection: Connection, since: datetime) -> list[PageChange]:
    """What changed since then, by path."""
    rows = connection.execute(
        text("""
            SELECT kind, source, path, title, text_hash, title_before, hash_before
            FROM page_changes WHERE changed_at >= :since ORDER BY change_id
        """),
        {"since": since},
    )
    return fold([Noted(**row._mapping) for row in rows])


def fold(noted: Iterable[Noted]) -> list[PageChange]:
    """Each page once, by path; what was undone, or put back as it was, is no change.

    A page removed was moved if a text of its stands, or has stood, on one that was added.
    """
    histories: dict[tuple[str, str], list[Noted]] = {}
    for each in noted:
        histories.setdefault((each.source, each.path), []).append(each)
    kinds = [(_find_kind(history), history) for history in histories.values()]
    added = [history for kind, history in kinds if kind == "added"]
    changes = []
    for kind, history in kinds:
        end = history[-1]
        if kind == "removed" and (to := _take_moved(added, history)):
            changes.append(PageChange(kind="moved", path=to.path, title=to.title, was=end.path))
        elif kind in ("changed", "removed"):
            changes.append(PageChange(kind=kind, path=end.path, title=end.title))
    changes += [PageChange(kind="added", path=end.path, title=end.title) for *_, end in added]
    return sorted(changes, key=lambda change: change.path)


def _find_kind(history: Sequence[Noted]) -> Literal["added", "changed", "removed"] | None:
    first, last = history[0], history[-1]
    was_there, is_there = first.kind != "added", last.kind != "removed"
    if not was_there:
        return "added" if is_there else None
    if not is_there:
        return "removed"
    is_back = (first.title_before, first.hash_before) == (last.title, last.text_hash)
    return None if is_back else "changed"


def _take_moved(added: list[list[Noted]], removed: Sequence[Noted]) -> Noted | None:
    """Where the page removed stands now, taken out of those added; None where nowhere."""
    for history in added:
        if _find_texts(history) & _find_texts(removed):
            added.remove(history)
            return history[-1]
    return None


def _find_texts(history: Sequence[Noted]) -> set[str]:
    """The hashes of all that the page has held."""
    return {text for each in history for text in (each.hash_before, each.text_hash) if text}
