"""Documents to rows of a generation: only what changed, one transaction a document.

Another chunker or embedder builds a new generation beside the active one, from the documents as
they are stored, and takes its place when complete: search never mixes two and never has none.
"""

import html
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from pgvector import HalfVector
from sqlalchemy import Connection, text

from retrieval import audiences, chunking, generations, identifiers, lexical, token_vectors
from retrieval.db import Database
from retrieval.embedding import Embedder, Vectors
from retrieval.errors import ConfigError
from retrieval.generations import Generation
from retrieval.records import Chunk, Document, Section
from retrieval.sources.markdown import Read, Skipped, plain_text
from retrieval.tuning import Tuning

GROUP_CHUNKS = 256  # embedded together, so that batches of one length fill up
# Of as many documents and chunks the projection of token vectors is fitted, spread over the source.
SAMPLE_DOCUMENTS = 60
SAMPLE_CHUNKS = 96  # about 10,000 tokens for 128 directions

Progress = Callable[[int, int], None]  # documents done, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What an ingest did."""

    new: int
    changed: int
    unchanged: int
    rebuilt: int  # unchanged, but indexed again for another chunker or embedder
    removed: tuple[str, ...]
    gone: tuple[str, ...]  # no longer in the source and still in the index
    skipped: tuple[Skipped, ...]
    notes: tuple[tuple[str, str], ...]  # path, what was cleaned


def ingest(
    database: Database,
    embedder: Embedder,
    reads: Iterable[Read | Skipped],
    *,
    source: str,
    tuning: Tuning,
    prune: bool = False,
    progress: Progress = lambda done, total: None,
) -> Summary:
    """Bring one source's documents in the index up to date.

    Safe to kill at any point and to run again: each document is in the index as it was or as
    it is. prune removes documents that the source no longer has; a file that was skipped is
    still there. Raises ConfigError when another ingest of the source is running, or when
    prune would remove every document.
    """
    database = database.unrestricted
    with _only_one(database, source):
        known = _load_known(database, source)
        documents, skipped, notes = _sort(reads)
        changed = [(source, d) for d in documents if known.get(d.path) != d.content_hash]
        gone = sorted(set(known) - {d.path for d in documents} - {s.path for s in skipped})
        if prune and gone and len(gone) == len(known):
            raise ConfigError(
                f"None of the {len(known)} documents of source {source!r} is there any more. "
                "Check the folder; nothing was removed."
            )
        generation, rest = _open_generation(database, embedder, changed, tuning)
        pending = [*changed, *rest]
        done = 0
        for group in _groups(pending, embedder, tuning):
            for item in _embed(group, embedder, generation):
                with database.transaction() as connection:
                    _write(connection, generation, item, tuning)
            done += len(group)
            progress(done, len(pending))
        with database.transaction() as connection:
            removed = gone if prune else []
            _remove(connection, source, removed)
            generations.refresh_counts(connection, generation)
            if generation.state == "building":
                generations.activate(connection, generation)
    new = sum(document.path not in known for _, document in changed)
    return Summary(
        new=new,
        changed=len(changed) - new,
        unchanged=len(documents) - len(changed),
        rebuilt=len(rest),
        removed=tuple(removed),
        gone=() if prune else tuple(gone),
        skipped=tuple(skipped),
        notes=tuple(notes),
    )


def name_source(database: Database, folder: Path, name: str | None) -> str:
    """The name of a folder's source: the one given, else the folder's own.

    Raises ConfigError when the folder's own name stands for another folder already: their pages
    would overwrite each other. A name that is given may move from one folder to another.
    """
    root = folder.resolve()
    source = name or root.name
    with database.transaction() as connection:
        known = connection.execute(
            text("SELECT root FROM sources WHERE source = :source"), {"source": source}
        ).scalar()
        if name is None and known not in (None, str(root)):
            raise ConfigError(
                f"Source {source!r} is the folder {known} already. Name this one with --source, "
                f"or, if it has moved, say --source {source}."
            )
        connection.execute(
            text("""
                INSERT INTO sources (tenant_id, source, root)
                VALUES (current_setting('footnote.tenant_id'), :source, :root)
                ON CONFLICT (tenant_id, source) DO UPDATE SET root = excluded.root
            """),
            {"source": source, "root": str(root)},
        )
    return source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A document on its way into the index."""

    source: str
    document: Document
    sections: tuple[Section, ...]
    vectors: tuple[tuple[Vectors, bytes], ...] = ()  # of each chunk, in order: its own, its tokens'

    def texts(self) -> list[str]:
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


@contextmanager
def _only_one(database: Database, source: str) -> Iterator[None]:
    """Hold a lock of the server's on the source; it ends with the connection, killed or not."""
    key = {"key": f"footnote ingest {database.tenant_id} {source}"}
    with database.engine.connect() as connection:
        if not connection.execute(
            text("SELECT pg_try_advisory_lock(hashtext(:key))"), key
        ).scalar():
            raise ConfigError(f"Another ingest of source {source!r} is running; let it finish.")
        connection.commit()
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(hashtext(:key))"), key)


