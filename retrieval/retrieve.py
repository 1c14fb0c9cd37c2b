"""The whole search: query -> legs -> fused -> reranked -> kept, with the time of each stage."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from time import perf_counter

from sqlalchemy import Connection

from retrieval import (
    floor,
    fusion,
    generations,
    late_interaction,
    literal,
    relevance,
    search,
    unknown,
)
from retrieval.db import Database
from retrieval.embedding import EmbeddedQuery, Embedder
from retrieval.errors import ConfigError
from retrieval.fusion import Fused
from retrieval.generations import Generation
from retrieval.late_interaction import Asked, Interaction, interact, load_asked
from retrieval.records import Candidate, Hit, Leg, Query, Retrieval
from retrieval.relevance import Basis
from retrieval.rerank import Features, Reranker
from retrieval.trimming import trim
from retrieval.tuning import Tuning

Embed = Callable[[str], EmbeddedQuery]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ahead:
    """What the legs found for a query before a model's wordings of it were there."""

    generation_id: int
    legs: list[list[Hit]]


@dataclass(frozen=True, kw_only=True)
class Retriever:
    """The parts of the search, held open; safe to use from several threads."""

    database: Database
    embedder: Embedder
    reranker: Reranker
    tuning: Tuning

    @property
    def basis(self) -> Basis:
        """What a relevance model has to be fitted on to be of use here."""
        return relevance.build_basis(self.reranker, self.embedder, self.tuning)

    def check(self) -> None:
        """Raise what a search of the index as it is would: IndexMismatch or ConfigError."""
        with self.database.snapshot() as connection:
            if generations.load_active(connection, self.embedder, self.tuning):
                relevance.load(connection, self.basis)

    def retrieve(self, query: Query, reword: Callable[[Query], Query] | None = None) -> Retrieval:
        """All that the query found, and what of it is good enough to answer from.

        reword is called once the wordings that the query brings are searched for, so that nothing
        waits for it before; it may add variants and set readings. An index without documents
        finds nothing, which is a valid result. Raises IndexMismatch when another embedding model
        or chunker built the index, and ConfigError when no floor was fitted for it and the
        reranker.
        """
        clock = Clock()
        embed = cache(self.embedder.embed_query)  # what is read was mostly searched for before
        ahead, reworded = None, query
        if reword:
            ahead = self._search_ahead(query, embed, clock)
            with clock.stage("wait"):
                reworded = reword(query)
        with self.database.snapshot() as connection:
            generation = generations.load_active(connection, self.embedder, self.tuning)
            if generation is None:
                return Retrieval(query=reworded, candidates=(), kept=(), stage_ms=clock.stage_ms)
            model = relevance.load(connection, self.basis)
            wordings = _list_wordings(reworded)
            if ahead and _is_current(connection, generation, ahead):
                known = len(_list_wordings(query))
                more = self._search(connection, generation, embed, wordings[known:], known, clock)
                legs = ahead.legs + more
            else:
                legs = self._search(connection, generation, embed, wordings, 0, clock)
            asked, candidates, interactions = self._narrow(
                connection, generation, embed(query.text), legs, clock
            )
            with clock.stage("rerank"):
                against = list(
                    self._interact_readings(
                        connection, generation, embed, reworded, asked, candidates, interactions
                    )
                )
                reranked = _take_best(
                    [
                        model.rank(
                            candidates,
                            self.reranker.measure(connection, reading, candidates, found),
                            found,
                        )
                        for reading, found in against
                    ]
                )
            with clock.stage("names"):
                # By the query without the model's wordings: one that leaves a name out does not
                # make the name known.
                reranked = literal.put_first(connection, query, reranked)
                missing = unknown.find(connection, query, embed(query.text), generation, reranked)
            with clock.stage("keep"):
                read = " ".join(reading.query.text for reading, _ in against)
                kept = floor.apply(reranked, read, floor=model.floor, tuning=self.tuning)
                kept = tuple(
                    replace(
                        each,
                        section=trim(
                            each.section, [found[each.section.section_id] for _, found in against]
                        ),
                    )
                    for each in kept
                )
        return Retrieval(
            query=reworded,
            candidates=tuple(reranked),
            kept=() if missing else kept,
            unknown=missing,
            settings={
                **asdict(self.tuning),
                "generation_id": generation.generation_id,
                "embedder": generation.embedder,
                "chunker": generation.chunker,
                "reranker": self.reranker.name,
                "relevance_fitted_on": model.fitted_on,
                "floor": model.floor,
            },
            stage_ms=clock.stage_ms,
        )

    def measure(self, query: Query) -> tuple[list[Candidate], Features]:
        """The candidates in the order of fusion, with the features to fit a model on.

        Raises ConfigError when nothing is indexed, and IndexMismatch as retrieve does.
        """
        with self._searched(query) as (connection, generation, embedded, legs):
            asked, candidates, interactions = self._narrow(
                connection, generation, embedded, legs, Clock()
            )
            return candidates, self.reranker.measure(connection, asked, candidates, interactions)

    def search(self, query: Query) -> list[Candidate]:
        """All that any leg found, in the order of fusion; nothing is reranked.

        Raises as measure does.
        """
        with self._searched(query) as (connection, _, _, legs):
            return _load_candidates(connection, self._fuse(legs))

    @contextmanager
    def opened(self) -> Iterator[tuple[Connection, Generation]]:
        """The index as it is now, for as long as the block runs; raises as measure does."""
        with self.database.snapshot() as connection:
            generation = generations.load_active(connection, self.embedder, self.tuning)
            if generation is None:
                raise ConfigError("Nothing is indexed. Run `footnote ingest` first.")
            yield connection, generation

    @contextmanager
    def _searched(
        self, query: Query
    ) -> Iterator[tuple[Connection, Generation, EmbeddedQuery, list[list[Hit]]]]:
        """What the legs find for a query and its variants, the connection still open."""
        embed = cache(self.embedder.embed_query)
        with self.opened() as (connection, generation):
            wordings = _list_wordings(query)
            legs = self._search(connection, generation, embed, wordings, 0, Clock())
            yield connection, generation, embed(query.text), legs

    def _search_ahead(self, query: Query, embed: Embed, clock: Clock) -> _Ahead | None:
        """What the legs find for a query; no transaction is open once it returns."""
        with self.database.snapshot() as connection:
            generation = generations.load_active(connection, self.embedder, self.tuning)
            if generation is None:
                return None
            wordings = _list_wordings(query)
            legs = self._search(connection, generation, embed, wordings, 0, clock)
        return _Ahead(generation_id=generation.generation_id, legs=legs)

    def _interact_readings(
        self,
        connection: Connection,
        generation: Generation,
        embed: Embed,
        query: Query,
        asked: Asked,
        candidates: Sequence[Candidate],
        interactions: Mapping[int, Interaction],
    ) -> Iterator[tuple[Asked, Mapping[int, Interaction]]]:
        """Each reading with its interactions; those of the query's text are there already."""
        ids = [candidate.section.section_id for candidate in candidates]
        for reading in query.readings or (query.text,):
            if reading == asked.query.text:
                yield asked, interactions
            else:
                other = load_asked(connection, generation, embed(reading))
                yield other, interact(connection, generation, other, ids)

    def _search(
        self,
        connection: Connection,
        generation: Generation,
        embed: Embed,
        wordings: Sequence[str],
        first: int,
        clock: Clock,
    ) -> list[list[Hit]]:
        """The hits of every leg for every wording, numbered from first."""
        legs = []
        for number, wording in enumerate(wordings, first):
            with clock.stage("embed"):
                vector = embed(wording).embedding.vector
            with clock.stage("dense"):
                dense = search.dense(connection, vector, generation, self.tuning)
            with clock.stage("lexical"):
                lexical = search.lexical(connection, wording, generation, self.tuning)
            with clock.stage("identifier"):
                identifier = search.identifier(connection, wording, generation, self.tuning)
            for leg in (dense, lexical, identifier):
                legs.append([replace(hit, wording=number) for hit in leg])
        return legs

    def _narrow(
        self,
        connection: Connection,
        generation: Generation,
        query: EmbeddedQuery,
        legs: Sequence[Sequence[Hit]],
        clock: Clock,
    ) -> tuple[Asked, list[Candidate], dict[int, Interaction]]:
        """The best of what the legs found, fused with the ranks of late interaction."""
        with clock.stage("fuse"):
            ids = [hits[0].section_id for hits, _ in self._fuse(legs)[: self.tuning.interacted]]
        with clock.stage("late"):
            asked = load_asked(connection, generation, query)
            interactions = interact(connection, generation, asked, ids)
            late = late_interaction.rank(interactions)
        with clock.stage("fuse"):
            fused = self._fuse([*legs, late])[: self.tuning.candidates]
            candidates = _load_candidates(connection, fused)
        return asked, candidates, interactions

    def _fuse(self, legs: Sequence[Sequence[Hit]]) -> list[Fused]:
        weights: dict[Leg, float] = {
            "identifier": self.tuning.identifier_weight,
            "late": self.tuning.late_weight,
        }
        return fusion.fuse(legs, rrf_k=self.tuning.rrf_k, weights=weights)


