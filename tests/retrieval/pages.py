"""Small pages for tests, read and indexed as a folder's would be."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from sqlalchemy import event, text

from retrieval import indexing, relevance
from retrieval.batches import Progress
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.generations import chunker_name
from retrieval.indexing import Summary
from retrieval.records import Query
from retrieval.rerank import LateInteraction
from retrieval.retrieve import Retriever
from retrieval.sources import reading
from retrieval.sources.reads import Facts, Read, Skipped
from retrieval.tuning import DEFAULT, PACKAGED, Tuning
from tests.conftest import Server, copied


def page(path: str, text: str) -> Read | Skipped:
    return reading.read(text.encode(), Facts(path=path, url=f"https://wiki.example/{path}"))


def for_readers(read: Read | Skipped, *audience: str) -> Read:
    """A page that is for these readers, whatever it says itself."""
    assert isinstance(read, Read)
    return replace(read, document=replace(read.document, audience=audience))


def ingest(
    database: Database,
    embedder: Embedder,
    *reads: Read | Skipped,
    source: str = "wiki",
    tuning: Tuning = DEFAULT,
    prune: bool = False,
    progress: Progress = lambda done, total: None,
) -> Summary:
    return indexing.ingest(
        database, embedder, reads, source=source, tuning=tuning, prune=prune, progress=progress
    )


def build_retriever(database: Database, embedder: Embedder, tuning: Tuning = DEFAULT) -> Retriever:
    return Retriever(
        database=database, embedder=embedder, reranker=LateInteraction(), tuning=tuning
    )


@contextmanager
def indexed_pages(
    server: Server, template: str, embedder: Embedder, pages: Mapping[str, str]
) -> Iterator[Database]:
    """A database of these pages alone, by path, while the block runs."""
    with copied(server, template) as url:
        database = Database(url, tenant_id="acme")
        try:
            ingest(database, embedder, *(page(path, words) for path, words in pages.items()))
            yield database
        finally:
            database.close()


@contextmanager
def searching(
    server: Server, template: str, embedder: Embedder, pages: Mapping[str, str]
) -> Iterator[Retriever]:
    """The search over pages, by path, in a database of their own, while the block runs."""
    with indexed_pages(server, template, embedder, pages) as database:
        yield build_retriever(database, embedder)


def before_statement(
    database: Database, *words: str, number: int = 1, call: Callable[[], object]
) -> None:
    """Have something happen once, when a statement with any of these words is run so often."""
    numbers = count(1)

    @event.listens_for(database.engine, "before_cursor_execute")
    def watch(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if any(each in statement for each in words) and next(numbers) == number:
            call()


def fit(retriever: Retriever) -> None:
    """Have the packaged relevance model be used for what the retriever searches."""
    packaged = relevance.load_packaged(
        replace(retriever.basis, embedder=PACKAGED, chunker=chunker_name(DEFAULT))
    )
    assert packaged is not None
    with retriever.database.transaction() as connection:
        relevance.save(connection, replace(packaged, basis=retriever.basis))


def ask(text: str) -> Query:
    return Query(text=text, question=text)


def find_rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.transaction() as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def find_index(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """All that is searched, without the ids, which say only in which order it was written."""
    place = "JOIN sections USING (section_id) JOIN documents USING (document_id)"
    return {
        name: find_rows(database, statement)
        for name, statement in {
            "sections": """
                SELECT path, ordinal, heading_path, sections.text, span_start, span_end,
                       token_count, word_count
                FROM sections JOIN documents USING (document_id) ORDER BY path, ordinal""",
            "chunks": f"""
                SELECT path, sections.ordinal, chunks.ordinal, chunks.heading_path, chunks.text
                FROM chunks {place} ORDER BY 1, 2, 3""",
            "terms": f"""
                SELECT path, ordinal, term, frequency
                FROM lexical_postings {place} ORDER BY 1, 2, 3""",
            "identifiers": f"""
                SELECT path, ordinal, identifier
                FROM identifier_postings {place} ORDER BY 1, 2, 3""",
            "generations": """
                SELECT state, chunker, embedder, section_count, chunk_count, mean_word_count
                FROM generations""",
        }.items()
    }