def _load_known(database: Database, source: str) -> dict[str, str]:
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT path, content_hash FROM documents WHERE source = :source"),
            {"source": source},
        )
        return {row.path: row.content_hash for row in rows}


def _sort(
    reads: Iterable[Read | Skipped],
) -> tuple[list[Document], list[Skipped], list[tuple[str, str]]]:
    documents, skipped, notes = [], [], []
    for read in reads:
        if isinstance(read, Skipped):
            skipped.append(read)
        else:
            documents.append(read.document)
            notes += [(read.document.path, note) for note in read.notes]
    return documents, skipped, notes


def _open_generation(
    database: Database,
    embedder: Embedder,
    changed: Sequence[tuple[str, Document]],
    tuning: Tuning,
) -> tuple[Generation, list[tuple[str, Document]]]:
    """The generation to write to, and the stored documents that it lacks."""
    with database.transaction() as connection:
        active = generations.load(connection, "active")
        if active and not active.difference(embedder, tuning):
            generations.drop(connection, "building")
            fitting: Generation | None = active
        else:
            building = generations.load(connection, "building")
            fits = building and not building.difference(embedder, tuning)
            fitting = building if fits else None
        stored = _load_documents(connection, fitting)
    keys = {(source, document.path) for source, document in changed}
    missing = [
        (source, document) for source, document in stored if (source, document.path) not in keys
    ]
    if fitting:
        return fitting, missing
    projection = _fit_projection(
        [document for _, document in (*changed, *missing)], embedder, tuning
    )
    with database.transaction() as connection:
        return generations.create(connection, embedder, projection, tuning), missing


def _load_documents(
    connection: Connection, without: Generation | None
) -> list[tuple[str, Document]]:
    """The stored documents with their source; given a generation, only those it has not as stored.

    The active one has not when another was being built, and given up, while pages changed.
    """
    rows = connection.execute(
        text("""
            SELECT source, path, title, url, text, owner, updated_at, stated_on AS verified_at,
                   language, array_remove(audience, '*') AS audience, freshness_days,
                   is_superseded, superseded_by, anchors, content_hash
            FROM documents JOIN audiences USING (audience_id)
            WHERE NOT EXISTS (
                SELECT FROM sections
                WHERE sections.document_id = documents.document_id
                AND sections.generation_id = :generation_id
                AND sections.content_hash = documents.content_hash)
            ORDER BY source, path
        """),
        {"generation_id": without.generation_id if without else None},
    )
    fields = [dict(row._mapping) for row in rows]
    return [
        (row.pop("source"), Document(**{**row, "audience": tuple(row["audience"])}))
        for row in fields
    ]


