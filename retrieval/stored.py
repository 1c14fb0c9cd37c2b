"""The pages of one source as they stand in the index, to be told from those read now."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection, text

from retrieval.records import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What tells whether a page is as it was."""

    document_id: int
    content_hash: str
    file_hash: str | None  # None: it is to be read again in any case
    audience: tuple[str, ...]

    def is_as(self, document: Document) -> bool:
        # The audience besides: it may have been narrowed before the rest could be saved.
        return (self.content_hash, self.audience) == (document.content_hash, document.audience)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All that what is indexed of a page was made of, and who may read it."""

    document_id: int
    path: str
    title: str
    text: str
    language: str
    anchors: str | None
    audience: tuple[str, ...]
    confirmed_on: date | None = None
    confirmed_by: str | None = None

    def is_indexed_as(self, document: Document) -> bool:
        """Whether chunks and postings of the document would be those that are there."""
        return all(
            getattr(self, name) == getattr(document, name)
            for name in ("path", "title", "text", "language", "anchors")
        )


def load_known(connection: Connection, source: str) -> dict[str, Known]:
    """Each page of the source, by its path."""
    rows = connection.execute(
        text("""
            SELECT path, document_id, content_hash, file_hash,
                   array_remove(audience, '*') AS audience
            FROM documents JOIN audiences USING (audience_id) WHERE source = :source
        """),
        {"source": source},
    )
    return {
        row.path: Known(
            document_id=row.document_id,
            content_hash=row.content_hash,
            file_hash=row.file_hash,
            audience=tuple(row.audience),
        )
        for row in rows
    }


def load(connection: Connection, document_ids: Collection[int]) -> dict[str, Stored]:
    """Pages of one source whole, by their path."""
    if not document_ids:
        return {}
    rows = connection.execute(
        text("""
            SELECT document_id, path, title, text, language, anchors,
                   array_remove(audience, '*') AS audience, confirmed_on, confirmed_by
            FROM documents JOIN audiences USING (audience_id)
            WHERE document_id = ANY(:document_ids)
        """),
        {"document_ids": list(document_ids)},
    )
    fields = [dict(row._mapping) for row in rows]
    return {
        each["path"]: Stored(**{**each, "audience": tuple(each["audience"])}) for each in fields
    }


def find_file_hashes(known: Mapping[str, Known]) -> dict[str, str]:
    """The hash of each page's file, by their path."""
    return {path: page.file_hash for path, page in known.items() if page.file_hash}
