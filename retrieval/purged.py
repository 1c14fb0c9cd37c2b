"""Pages that were purged: gone from the index, and kept out of it.

A page is known by its source and path, and a copy of it elsewhere by the hash of its text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5

from sqlalchemy import Connection, text

from retrieval.db import Database
from retrieval.sources.reads import Read, Skipped, Unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A page, by its key for good."""

    source: str
    path: str


def find_sources(connection: Connection, path: str) -> list[str]:
    """The sources that have, or had, a page at this path."""
    rows = connection.execute(
        text("""
            SELECT source FROM documents WHERE path = :path
            UNION SELECT source FROM page_changes WHERE path = :path
            UNION SELECT source FROM dead_letters WHERE path = :path
            UNION SELECT source FROM purged_pages WHERE path = :path
            ORDER BY source
        """),
        {"path": path},
    )
    return list(rows.scalars())


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The page itself, or another one that has the very same text."""

    document_id: int
    source: str
    path: str


def find_copies(connection: Connection, page: Key) -> list[Copy]:
    """The page and its copies, as far as they are in the index."""
    rows = connection.execute(
        text(f"SELECT document_id, source, path FROM documents WHERE {_IS_COPY}"), _key(page)
    )
    return [Copy(**row._mapping) for row in rows]


def delete(connection: Connection, page: Key) -> int:
    """Take the page and its copies out of the index, with all that tells of them, for good.

    Gives how many there were.
    """
    from retrieval import generations  # loads PyTorch, which takes seconds

    connection.execute(
        text(f"""
            INSERT INTO purged_pages (tenant_id, source, path, text_hash)
            SELECT current_setting('footnote.tenant_id'), :source, :path, {_TEXT_HASH}
            ON CONFLICT (tenant_id, source, path) DO UPDATE
            SET text_hash = coalesce(excluded.text_hash, purged_pages.text_hash), purged_at = now()
        """),
        _key(page),
    )
    deleted = connection.execute(text(f"DELETE FROM documents WHERE {_IS_COPY}"), _key(page))
    connection.execute(
        text("DELETE FROM dead_letters WHERE source = :source AND path = :path"), _key(page)
    )
    connection.execute(
        text("""
            DELETE FROM page_changes
            WHERE (source = :source AND path = :path)
            OR text_hash = (  -- where it stood before it was moved
                SELECT text_hash FROM purged_pages WHERE source = :source AND path = :path)
        """),
        _key(page),
    )
    generations.refresh_all_counts(connection)
    return deleted.rowcount


def readmit(connection: Connection, page: Key) -> bool:
    """Let the page in again when its source is next read; False where it was not kept out."""
    readmitted = connection.execute(
        text("DELETE FROM purged_pages WHERE source = :source AND path = :path"), _key(page)
    )
    return readmitted.rowcount > 0


def withhold(
    database: Database, source: str, reads: Iterable[Read | Skipped | Unchanged]
) -> Iterator[Read | Skipped | Unchanged]:
    """What was read of a source, with each page that was purged, or is a copy of one, skipped."""
    by_path, by_text = _load(database, source)
    for read in reads:
        if not isinstance(read, Read):
            yield read
            continue
        document = read.document
        digest = md5(document.text.encode(), usedforsecurity=False).hexdigest()
        purged_at = by_path.get(document.path) or by_text.get(digest)
        yield read if purged_at is None else _build_skipped(document.path, purged_at)


def _build_skipped(path: str, purged_at: datetime) -> Skipped:
    reason = (
        f"purged on {purged_at:%Y-%m-%d}; take it out of the source, or let it in again with "
        "`footnote purge --page PATH --readmit`"
    )
    return Skipped(path=path, reason=reason)


def _load(database: Database, source: str) -> tuple[dict[str, datetime], dict[str, datetime]]:
    """When pages were purged, by the path of those of the source, and by the hash of any's text."""
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT source, path, text_hash, purged_at FROM purged_pages")
        ).all()
    by_path = {row.path: row.purged_at for row in rows if row.source == source}
    return by_path, {row.text_hash: row.purged_at for row in rows if row.text_hash}


# SQL: the md5 of the page's text, or of its last one if it is gone; NULL without any words.
_TEXT_HASH = r"""coalesce(
    (SELECT md5(text) FROM documents
     WHERE source = :source AND path = :path AND text ~ '\S'),
    (SELECT text_hash FROM purged_pages WHERE source = :source AND path = :path),
    (SELECT text_hash FROM page_changes
     WHERE source = :source AND path = :path AND kind = 'removed'
     ORDER BY changed_at DESC LIMIT 1))"""
# SQL: whether a document is the page or a copy of it.
_IS_COPY = rf"""((source = :source AND path = :path)
    OR (md5(text) = {_TEXT_HASH} AND text ~ '\S'))"""


def _key(page: Key) -> dict[str, str]:
    return {"source": page.source, "path": page.path}
