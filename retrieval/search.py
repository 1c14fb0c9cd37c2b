"""Query to the hits of the dense, lexical and identifier legs: one SQL statement each.

Every statement names tenant and generation itself; row-level security holds without.
"""

from collections.abc import Sequence
from typing import Any

from pgvector import HalfVector
from sqlalchemy import Connection, Row, text

from retrieval import identifiers
from retrieval.embedding import Vectors
from retrieval.generations import Generation
from retrieval.lexical import build_words
from retrieval.records import Hit, Leg, StoredSection
from retrieval.tuning import Tuning

CHUNKS_PER_HIT = 4  # a section has about six chunks, and several may be near the query


def dense(
    connection: Connection, vector: Vectors, generation: Generation, tuning: Tuning
) -> list[Hit]:
    """Sections by the cosine similarity of their best chunk.

    A small generation is scanned whole, a large one through HNSW: scanning on until enough rows
    passed the filters, since HNSW filters only what it has already picked.
    """
    distance = "embedding <=> :vector"
    if generation.chunk_count >= tuning.exact_below:
        size = int(generation.dimension)
        distance = f"embedding::halfvec({size}) <=> CAST(:vector AS halfvec({size}))"
        connection.execute(
            text(
                "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),"
                " set_config('hnsw.ef_search', :ef_search, true)"
            ),
            {"ef_search": str(tuning.ef_search)},
        )
    rows = connection.execute(
        text(f"""
            WITH nearest AS MATERIALIZED (
                SELECT chunk_id, section_id, {distance} AS distance
                FROM chunks
                WHERE tenant_id = current_setting('footnote.tenant_id')
                AND generation_id = :generation_id
                AND vector_dims(embedding) = :dimension
                ORDER BY distance LIMIT :chunks
            ), best AS (
                SELECT DISTINCT ON (section_id) section_id, chunk_id, 1 - distance AS score
                FROM nearest ORDER BY section_id, distance, chunk_id
            )
            SELECT section_id, chunk_id, score FROM best
            ORDER BY score DESC, section_id LIMIT :depth
        """),
        {
            "vector": HalfVector(vector),
            "generation_id": generation.generation_id,
            "dimension": generation.dimension,
            "chunks": tuning.depth * CHUNKS_PER_HIT,
            "depth": tuning.depth,
        },
    ).all()
    return _hits("dense", rows)


def lexical(
    connection: Connection, query: str, generation: Generation, tuning: Tuning
) -> list[Hit]:
    """Sections by BM25 over the query's stemmed words, any of which may match.

    A query of stop words only has no hit.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; idf with 1
    added inside the logarithm, as Lucene has it, so that it is never negative.
    """
    rows = connection.execute(
        text("""
            WITH asked AS (
                SELECT lexeme AS term FROM unnest(to_tsvector('english', :words))
            ), matched AS (
                SELECT term, section_id, frequency, word_count
                FROM asked JOIN lexical_postings USING (term) JOIN sections USING (section_id)
                WHERE lexical_postings.tenant_id = current_setting('footnote.tenant_id')
                AND lexical_postings.generation_id = :generation_id
            ), totals AS (
                SELECT section_count, mean_word_count FROM generations
                WHERE generation_id = :generation_id
            ), rarity AS (
                SELECT term, ln(1 + (section_count - count(*) + 0.5) / (count(*) + 0.5)) AS idf
                FROM matched, totals GROUP BY term, section_count
            )
            SELECT section_id, CAST(NULL AS bigint) AS chunk_id,
                   sum(idf * frequency * (:k1 + 1)
                       / (frequency + :k1 * (1 - :b + :b * word_count / mean_word_count))) AS score
            FROM matched JOIN rarity USING (term), totals
            GROUP BY section_id ORDER BY score DESC, section_id LIMIT :depth
        """),
        {
            "words": build_words(query),
            "generation_id": generation.generation_id,
            "k1": tuning.k1,
            "b": tuning.b,
            "depth": tuning.depth,
        },
    ).all()
    return _hits("lexical", rows)


