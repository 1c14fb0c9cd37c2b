"""Query to the hits of the dense, lexical and identifier legs: one SQL statement each.

Every statement names tenant and generation itself; row-level security holds without.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from pgvector import HalfVector
from sqlalchemy import Connection, Row, text

from retrieval import identifiers
from retrieval.embedding import Vectors
from retrieval.generations import Generation
from retrieval.lexical import STEMS, find_words, fold
from retrieval.records import Hit, Leg, StoredSection
from retrieval.tuning import Tuning

CHUNKS_PER_HIT = 4  # a section has about six chunks, and several may be near the query
# Chunks that HNSW looks at, others' among them, and the memory for that as a multiple of work_mem
# (4 MB): past 20,000 and 1, pgvector's own, it finds too little for who may read one in a hundred.
# Chosen.
MOST_SCANNED = 200_000
SCAN_MEMORY = 10
MOST_WORDS = 200  # looked up of a query, which has about ten; a pasted log has thousands


def limit(connection: Connection, timeout_s: float) -> None:
    """Have each further statement of the transaction end with an error when it takes too long."""
    connection.execute(
        text("SELECT set_config('statement_timeout', :timeout_ms, true)"),
        {"timeout_ms": str(round(timeout_s * 1000))},
    )


def dense(
    connection: Connection, vector: Vectors, generation: Generation, tuning: Tuning
) -> list[Hit]:
    """Sections by the cosine similarity of their best chunk.

    Who may read little has all of it scanned, who may read much is served through HNSW: scanning
    on until enough rows passed the filters, since HNSW filters only what it has already picked.
    """
    distance = "embedding <=> :vector"
    if _count_readable(connection, generation) >= tuning.exact_below:
        size = int(generation.dimension)
        distance = f"embedding::halfvec({size}) <=> CAST(:vector AS halfvec({size}))"
        connection.execute(
            text(
                "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),"
                " set_config('hnsw.ef_search', :ef_search, true),"
                " set_config('hnsw.max_scan_tuples', :most_scanned, true),"
                " set_config('hnsw.scan_mem_multiplier', :scan_memory, true)"
            ),
            {
                "ef_search": str(tuning.ef_search),
                "most_scanned": str(MOST_SCANNED),
                "scan_memory": str(SCAN_MEMORY),
            },
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


def _count_readable(connection: Connection, generation: Generation) -> float:
    """How many chunks of the generation may be read here, about: a section has as many there as
    anywhere in it."""
    count: float = connection.execute(
        text("""
            SELECT chunk_count::float8 / greatest(section_count, 1)
                   * (SELECT coalesce(sum(generation_parts.section_count), 0) FROM generation_parts
                      WHERE generation_id = generations.generation_id)
            FROM generations WHERE generation_id = :generation_id
        """),
        {"generation_id": generation.generation_id},
    ).scalar_one()
    return count


# How large the index is for this reader: with what others may read beside, it would tell of that.
_TOTALS = """
    totals AS (
        SELECT coalesce(greatest(sum(section_count), 1), 1)::float8 AS section_count,
               coalesce(greatest(sum(word_count) / nullif(sum(section_count), 0), 1), 1)
                   AS mean_word_count
        FROM generation_parts WHERE generation_id = :generation_id
    )
"""

# The terms of the words asked, each under every language of the index, without the stop words. Of
# which language those are is told by how many of them it has: "die" is one in "was kostet die
# Bahncard" and none in "die casting", as "ai" is one in French alone.
_ASKED = f"""
    used AS (
        SELECT language, row_number() OVER (ORDER BY sum(section_count) DESC, language) AS place
        FROM generation_parts WHERE generation_id = :generation_id GROUP BY language
    ), stemmed AS (
        SELECT number, language, place, {STEMS} AS stems
        FROM used, unnest(CAST(:words AS text[]), CAST(:folded AS text[]))
             WITH ORDINALITY AS asked(word, folded, number)
    ), spoken AS (
        SELECT language FROM stemmed GROUP BY language, place
        ORDER BY count(*) FILTER (WHERE stems = '{{}}') DESC, place LIMIT 1
    ), asked AS (
        SELECT number, language, term FROM stemmed, unnest(stems) AS term
        WHERE number NOT IN (
            SELECT number FROM stemmed JOIN spoken USING (language) WHERE stems = '{{}}')
    )