def _list_wordings(query: Query) -> tuple[str, ...]:
    return (query.text, *query.variants)


def _is_current(connection: Connection, generation: Generation, ahead: _Ahead) -> bool:
    """Whether all that was found ahead is still there; a page that changed has new sections."""
    found = {hit.section_id for leg in ahead.legs for hit in leg}
    return generation.generation_id == ahead.generation_id and found == search.load_existing(
        connection, found
    )


def _load_candidates(connection: Connection, fused: Sequence[Fused]) -> list[Candidate]:
    sections = search.load_sections(connection, [hits[0].section_id for hits, _ in fused])
    return [
        Candidate(section=sections[hits[0].section_id], hits=hits, rrf_score=score)
        for hits, score in fused
        if hits[0].section_id in sections  # what the asker may not read is no candidate
    ]


def _take_best(rankings: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Each candidate as the ranking has it in which it is most relevant, best first.

    Equals keep the order of the first ranking.
    """
    first, *others = rankings
    best = {candidate.section.section_id: candidate for candidate in first}
    for candidate in (candidate for ranking in others for candidate in ranking):
        key = candidate.section.section_id
        best[key] = max(best[key], candidate, key=lambda each: each.relevance or 0)
    return sorted(best.values(), key=lambda candidate: -(candidate.relevance or 0))
