"""The whole search: query -> legs -> fused -> reranked -> kept, with the time of each stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter

from sqlalchemy import Connection

from retrieval import floor, fusion, generations, search
from retrieval.db import Database
from retrieval.embedding import EmbeddedQuery, Embedder
from retrieval.errors import ConfigError
from retrieval.generations import Generation
from retrieval.records import Candidate, Query, Retrieval
from retrieval.relevance import RelevanceModel
from retrieval.rerank import Measured, measure, rerank
from retrieval.tuning import Tuning


class Clock:
    """Milliseconds of each stage that it was asked to time."""

    def __init__(self) -> None:
        self.stage_ms: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the block under a name."""
        start = perf_counter()
        try:
            yield
        finally:
            self.stage_ms[name] = round((perf_counter() - start) * 1000, 1)


@dataclass(frozen=True, kw_only=True)
class Retriever:
    """The parts of the search, held open; safe to use from several threads."""

    database: Database
    embedder: Embedder
    model: RelevanceModel
    tuning: Tuning

    def retrieve(self, query: Query) -> Retrieval:
        """All that the query found, and what of it is good enough to answer from.

        An index without documents finds nothing, which is a valid result. Raises IndexMismatch
        when another embedding model or chunker built the index.
        """
        clock = Clock()
        with clock.stage("embed"):
            embedded = self.embedder.embed_query(query.text)
        with self.database.snapshot() as connection:
            generation = generations.load_active(connection, self.embedder, self.tuning)
            if generation is None:
                return Retrieval(query=query, candidates=(), kept=(), stage_ms=clock.stage_ms)
            candidates = self._find(connection, generation, embedded, clock)
            with clock.stage("rerank"):
                reranked = rerank(connection, generation, embedded, candidates, self.model)
        return Retrieval(
            query=query,
            candidates=tuple(reranked),
            kept=floor.apply(reranked, floor=self.model.floor, keep=self.tuning.keep),
            settings={
                **asdict(self.tuning),
                "generation_id": generation.generation_id,
                "embedder": generation.embedder,
                "chunker": generation.chunker,
                "relevance_fitted_on": self.model.fitted_on,
                "floor": self.model.floor,
            },
            stage_ms=clock.stage_ms,
        )

    def measure(self, query: Query) -> tuple[list[Candidate], Measured]:
        """The candidates in the order of fusion, with the features to fit a model on.

        Raises ConfigError when nothing is indexed, and IndexMismatch as retrieve does.
        """
        embedded = self.embedder.embed_query(query.text)
        with self.database.snapshot() as connection:
            generation = generations.load_active(connection, self.embedder, self.tuning)
            if generation is None:
                raise ConfigError("Nothing is indexed. Run `footnote ingest` first.")
            candidates = self._find(connection, generation, embedded, Clock())
            return candidates, measure(connection, generation, embedded, candidates)

    def _find(
        self, connection: Connection, generation: Generation, query: EmbeddedQuery, clock: Clock
    ) -> list[Candidate]:
        with clock.stage("dense"):
            dense = search.dense(connection, query.embedding.vector, generation, self.tuning)
        with clock.stage("lexical"):
            lexical = search.lexical(connection, query.text, generation, self.tuning)
        with clock.stage("identifier"):
            identifier = search.identifier(connection, query.text, generation, self.tuning)
        with clock.stage("fuse"):
            fused = fusion.fuse([dense, lexical, identifier], rrf_k=self.tuning.rrf_k)
            fused = fused[: self.tuning.candidates]
            ids = [hits[0].section_id for hits, _ in fused]
            sections = search.load_sections(connection, ids)
        return [
            Candidate(section=sections[hits[0].section_id], hits=hits, rrf_score=score)
            for hits, score in fused
        ]