"""


def lexical(
    connection: Connection, query: str, generation: Generation, tuning: Tuning
) -> list[Hit]:
    """Sections by BM25 over the query's stemmed words, any of which may match.

    A section is matched by the stems of its own language; words that have one stem in it count
    once, and a word is as rare as it is in all languages together. A query of stop words only has
    no hit.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; idf with 1
    added inside the logarithm, as Lucene has it, so that it is never negative.
    """
    words = list(dict.fromkeys(word.text for word in find_words(query)))[:MOST_WORDS]
    rows = connection.execute(
        text(f"""
            WITH {_ASKED}, distinct_terms AS (
                SELECT DISTINCT ON (language, term) number, language, term
                FROM asked ORDER BY language, term, number
            ), matched AS (
                SELECT number, section_id, max(frequency) AS frequency, word_count
                FROM (SELECT DISTINCT term FROM distinct_terms) AS looked_up
                     JOIN lexical_postings USING (term) JOIN sections USING (section_id)
                     JOIN distinct_terms USING (language, term)
                WHERE lexical_postings.tenant_id = current_setting('footnote.tenant_id')
                AND lexical_postings.generation_id = :generation_id
                GROUP BY number, section_id, word_count
            ), {_TOTALS}, rarity AS (
                SELECT number, ln(1 + (section_count - count(*) + 0.5) / (count(*) + 0.5)) AS idf
                FROM matched, totals GROUP BY number, section_count
            )
            SELECT section_id, CAST(NULL AS bigint) AS chunk_id,
                   sum(idf * frequency * (:k1 + 1)
                       / (frequency + :k1 * (1 - :b + :b * word_count / mean_word_count))) AS score
            FROM matched JOIN rarity USING (number), totals
            GROUP BY section_id ORDER BY score DESC, section_id LIMIT :depth
        """),
        {
            **_words(words),
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
    near misses. In place of a long one that stands nowhere count those that one slip of the hand
    makes of it. A query without a known identifier has no hit.
    """
    asked = identifiers.extract_from_question(query)
    slips = identifiers.extract_slips(query)
    if slips:
        standing = load_standing(connection, generation, identifiers=slips, words=()).identifiers
        asked = asked.union(*(near for typed, near in slips.items() if typed not in standing))
    rows = connection.execute(
        text(f"""
            WITH matched AS (
                SELECT identifier, section_id
                FROM identifier_postings JOIN sections USING (section_id)
                WHERE identifier_postings.tenant_id = current_setting('footnote.tenant_id')
                AND identifier_postings.generation_id = :generation_id
                AND identifier = ANY(CAST(:identifiers AS text[]))
            ), {_TOTALS}, rarity AS (
                SELECT identifier,
                       ln(1 + (section_count - count(*) + 0.5) / (count(*) + 0.5))
                       / ln(1 + (section_count - 0.5) / 1.5) AS idf
                FROM matched, totals GROUP BY identifier, section_count
            )
            SELECT section_id, CAST(NULL AS bigint) AS chunk_id, sum(idf) AS score
            FROM matched JOIN rarity USING (identifier)
            GROUP BY section_id ORDER BY score DESC, section_id LIMIT :depth
        """),
        {
            "identifiers": sorted(asked),
            "generation_id": generation.generation_id,
            "depth": tuning.depth,
        },
    ).all()
    return _hits("identifier", rows)


def load_rarity(
    connection: Connection, words: Sequence[str], generation: Generation
) -> list[tuple[frozenset[str], float]]:
    """Each word's stems and idf, in order; words as lexical.find_words has them.

    A section has the word when it has any of the stems. A stop word has none, and the idf 0.
    """
    rows = connection.execute(
        text(f"""
            WITH {_ASKED}, {_TOTALS}, terms AS (
                SELECT number, array_agg(DISTINCT term) AS stems FROM asked GROUP BY number
            )
            SELECT coalesce(stems, '{{}}') AS stems, CASE WHEN stems IS NULL THEN 0
                   ELSE ln(1 + (section_count - found + 0.5) / (found + 0.5)) END AS idf
            FROM totals CROSS JOIN generate_series(1, cardinality(CAST(:words AS text[])))
                 AS number LEFT JOIN terms USING (number)
            CROSS JOIN LATERAL (
                SELECT count(DISTINCT section_id) AS found FROM lexical_postings
                WHERE generation_id = :generation_id AND term = ANY(stems)
            ) AS counted
            ORDER BY number
        """),
        {**_words(words), "generation_id": generation.generation_id},
    )
    return [(frozenset(row.stems), float(row.idf)) for row in rows]


def load_stems(
    connection: Connection, words: Sequence[str], generation: Generation
) -> list[frozenset[str]]:
    """Each word's stems, as load_rarity has them, for which no posting is read."""
    rows = connection.execute(
        text(f"""
            WITH {_ASKED}
            SELECT array_agg(DISTINCT term) FILTER (WHERE term IS NOT NULL) AS stems
            FROM generate_series(1, cardinality(CAST(:words AS text[]))) AS number
            LEFT JOIN asked USING (number) GROUP BY number ORDER BY number
        """),
        {**_words(words), "generation_id": generation.generation_id},
    )
    return [frozenset(row.stems or ()) for row in rows]


def load_terms(
    connection: Connection, section_ids: Sequence[int], terms: Collection[str]
) -> dict[int, set[str]]:
    """Which of the stems stand in each section."""
    return _load_held(connection, "lexical_postings", "term", section_ids, terms)


def load_identifiers(
    connection: Connection, section_ids: Sequence[int], identifiers: Collection[str]
) -> dict[int, set[str]]:
    """Which of the identifiers, in normal form, stand in each section."""
    return _load_held(connection, "identifier_postings", "identifier", section_ids, identifiers)


