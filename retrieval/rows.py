"""One page to the rows of a generation."""

import html
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from sqlalchemy import Connection, text

from retrieval import audiences, generations, identifiers, lexical, restating, verifying
from retrieval.generations import Generation
from retrieval.planning import Pending
from retrieval.records import Chunk, Document, Section
from retrieval.sources.markdown import plain_text
from retrieval.tuning import Tuning

ChunkVectors = tuple[NDArray[np.floating[Any]], bytes]  # a chunk's own, and its tokens'


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A page with what is indexed of it."""

    page: Pending
    sections: tuple[Section, ...]
    vectors: tuple[ChunkVectors, ...] = ()  # of each chunk, in order

    @property
    def document(self) -> Document:
        return self.page.document

    def texts(self) -> list[str]:
        """What is embedded of it, a chunk an item, in order."""
        return [
            build_embedded_text(self.document.title, chunk)
            for section in self.sections
            for chunk in section.chunks
        ]


def build_embedded_text(title: str, chunk: Chunk) -> str:
    """What is embedded for a chunk: its words under the title and headings, once each."""
    path = (
        chunk.heading_path if chunk.heading_path[:1] == (title,) else (title, *chunk.heading_path)
    )
    # The path leaves the window to the text, however long somebody's headings are.
    return " > ".join(path)[:200] + "\n" + plain_text(chunk.text)


def write(connection: Connection, generation: Generation, item: Item, tuning: Tuning) -> int:
    """Save a document, and replace all that the generation holds of it; its document_id."""
    generations.hold(connection, generation)
    document_id = _save_document(connection, item)
    _save_parts(connection, generation, document_id, item, tuning)
    return document_id


def write_stored(
    connection: Connection, generation: Generation, item: Item, tuning: Tuning
) -> int | None:
    """The same for a document as it is stored; one that has changed or gone meanwhile is left."""
    generations.hold(connection, generation)
    document_id: int | None = connection.execute(
        text("""
            SELECT document_id FROM documents
            WHERE document_id = :document_id AND content_hash = :content_hash
            FOR NO KEY UPDATE
        """),
        {
            "document_id": item.page.document_id,
            "content_hash": item.document.content_hash,
        },
    ).scalar()
    if document_id is not None:
        _save_parts(connection, generation, document_id, item, tuning)
    return document_id


def _save_parts(
    connection: Connection, generation: Generation, document_id: int, item: Item, tuning: Tuning
) -> None:
    connection.execute(
        text(
            "DELETE FROM sections"
            " WHERE document_id = :document_id AND generation_id = :generation_id"
        ),
        {"document_id": document_id, "generation_id": generation.generation_id},
    )
    section_ids = _save_sections(connection, generation, document_id, item.sections)
    _save_chunks(connection, generation, section_ids, item)
    _save_lexical_postings(connection, section_ids, item, tuning)
    _save_identifier_postings(connection, section_ids, item)


def _save_document(connection: Connection, item: Item) -> int:
    document = item.document
    if item.page.document_id is not None:
        _prepare(connection, item.page, item.page.document_id)
    document_id: int = connection.execute(
        text(f"""
            INSERT INTO documents (tenant_id, audience_id, source, path, title, url, owner,
                                   language, text, updated_at, stated_on, verified_at,
                                   freshness_days, is_superseded, superseded_by, anchors,
                                   secret_kinds, content_hash, file_hash)
            VALUES (current_setting('footnote.tenant_id'), :audience_id, :source, :path, :title,
                    :url, :owner, :language, :text, :updated_at, :stated_on,
                    {verifying.build_sql("CAST(:stated_on AS date)", "NULL")},
                    :freshness_days, :is_superseded, :superseded_by, :anchors,
                    :secret_kinds, :content_hash, :file_hash)
            ON CONFLICT (tenant_id, source, path) DO UPDATE SET
                audience_id = excluded.audience_id, title = excluded.title, url = excluded.url,
                owner = excluded.owner, language = excluded.language, text = excluded.text,
                updated_at = excluded.updated_at, stated_on = excluded.stated_on,
                verified_at = {verifying.build_sql("excluded.stated_on", "documents.confirmed_on")},
                freshness_days = excluded.freshness_days,
                is_superseded = excluded.is_superseded, superseded_by = excluded.superseded_by,
                anchors = excluded.anchors, secret_kinds = excluded.secret_kinds,
                content_hash = excluded.content_hash, file_hash = excluded.file_hash,
                indexed_at = now()
            RETURNING document_id
        """),
        {
            **restating.build_row(item.page),
            "audience_id": audiences.load_id(connection, document.audience),
            "source": item.page.source,
            "path": document.path,
            "title": document.title,
            "language": document.language,
            "text": document.text,
            "anchors": document.anchors,
        },
    ).scalar_one()
    return document_id


def _prepare(connection: Connection, page: Pending, document_id: int) -> None:
    """Have the row that a page has already be where the page is now, with what was confirmed."""
    audiences.withdraw(
        connection,
        page.document.audience,
        [document_id],
        content_hash=page.document.content_hash,
    )
    if page.former is not None:  # what was confirmed is that text
        connection.execute(
            text("""
                UPDATE documents SET confirmed_on = :confirmed_on, confirmed_by = :confirmed_by
                WHERE document_id = :document_id
            """),
            {
                "document_id": document_id,
                "confirmed_on": page.former.confirmed_on,
                "confirmed_by": page.former.confirmed_by,
            },
        )
    # A page that was moved keeps its row, and all that hangs on that.
    connection.execute(
        text(
            "UPDATE documents SET path = :path WHERE document_id = :document_id AND path <> :path"
        ),
        {"path": page.document.path, "document_id": document_id},
    )


def _save_sections(
    connection: Connection, generation: Generation, document_id: int, sections: Sequence[Section]
) -> list[int]:
    """The new section ids, in order."""
    rows = [
        {
            "ordinal": ordinal,
            "heading_path": list(section.heading_path),
            "text": section.text,
            "span_start": section.span[0],
            "span_end": section.span[1],
            "token_count": section.token_count,
            "anchors": section.anchors,
        }
        for ordinal, section in enumerate(sections)
    ]
    saved = connection.execute(
        text("""
            INSERT INTO sections (tenant_id, audience_id, generation_id, document_id, content_hash,
                                  language, ordinal, heading_path, text, span_start, span_end,
                                  token_count, anchors)
            SELECT tenant_id, audience_id, :generation_id, document_id, content_hash, language,
                   row.ordinal, row.heading_path, row.text, row.span_start, row.span_end,
                   row.token_count, row.anchors
            FROM documents, jsonb_to_recordset(CAST(:rows AS jsonb)) AS row(
                ordinal integer, heading_path text[], text text, span_start integer,
                span_end integer, token_count integer, anchors jsonb)
            WHERE document_id = :document_id
            RETURNING section_id, ordinal
        """),
        {
            "generation_id": generation.generation_id,
            "document_id": document_id,
            "rows": json.dumps(rows),
        },
    )
    ids = {row.ordinal: row.section_id for row in saved}
    return [ids[ordinal] for ordinal in range(len(sections))]


def _save_chunks(
    connection: Connection, generation: Generation, section_ids: Sequence[int], item: Item
) -> None:
    vectors = iter(item.vectors)
    rows = [
        {
            "generation_id": generation.generation_id,
            "section_id": section_id,
            "ordinal": ordinal,
            "heading_path": list(chunk.heading_path),
            "text": chunk.text,
            "embedding": HalfVector(vector),
            "token_vectors": tokens,
        }
        for section_id, section in zip(section_ids, item.sections, strict=True)
        for ordinal, chunk in enumerate(section.chunks)
        for vector, tokens in (next(vectors),)
    ]
    if not rows:  # a document without words
        return
    connection.execute(
        text("""
            INSERT INTO chunks (tenant_id, audience_id, generation_id, section_id, ordinal,
                                heading_path, text, embedding, token_vectors)
            SELECT tenant_id, audience_id, :generation_id, section_id, :ordinal, :heading_path,
                   :text, :embedding, :token_vectors
            FROM sections WHERE section_id = :section_id
        """),
        rows,
    )


def _save_lexical_postings(
    connection: Connection, section_ids: Sequence[int], item: Item, tuning: Tuning
) -> None:
    rows = [
        (section_id, word, frequency)
        for section_id, section in zip(section_ids, item.sections, strict=True)
        for word, frequency in _count_words(item.document, section, tuning).items()
    ]
    connection.execute(
        text(f"""
            WITH stemmed AS MATERIALIZED (
                SELECT section_id, frequency, {lexical.STEMS} AS stems
                FROM unnest(CAST(:ids AS bigint[]), CAST(:words AS text[]),
                            CAST(:folded AS text[]), CAST(:frequencies AS real[]))
                     AS row(section_id, word, folded, frequency),
                     (SELECT CAST(:language AS text) AS language) AS document
            ), saved AS (
                INSERT INTO lexical_postings (tenant_id, audience_id, generation_id, section_id,
                                              term, frequency)
                SELECT tenant_id, audience_id, generation_id, section_id, term, sum(frequency)
                FROM stemmed JOIN sections USING (section_id), unnest(stems) AS term
                GROUP BY tenant_id, audience_id, generation_id, section_id, term
            )
            UPDATE sections SET word_count = counted.word_count
            FROM (SELECT section_id, sum(frequency) AS word_count FROM stemmed
                  WHERE stems <> '{{}}' GROUP BY section_id) AS counted
            WHERE sections.section_id = counted.section_id
        """),
        {
            "language": item.document.language,
            "ids": [section_id for section_id, _, _ in rows],
            "words": [word for _, word, _ in rows],
            "folded": [lexical.fold(word) for _, word, _ in rows],
            "frequencies": [frequency for _, _, frequency in rows],
        },
    )


def _count_words(document: Document, section: Section, tuning: Tuning) -> dict[str, float]:
    """How often each word stands in a section, headings counting more."""
    headings = " ".join((document.title, *section.heading_path))
    # A path often names what the text takes for granted.
    body = f"{document.path} {html.unescape(plain_text(section.text))}"
    counts: dict[str, float] = defaultdict(float)
    for words, weight in ((headings, tuning.heading_weight), (body, 1.0)):
        for word in lexical.find_words(words):
            counts[word.text] += weight
    return counts


def _save_identifier_postings(
    connection: Connection, section_ids: Sequence[int], item: Item
) -> None:
    named = identifiers.extract_names(item.document.path, item.document.title)
    pairs = [
        (section_id, identifier)
        for section_id, section in zip(section_ids, item.sections, strict=True)
        for identifier in sorted(named | identifiers.extract(section.text))
    ]
    connection.execute(
        text("""
            INSERT INTO identifier_postings (tenant_id, audience_id, generation_id, section_id,
                                             identifier)
            SELECT tenant_id, audience_id, generation_id, section_id, identifier
            FROM unnest(CAST(:ids AS bigint[]), CAST(:identifiers AS text[]))
                 AS row(section_id, identifier) JOIN sections USING (section_id)
        """),
        {
            "ids": [section_id for section_id, _ in pairs],
            "identifiers": [identifier for _, identifier in pairs],
        },
    )
