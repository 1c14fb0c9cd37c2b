"""Pages that say nearly the same, found when they are indexed."""

import hashlib
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rensa import RMinHash
from sqlalchemy import Connection, text

from retrieval import editions
from retrieval.db import Database
from retrieval.lexical import build_words

# Of the words of two pages in threes, the share of all that both have (Broder, 1997). On the 1,942
# pages of the handbook 29 pairs have 0.7 or more. 27 of them are one template filled for several
# services, which their titles tell; the two others are copies. At 0.6 there are three copies, but
# also the norms of two teams, written to one outline.
LEAST = 0.7
SHINGLE = 3  # words
MIN_WORDS = 20  # of a page; shorter ones are much alike without being copies; chosen

# 32 bands of 4: of pairs at LEAST, all but 1 in 5,000 have a band in common, of those at 0.3 a
# quarter have.
PERMUTATIONS, ROWS = 128, 4
SEED = 1
BATCH = 200  # documents


@dataclass(frozen=True, kw_only=True)
class _Page:
    """A page as it is compared."""

    document_id: int
    content_hash: str
    title: str
    text: str

    @cached_property
    def words(self) -> list[str]:
        return build_words(self.text).split()

    @cached_property
    def shingles(self) -> frozenset[str]:
        starts = range(max(len(self.words) - SHINGLE + 1, 0))
        return frozenset(" ".join(self.words[at : at + SHINGLE]) for at in starts)

    @cached_property
    def known(self) -> frozenset[str]:
        """The words of title and text."""
        return editions.title_words(self.title) | {*self.words}


def refresh(database: Database) -> None:
    """Compare the pages that have changed since they last were with all others."""
    database = database.unrestricted
    while True:
        with database.transaction() as connection:
            changed = _load_changed(connection)
            _save_signatures(connection, changed)
            _save_pairs(connection, changed)
        if len(changed) < BATCH:
            return


def load(connection: Connection, document_ids: Collection[int]) -> frozenset[tuple[int, int]]:
    """The pairs among these documents, each with the lower id first."""
    rows = connection.execute(
        text("""
            SELECT document_id, other_id FROM copies
            WHERE document_id = ANY(:document_ids) AND other_id = ANY(:document_ids)
        """),
        {"document_ids": list(document_ids)},
    )
    return frozenset((row.document_id, row.other_id) for row in rows)


def find_similarity(one: _Page, other: _Page) -> float | None:
    """How much of two pages' words both have, in [LEAST, 1]; None where they are no copies.

    One template filled for two services is none: the title of each has a word that the other page
    has not.
    """
    for here, there in ((one, other), (other, one)):
        if editions.title_words(here.title) - there.known:
            return None
    both, all_ = one.shingles & other.shingles, one.shingles | other.shingles
    similarity = len(both) / len(all_) if all_ else 0.0
    return similarity if similarity >= LEAST else None


def _load_changed(connection: Connection) -> list[_Page]:
    rows = connection.execute(
        text("""
            SELECT document_id, documents.content_hash, title, text
            FROM documents LEFT JOIN signatures USING (document_id)
            WHERE signatures.content_hash IS DISTINCT FROM documents.content_hash
            ORDER BY document_id LIMIT :batch
        """),
        {"batch": BATCH},
    )
    return [_Page(**row._mapping) for row in rows]


def _save_signatures(connection: Connection, pages: Collection[_Page]) -> None:
    rows = [
        {
            "document_id": page.document_id,
            "content_hash": page.content_hash,
            "bands": list(_build_bands(page)),
        }
        for page in pages
    ]
    if rows:
        connection.execute(
            text("""
                INSERT INTO signatures (tenant_id, document_id, content_hash, bands)
                SELECT tenant_id, document_id, :content_hash, :bands FROM documents
                WHERE document_id = :document_id FOR KEY SHARE
                ON CONFLICT (document_id) DO UPDATE
                SET content_hash = excluded.content_hash, bands = excluded.bands
            """),
            rows,
        )


def _build_bands(page: _Page) -> Iterator[int]:
    if len(page.words) < MIN_WORDS:
        return
    sketch = RMinHash(num_perm=PERMUTATIONS, seed=SEED)
    sketch.update(sorted(page.shingles))
    digest = sketch.digest()
    for start in range(0, PERMUTATIONS, ROWS):
        band = struct.pack(f">{ROWS + 1}I", start, *digest[start : start + ROWS])
        (number,) = struct.unpack(">q", hashlib.blake2b(band, digest_size=8).digest())
        yield number


def _save_pairs(connection: Connection, changed: Collection[_Page]) -> None:
    """Replace the pairs that the changed pages are part of."""
    ids = [page.document_id for page in changed]
    connection.execute(
        text("DELETE FROM copies WHERE document_id = ANY(:ids) OR other_id = ANY(:ids)"),
        {"ids": ids},
    )
    pairs = connection.execute(
        text("""
            WITH known AS (
                SELECT document_id, unnest(bands) AS band FROM signatures
            )
            SELECT DISTINCT least(one.document_id, other.document_id) AS low,
                   greatest(one.document_id, other.document_id) AS high
            FROM known AS one JOIN known AS other USING (band)
            WHERE one.document_id = ANY(:ids) AND other.document_id <> one.document_id
        """),
        {"ids": ids},
    ).all()
    pages = _load_pages(connection, {each for row in pairs for each in (row.low, row.high)})
    rows = [
        {"low": row.low, "high": row.high, "similarity": similarity}
        for row in pairs
        if (similarity := find_similarity(pages[row.low], pages[row.high])) is not None
    ]
    if rows:
        connection.execute(
            text("""
                INSERT INTO copies (tenant_id, document_id, other_id, similarity)
                SELECT tenant_id, document_id, :high, :similarity FROM documents
                WHERE document_id = :low
                ON CONFLICT (document_id, other_id) DO UPDATE SET similarity = excluded.similarity
            """),
            rows,
        )


def _load_pages(connection: Connection, document_ids: Collection[int]) -> Mapping[int, _Page]:
    """The documents, locked, so that none is deleted before its pairs are saved."""
    rows = connection.execute(
        text("""
            SELECT document_id, content_hash, title, text FROM documents
            WHERE document_id = ANY(:ids) ORDER BY document_id FOR KEY SHARE
        """),
        {"ids": sorted(document_ids)},
    )
    return {row.document_id: _Page(**row._mapping) for row in rows}