def identifier(
    connection: Connection, query: str, generation: Generation, tuning: Tuning
) -> list[Hit]:
    """Sections by the rarity of the query's identifiers that stand in them.

    A form that stands in one section alone counts 1, in an index of any size. An identifier
    written alike counts in two forms, one typed otherwise in one: the exact literal is ahead of
    near misses. A query without a known identifier has no hit.
    """
    rows = connection.execute(
        text("""
            WITH matched AS (
                SELECT identifier, section_id
                FROM unnest(CAST(:identifiers AS text[])) AS asked(identifier)
                JOIN identifier_postings USING (identifier) JOIN sections USING (section_id)
                WHERE identifier_postings.tenant_id = current_setting('footnote.tenant_id')
                AND identifier_postings.generation_id = :generation_id
            ), rarity AS (
                SELECT identifier,
                       ln(1 + (section_count - count(*) + 0.5) / (count(*) + 0.5))
                       / ln(1 + (section_count - 0.5) / 1.5) AS idf
                FROM matched JOIN generations ON generations.generation_id = :generation_id
                GROUP BY identifier, section_count
            )
            SELECT section_id, CAST(NULL AS bigint) AS chunk_id, sum(idf) AS score
            FROM matched JOIN rarity USING (identifier)
            GROUP BY section_id ORDER BY score DESC, section_id LIMIT :depth
        """),
        {
            "identifiers": sorted(identifiers.extract_from_question(query)),
            "generation_id": generation.generation_id,
            "depth": tuning.depth,
        },
    ).all()
    return _hits("identifier", rows)


def load_rarity(
    connection: Connection, words: Sequence[str], generation: Generation
) -> list[tuple[str, float]]:
    """Each word's stem and idf, in order; a stop word has the stem "" and the idf 0."""
    rows = connection.execute(
        text("""
            SELECT coalesce(stem, '') AS stem, CASE WHEN stem IS NULL THEN 0
                   ELSE ln(1 + (section_count - found + 0.5) / (found + 0.5)) END AS idf
            FROM unnest(CAST(:words AS text[])) WITH ORDINALITY AS asked(word, ordinal)
            CROSS JOIN generations
            LEFT JOIN LATERAL (
                SELECT lexeme AS stem FROM unnest(to_tsvector('english', word)) LIMIT 1
            ) AS stemmed ON true
            CROSS JOIN LATERAL (
                SELECT count(*) AS found FROM lexical_postings
                WHERE lexical_postings.generation_id = generations.generation_id AND term = stem
            ) AS counted
            WHERE generations.generation_id = :generation_id
            ORDER BY ordinal
        """),
        {
            "words": [build_words(word) for word in words],
            "generation_id": generation.generation_id,
        },
    )
    return [(row.stem, float(row.idf)) for row in rows]


def load_sections(connection: Connection, section_ids: Sequence[int]) -> dict[int, StoredSection]:
    """Sections with what their documents say of themselves, by section_id."""
    rows = connection.execute(
        text("""
            SELECT section_id, document_id, path, title, heading_path, sections.text, url, owner,
                   updated_at, verified_at
            FROM sections JOIN documents USING (document_id)
            WHERE section_id = ANY(:section_ids)
        """),
        {"section_ids": list(section_ids)},
    )
    return {
        row.section_id: StoredSection(**{**row._mapping, "heading_path": tuple(row.heading_path)})
        for row in rows
    }


def _hits(leg: Leg, rows: Sequence[Row[Any]]) -> list[Hit]:
    return [
        Hit(
            section_id=row.section_id,
            chunk_id=row.chunk_id,
            leg=leg,
            rank=rank,
            score=float(row.score),
        )
        for rank, row in enumerate(rows, 1)
    ]
