"""Small pages for tests, read and indexed as a folder's would be."""

from retrieval import indexing
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.indexing import Progress, Summary
from retrieval.records import Query
from retrieval.rerank import LateInteraction
from retrieval.retrieve import Retriever
from retrieval.sources.markdown import Read, Skipped, parse_document
from retrieval.tuning import DEFAULT, Tuning


def page(path: str, text: str) -> Read | Skipped:
    return parse_document(text.encode(), path=path, url=f"https://wiki.example/{path}")


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


def ask(text: str) -> Query:
    return Query(text=text, question=text)
