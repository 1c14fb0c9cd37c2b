"""What one read of a source comes to, beside what the index holds of it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from retrieval import audiences, moves, purged, stored
from retrieval.db import Database
from retrieval.records import Document
from retrieval.sources.reads import Read, Skipped, Unchanged
from retrieval.stored import Known, Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A page on its way into the index."""

    source: str
    document: Document
    file_hash: str | None = None
    document_id: int | None = None  # as which it stands in the index; None: it is new
    former: Stored | None = None  # the page that had its text before, where another one had


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done about the pages of a source."""

    known_count: int  # pages that were in the index
    new_count: int
    changed_count: int  # in whatever it is
    unchanged_count: int
    pending: tuple[Pending, ...]  # to be indexed: new, moved, or changed in what is indexed
    restated: tuple[Pending, ...]  # as they were in all that is indexed, and not in the rest
    # Who may read stored pages from now on, by document_id, where that changes.
    audiences: Mapping[int, tuple[str, ...]]
    moved: tuple[tuple[str, str], ...]  # the path before, and now
    gone: tuple[str, ...]  # paths of stored pages that the source no longer has
    skipped: tuple[Skipped, ...]
    notes: tuple[tuple[str, str], ...]  # path, what was cleaned

    @property
    def left_count(self) -> int:
        """How many of the pages that were in the index the source still has."""
        return self.known_count - len(self.gone)

    @property
    def may_be_pruned(self) -> bool:
        """Whether somebody may say that all those are gone: of a folder that is empty, nobody."""
        return self.left_count > 0 or self.known_count == 1

    @property
    def is_doubtful(self) -> bool:
        """Whether so much is gone that a folder may be away, and not its pages."""
        return 2 * self.left_count < self.known_count


def make(database: Database, source: str, reads: Iterable[Read | Skipped | Unchanged]) -> Plan:
    """Read all that there is of a source, and compare it with what is stored."""
    every = list(purged.withhold(database, source, reads))  # first: no transaction waits for it
    read = {each.document.path: each for each in every if isinstance(each, Read)}
    skipped = [each for each in every if isinstance(each, Skipped)]
    unchanged = {each.path for each in every if isinstance(each, Unchanged)}
    with database.snapshot() as connection:
        known = stored.load_known(connection, source)
        there = {each.path for each in skipped if each.before != "gone"}
        gone = known.keys() - read.keys() - unchanged - there
        pages = _compare(connection, known, read, gone)
    moved = [(was.path, page.path) for page in pages if (was := page.moved_from)]
    return Plan(
        known_count=len(known),
        new_count=sum(page.is_new for page in pages),
        changed_count=sum(page.stored is not None for page in pages),
        unchanged_count=sum(page.is_unchanged for page in pages) + len(unchanged),
        pending=tuple(page.build(source) for page in pages if page.is_pending),
        restated=tuple(page.build(source) for page in pages if page.is_restated),
        audiences={**dict(_find_audiences(pages)), **dict(_find_hidden(known, skipped))},
        moved=tuple(moved),
        gone=tuple(sorted(gone - {was for was, _ in moved})),
        skipped=tuple(skipped),
        notes=tuple((path, note) for path, each in read.items() for note in each.notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A page that was read, beside what it is in the index."""

    read: Read
    known: Known | None  # the page at its path
    stored: Stored | None  # the page as it was, unless that is the same or there was none
    former: Stored | None = None  # as of Pending

    @property
    def path(self) -> str:
        return self.read.document.path

    @property
    def is_new(self) -> bool:
        return self.known is None and self.stored is None

    @property
    def is_unchanged(self) -> bool:
        return self.known is not None and self.stored is None

    @property
    def is_pending(self) -> bool:
        return self.is_new or (
            self.stored is not None and not self.stored.is_indexed_as(self.read.document)
        )

    @property
    def is_restated(self) -> bool:
        if self.stored is not None:
            return not self.is_pending
        file_hash = self.known and self.known.file_hash
        return self.is_unchanged and self.read.file_hash not in ("", file_hash)

    @property
    def moved_from(self) -> Stored | None:
        return self.stored if self.stored and self.stored.path != self.path else None

    def build(self, source: str) -> Pending:
        was = self.stored or self.known
        return Pending(
            source=source,
            document=self.read.document,
            file_hash=self.read.file_hash or None,
            document_id=was.document_id if was else None,
            former=self.former,
        )


def _compare(
    connection: Connection,
    known: Mapping[str, Known],
    read: Mapping[str, Read],
    gone: Collection[str],
) -> list[_Compared]:
    new = [each.document for path, each in read.items() if path not in known]
    changed = [
        path
        for path, each in read.items()
        if path in known and not known[path].is_as(each.document)
    ]
    looked_up = (*changed, *gone) if new or changed else ()
    before = stored.load(connection, [known[path].document_id for path in looked_up])
    moved = moves.find([before[path] for path in gone if path in before], new)
    texts = {page.text: page for page in before.values()}
    return [
        _Compared(
            read=each,
            known=known.get(path),
            stored=moved.get(path) or before.get(path),
            former=_find_former(before.get(path), each.document, texts),
        )
        for path, each in read.items()
    ]


def _find_former(was: Stored | None, now: Document, texts: Mapping[str, Stored]) -> Stored | None:
    """Whose text a page has now: names are swapped, or a page is put in another one's place."""
    return texts.get(now.text) if was and was.text != now.text else None


def _find_audiences(pages: Iterable[_Compared]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Until the new text is there, the old one is for those who may read both."""
    for page in pages:
        if page.stored is None:
            continue
        before, now = page.stored.audience, page.read.document.audience
        if page.is_pending:
            now = audiences.intersect(before, now)
        if now != before:
            yield page.stored.document_id, now


def _find_hidden(
    known: Mapping[str, Known], skipped: Iterable[Skipped]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for each in skipped:
        if each.before == "hidden" and each.path in known and known[each.path].audience:
            yield known[each.path].document_id, ()
