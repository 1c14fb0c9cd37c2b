"""The whole search: query -> legs -> fused -> reranked -> kept, with the time of each stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import perf_counter

from retrieval import floor, fusion, generations, search
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.records import Candidate, Query, Retrieval
from retrieval.rerank import Reranker
from retrieval.tuning import Tuning


def retrieve(
    database: Database, embedder: Embedder, query: Query, tuning: Tuning
) -> Retrieval:
    """All that the query found, and what of it is good enough to answer from.

    An index without documents finds nothing, which is a valid result. Raises IndexMismatch
    when another embedding model or chunker built the index.
    """
    clock = _Clock()
    with clock.stage("embed"):
        embedded = embedder.embed_query(query.text)
    with database.transaction() as connection:
        generation = generations.load_active(connection, embedder, tuning)
        if generation is None:
            return Retrieval(query=query, candidates=(), kept=(), stage_ms=clock.stage_ms)
        with clock.stage("dense"):
            dense = search.dense(connection, embedded.vector, generation, tuning)
        with clock.stage("lexical"):
            lexical = search.lexical(connection, query.text, generation, tuning)
        with clock.stage("identifier"):
            identifier = search.identifier(connection, query.text, generation, tuning)
        with clock.stage("fuse"):
            fused = fusion.fuse([dense, lexical, identifier], rrf_k=tuning.rrf_k)
            fused = fused[: tuning.candidates]
            sections = search.load_sections(connection, [hits[0].section_id for hits, _ in fused])
            candidates = [
                Candidate(section=sections[hits[0].section_id], hits=hits, rrf_score=score)
                for hits, score in fused
            ]
        with clock.stage("rerank"):
            reranked = Reranker(connection, generation, tuning).rerank(embedded, query, candidates)
    kept = floor.apply(reranked, floor=tuning.floor, keep=tuning.keep)
    return Retrieval(
        query=query,
        candidates=tuple(reranked),
        kept=kept,
        settings={
            **asdict(tuning),
            "embedder": generation.embedder,
            "chunker": generation.chunker,
            "generation_id": generation.generation_id,
        },
        stage_ms=clock.stage_ms,
    )


class _Clock:
    """Milliseconds of each stage that it was asked to time."""

    def __init__(self) -> None:
        self.stage_ms: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.stage_ms[name] = round((perf_counter() - start) * 1000, 1)
