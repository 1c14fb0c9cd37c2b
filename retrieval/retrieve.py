"""The whole search: query -> legs -> fused -> reranked -> kept, with the time of each stage."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from time import perf_counter

from sqlalchemy import Connection

from retrieval import floor, fusion, generations, search
from retrieval.db import Database
from retrieval.embedding import EmbeddedQuery, Embedder
from retrieval.errors import ConfigError
from retrieval.generations import Generation
from retrieval.records import Candidate, Hit, Query, Retrieval
from retrieval.relevance import RelevanceModel
from retrieval.rerank import Measured, measure, rerank
from retrieval.tuning import Tuning


class Clock:
    """Milliseconds of each stage that it was asked to time, all its turns together."""

    def __init__(self) -> None:
        self.stage_ms: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the block under a name."""
        start = perf_counter()
        try:
            yield
        finally:
            elapsed = (perf_counter() - start) * 1000
            self.stage_ms[name] = round(self.stage_ms.get(name, 0) + elapsed, 1)


@dataclass(frozen=True, kw_only=True)
class Retriever:
    """The parts of the search, held open; safe to use from several threads."""

    database: Database
    embedder: Embedder
    model: RelevanceModel
    tuning: Tuning

    def retrieve(
        self, query: Query, more_variants: Callable[[], Sequence[str]] = tuple
    ) -> Retrieval:
        """All that the query found, and what of it is good enough to answer from.

        more_variants is called once the wordings that the query brings are searched for, so that
        nothing waits for it before. An index without documents finds nothing, which is a valid
        result. Raises IndexMismatch when another embedding model or chunker built the index.
        """
        clock = Clock()
        with clock.stage("embed"):
            embedded = self.embedder.embed_query(query.text)
        with self.database.snapshot() as connection:
            generation = generations.load_active(connection, self.embedder, self.tuning)
            if generation is None:
                return Retrieval(query=query, candidates=(), kept=(), stage_ms=clock.stage_ms)
            legs = self._search(connection, generation, [embedded], 0, clock)
            legs += self._search_wordings(connection, generation, query.variants, 1, clock)
            with clock.stage("wait"):
                more = tuple(more_variants())
            legs += self._search_wordings(
                connection, generation, more, 1 + len(query.variants), clock
            )
            candidates = self._fuse(connection, legs, clock)
            with clock.stage("rerank"):
                reranked = rerank(connection, generation, embedded, candidates, self.model)
        return Retrieval(
            query=replace(query, variants=query.variants + more),
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
            clock = Clock()
            legs = self._search(connection, generation, [embedded], 0, clock)
            legs += self._search_wordings(connection, generation, query.variants, 1, clock)
            candidates = self._fuse(connection, legs, clock)
            return candidates, measure(connection, generation, embedded, candidates)

    def _search_wordings(
        self,
        connection: Connection,
        generation: Generation,
        wordings: Sequence[str],
        first: int,
        clock: Clock,
    ) -> list[list[Hit]]:
        with clock.stage("embed"):
            embedded = [self.embedder.embed_query(wording) for wording in wordings]
        return self._search(connection, generation, embedded, first, clock)

    def _search(
        self,
        connection: Connection,
        generation: Generation,
        wordings: Sequence[EmbeddedQuery],
        first: int,
        clock: Clock,
    ) -> list[list[Hit]]:
        """The hits of every leg for every wording, numbered from first."""
        legs = []
        for number, wording in enumerate(wordings, first):
            with clock.stage("dense"):
                dense = search.dense(connection, wording.embedding.vector, generation, self.tuning)
            with clock.stage("lexical"):
                lexical = search.lexical(connection, wording.text, generation, self.tuning)
            with clock.stage("identifier"):
                identifier = search.identifier(connection, wording.text, generation, self.tuning)
            for leg in (dense, lexical, identifier):
                legs.append([replace(hit, wording=number) for hit in leg])
        return legs

    def _fuse(
        self, connection: Connection, legs: Sequence[Sequence[Hit]], clock: Clock
    ) -> list[Candidate]:
        with clock.stage("fuse"):
            fused = fusion.fuse(legs, rrf_k=self.tuning.rrf_k)[: self.tuning.candidates]
            ids = [hits[0].section_id for hits, _ in fused]
            sections = search.load_sections(connection, ids)
        return [
            Candidate(section=sections[hits[0].section_id], hits=hits, rrf_score=score)
            for hits, score in fused
        ]