def _fit_projection(documents: Sequence[Document], embedder: Embedder, tuning: Tuning) -> Vectors:
    if not documents:
        raise ConfigError("There is no document to index. Give a folder that holds Markdown files.")
    sample = documents[:: -(-len(documents) // SAMPLE_DOCUMENTS)]
    texts = [text for document in sample for text in _split("", document, embedder, tuning).texts()]
    embeddings = embedder.embed_documents(texts[:: -(-len(texts) // SAMPLE_CHUNKS)])
    vectors = np.concatenate([embedding.token_vectors for embedding in embeddings])
    return token_vectors.fit_projection(vectors, tuning.token_dimension)


def _groups(
    pending: Sequence[tuple[str, Document]], embedder: Embedder, tuning: Tuning
) -> Iterator[list[_Item]]:
    group: list[_Item] = []
    for source, document in pending:
        group.append(_split(source, document, embedder, tuning))
        if sum(len(section.chunks) for item in group for section in item.sections) >= GROUP_CHUNKS:
            yield group
            group = []
    if group:
        yield group


def _split(source: str, document: Document, embedder: Embedder, tuning: Tuning) -> _Item:
    sections = chunking.split(
        document,
        embedder.token_starts,
        section_tokens=tuning.section_tokens,
        chunk_tokens=tuning.chunk_tokens,
    )
    return _Item(source=source, document=document, sections=tuple(sections))


def _embed(group: Sequence[_Item], embedder: Embedder, generation: Generation) -> Iterator[_Item]:
    texts = [item.texts() for item in group]
    embeddings = embedder.embed_documents([text for each in texts for text in each])
    tokens = token_vectors.encode(
        [embedding.token_vectors for embedding in embeddings], generation.projection
    )
    vectors = zip((embedding.vector for embedding in embeddings), tokens, strict=True)
    for item, each in zip(group, texts, strict=True):
        yield replace(item, vectors=tuple(islice(vectors, len(each))))


def _write(connection: Connection, generation: Generation, item: _Item, tuning: Tuning) -> None:
    """Replace all that the generation holds of one document."""
    document_id = _save_document(connection, item)
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


def _save_document(connection: Connection, item: _Item) -> int:
    document = item.document
    audience_ids = audiences.load_ids(connection, [document.audience])
    document_id: int = connection.execute(
        text("""
            INSERT INTO documents (tenant_id, audience_id, source, path, title, url, owner,
                                   language, text, updated_at, stated_on, verified_at,
                                   freshness_days, is_superseded, superseded_by, anchors,
                                   content_hash)
            VALUES (current_setting('footnote.tenant_id'), :audience_id, :source, :path, :title,
                    :url, :owner, :language, :text, :updated_at, :stated_on, :stated_on,
                    :freshness_days, :is_superseded, :superseded_by, :anchors, :content_hash)
            ON CONFLICT (tenant_id, source, path) DO UPDATE SET
                audience_id = excluded.audience_id, title = excluded.title, url = excluded.url,
                owner = excluded.owner, language = excluded.language, text = excluded.text,
                updated_at = excluded.updated_at, stated_on = excluded.stated_on,
                verified_at = greatest(excluded.stated_on, documents.confirmed_on),
                freshness_days = excluded.freshness_days,
                is_superseded = excluded.is_superseded, superseded_by = excluded.superseded_by,
                anchors = excluded.anchors, content_hash = excluded.content_hash,
                indexed_at = now()
            RETURNING document_id
        """),
        {
            "source": item.source,
            "path": document.path,
            "title": document.title,
            "url": document.url,
            "owner": document.owner,
            "language": document.language,
            "text": document.text,
            "updated_at": document.updated_at,
            "stated_on": document.verified_at,
            "freshness_days": document.freshness_days,
            "is_superseded": document.is_superseded,
            "superseded_by": document.superseded_by,
            "anchors": document.anchors,
            "audience_id": audience_ids[document.audience],
            "content_hash": document.content_hash,
        },
    ).scalar_one()
    return document_id


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
        }
        for ordinal, section in enumerate(sections)
    ]
    saved = connection.execute(
        text("""
            INSERT INTO sections (tenant_id, audience_id, generation_id, document_id, content_hash,
                                  language, ordinal, heading_path, text, span_start, span_end,
                                  token_count)
            SELECT tenant_id, audience_id, :generation_id, document_id, content_hash, language,
                   row.ordinal, row.heading_path, row.text, row.span_start, row.span_end,
                   row.token_count
            FROM documents, jsonb_to_recordset(CAST(:rows AS jsonb)) AS row(
                ordinal integer, heading_path text[], text text, span_start integer,
                span_end integer, token_count integer)
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
    connection: Connection, generation: Generation, section_ids: Sequence[int], item: _Item
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
    connection: Connection, section_ids: Sequence[int], item: _Item, tuning: Tuning
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
    connection: Connection, section_ids: Sequence[int], item: _Item
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


def _remove(connection: Connection, source: str, paths: Sequence[str]) -> None:
    connection.execute(
        text("DELETE FROM documents WHERE source = :source AND path = ANY(:paths)"),
        {"source": source, "paths": list(paths)},
    )