def _load_held(
    connection: Connection,
    table: str,
    column: str,
    section_ids: Sequence[int],
    wanted: Collection[str],
) -> dict[int, set[str]]:
    rows = connection.execute(
        text(f"""
            SELECT section_id, {column} AS held FROM {table}
            WHERE section_id = ANY(:section_ids) AND {column} = ANY(:wanted)
        """),
        {"section_ids": list(section_ids), "wanted": sorted(wanted)},
    )
    held: dict[int, set[str]] = {section_id: set() for section_id in section_ids}
    for row in rows:
        held[row.section_id].add(row.held)
    return held


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What stands in some document."""

    identifiers: frozenset[str]
    words: frozenset[str]


def load_standing(
    connection: Connection,
    generation: Generation,
    *,
    identifiers: Collection[str],
    words: Collection[str],
) -> Standing:
    """Which of the identifiers, in normal form, and of the words, by their stem, stand anywhere.

    Stop words, of which no postings are kept, do.

    By = ANY, not by a join: of an index just made, before PostgreSQL has counted its rows, it
    would read all postings for each of a thousand words, which took 45 s on the sample.
    """
    rows = connection.execute(
        text(f"""
            WITH stems AS MATERIALIZED (
                SELECT word, language, term
                FROM unnest(CAST(:words AS text[]), CAST(:folded AS text[])) AS asked(word, folded)
                CROSS JOIN (SELECT DISTINCT language FROM generation_parts
                            WHERE generation_id = :generation_id) AS used
                CROSS JOIN LATERAL unnest(array_append({STEMS}, word)) AS term
            ), stop_words AS (
                SELECT word FROM stems GROUP BY word, language HAVING count(*) = 1
            )
            SELECT DISTINCT true AS is_identifier, identifier AS asked
            FROM identifier_postings JOIN sections USING (section_id)
            WHERE identifier_postings.tenant_id = current_setting('footnote.tenant_id')
            AND identifier_postings.generation_id = :generation_id
            AND identifier = ANY(CAST(:identifiers AS text[]))
            UNION ALL
            SELECT DISTINCT false, word
            FROM stems JOIN (
                SELECT DISTINCT term FROM lexical_postings JOIN sections USING (section_id)
                WHERE lexical_postings.tenant_id = current_setting('footnote.tenant_id')
                AND lexical_postings.generation_id = :generation_id
                AND term = ANY(ARRAY(SELECT term FROM stems))
            ) AS standing USING (term)
            UNION ALL
            SELECT false, word FROM stop_words
        """),
        {
            "identifiers": sorted(identifiers),
            **_words(sorted(words)),
            "generation_id": generation.generation_id,
        },
    ).all()
    return Standing(
        identifiers=frozenset(row.asked for row in rows if row.is_identifier),
        words=frozenset(row.asked for row in rows if not row.is_identifier),
    )


def load_sections(connection: Connection, section_ids: Sequence[int]) -> dict[int, StoredSection]:
    """Sections with what their documents say of themselves, by section_id."""
    rows = connection.execute(
        text("""
            SELECT section_id, document_id, path, title, heading_path, sections.text, url, owner,
                   updated_at, verified_at, freshness_days, is_superseded, superseded_by, source,
                   sections.anchors
            FROM sections JOIN documents USING (document_id)
            WHERE section_id = ANY(:section_ids)
        """),
        {"section_ids": list(section_ids)},
    )
    return {row.section_id: _build_section(row._asdict()) for row in rows}


def _build_section(row: Mapping[str, Any]) -> StoredSection:
    """A row as a section, whose addresses point at its headings where the site can."""
    stated = {**row, "heading_path": tuple(row["heading_path"])}
    page_url, anchors = stated["url"], stated.pop("anchors")
    if "#" in page_url:
        anchors = ()
    urls = tuple((at, f"{page_url}#{quote(each)}" if each else page_url) for at, each in anchors)
    section = StoredSection(**stated, urls=urls)
    return replace(section, url=section.find_url(0))


def load_page(connection: Connection, document_id: int, generation: Generation) -> list[int]:
    """The ids of a document's sections, in its order; none of a document that is not there."""
    rows = connection.execute(
        text("""
            SELECT section_id FROM sections
            WHERE document_id = :document_id AND generation_id = :generation_id ORDER BY ordinal
        """),
        {"document_id": document_id, "generation_id": generation.generation_id},
    )
    return list(rows.scalars())


def load_existing(connection: Connection, section_ids: Collection[int]) -> set[int]:
    """Those of the section_ids whose sections are still there."""
    rows = connection.execute(
        text("SELECT section_id FROM sections WHERE section_id = ANY(:section_ids)"),
        {"section_ids": list(section_ids)},
    )
    return set(rows.scalars())


def _words(words: Sequence[str]) -> dict[str, list[str]]:
    return {"words": list(words), "folded": [fold(word) for word in words]}


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
