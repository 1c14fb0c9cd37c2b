"""Pages that say nearly the same, found when they are indexed."""

import hashlib
import struct
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from rensa import RMinHash
from sqlalchemy import Connection, text

from retrieval import editions, shingles
from retrieval.db import Database
from retrieval.lexical import STEMS, build_words, fold

# Of the words of two pages in runs, the share of all that both have. On the 1,942 pages of the
# handbook 29 pairs have 0.7 or more. 27 of them are one template filled for several services, which
# their titles tell; the two others are copies. At 0.6 there are three copies, but also the norms of
# two teams, written to one outline.
LEAST = 0.7
# Of pages whose titles tell them apart: a person should look at them, and both are answered from.
ALIKE = 0.85  # chosen
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
    language: str
    # Each word of the title, but for what tells editions apart, with its stems: none of a stop
    # word. Empty until it is compared.
    stems: Mapping[str, Set[str]] = field(default_factory=dict)

    @cached_property
    def words(self) -> list[str]:
        return build_words(self.text).split()

    @cached_property
    def shingles(self) -> frozenset[str]:
        return shingles.build(self.words)

    @cached_property
    def known(self) -> frozenset[str]:
        """The words of title and text, and the stems of the title."""
        return frozenset({*self.stems, *self.words}.union(*self.stems.values()))


def refresh(database: Database) -> None:
    """Compare the pages that have changed since they last were with all others."""
    database = database.unrestricted
    while True:
        with database.transaction() as connection:
            changed = _load_changed(connection)
            if not changed:
                return
            _save_signatures(connection, changed)
            _save_pairs(connection, changed)
        if len(changed) < BATCH:
            return


def load(connection: Connection, document_ids: Collection[int]) -> frozenset[tuple[int, int]]:
    """The pairs of one title among these documents, each with the lower id first."""
    rows = connection.execute(
        text("""
            SELECT document_id, other_id FROM copies
            WHERE document_id = ANY(:document_ids) AND other_id = ANY(:document_ids)
            AND has_one_title
        """),
        {"document_ids": list(document_ids)},
    )
    return frozenset((row.document_id, row.other_id) for row in rows)


def compare(one: _Page, other: _Page) -> tuple[float, bool] | None:
    """How much of two pages' words both have, in [LEAST, 1], and whether they have one title; None
    where they are no copies.

    Those whose titles differ are from ALIKE on: most are one template filled for two services.
    """
    similarity = shingles.find_similarity(one.shingles, other.shingles)
    is_one = has_one_title(one, other)
    return (similarity, is_one) if similarity >= (LEAST if is_one else ALIKE) else None


def has_one_title(one: _Page, other: _Page) -> bool:
    """Whether the title of neither has a word that the other page has not, in any form."""
    return not any(
        stems and word not in there.known and not stems & there.known
        for here, there in ((one, other), (other, one))
        for word, stems in here.stems.items()
    )


def _load_changed(connection: Connection) -> list[_Page]:
    rows = connection.execute(
        text("""
            SELECT document_id, documents.content_hash, title, text, language
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
        {
            "low": row.low,
            "high": row.high,
            "similarity": found[0],
            "has_one_title": found[1],
        }
        for row in pairs
        if (found := compare(pages[row.low], pages[row.high]))
    ]
    if rows:
        connection.execute(
            text("""
                INSERT INTO copies (tenant_id, document_id, other_id, similarity, has_one_title)
                SELECT tenant_id, document_id, :high, :similarity, :has_one_title FROM documents
                WHERE document_id = :low
                ON CONFLICT (document_id, other_id) DO UPDATE
                SET similarity = excluded.similarity, has_one_title = excluded.has_one_title
            """),
            rows,
        )


def _load_pages(connection: Connection, document_ids: Collection[int]) -> Mapping[int, _Page]:
    """The documents, locked, so that none is deleted before its pairs are saved."""
    rows = connection.execute(
        text("""
            SELECT document_id, content_hash, title, text, language FROM documents
            WHERE document_id = ANY(:ids) ORDER BY document_id FOR KEY SHARE
        """),
        {"ids": sorted(document_ids)},
    )
    pages = [_Page(**row._mapping) for row in rows]
    stems = _load_stems(connection, pages)
    return {page.document_id: replace(page, stems=stems[page.document_id]) for page in pages}


def _load_stems(
    connection: Connection, pages: Collection[_Page]
) -> Mapping[int, Mapping[str, Set[str]]]:
    """The words of the titles with their stems, by document_id."""
    words = [(page, word) for page in pages for word in sorted(editions.title_words(page.title))]
    rows = connection.execute(
        text(f"""
            SELECT document_id, word, {STEMS} AS stems
            FROM unnest(CAST(:ids AS bigint[]), CAST(:languages AS text[]),
                        CAST(:words AS text[]), CAST(:folded AS text[]))
                AS titles (document_id, language, word, folded)
        """),
        {
            "ids": [page.document_id for page, _ in words],
            "languages": [page.language for page, _ in words],
            "words": [word for _, word in words],
            "folded": [fold(word) for _, word in words],
        },
    )
    stems: dict[int, dict[str, Set[str]]] = {page.document_id: {} for page in pages}
    for row in rows:
        stems[row.document_id][row.word] = frozenset(row.stems)
    return stems
