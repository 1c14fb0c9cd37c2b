"""The whole search: query -> legs -> fused -> reranked -> kept, with the time of each stage."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial

from sqlalchemy import Connection

from retrieval import (
    copies,
    floor,
    fusion,
    generations,
    late_interaction,
    literal,
    precedence,
    relevance,
    search,
    unknown,
)
from retrieval.db import Database
from retrieval.embedding import EmbeddedQuery, Embedder
from retrieval.errors import ConfigError, IndexMismatch
from retrieval.fusion import Fused
from retrieval.generations import Generation
from retrieval.late_interaction import Asked, Interaction, interact, load_asked
from retrieval.models import Models
from retrieval.precedence import Validity
from retrieval.records import Candidate, Hit, Leg, PassedOver, Query, Retrieval
from retrieval.relevance import Basis, RelevanceModel
from retrieval.rerank import Measured, Reranker
from retrieval.timing import Clock, span
from retrieval.trimming import trim
from retrieval.tuning import Tuning

_Reading = tuple[Asked, Mapping[int, Interaction]]  # a wording of the question, and its evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A generation that can be searched here."""

    generation: Generation
    embedder: Embedder
    basis: Basis
    model: RelevanceModel | None  # None: none was fitted for it


_Embed = Callable[[Embedder, str], EmbeddedQuery]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """The index as it is searched for one question."""

    connection: Connection
    generation: Generation
    embed: Callable[[str], EmbeddedQuery]
    choice: _Choice
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ahead:
    """What the legs found for a query before a model's wordings of it were there."""

    generation_id: int
    legs: list[list[Hit]]


@dataclass(frozen=True, kw_only=True)
class Retriever:
    """The parts of the search, held open; safe to use from several threads.

    The active generation is searched or, where no model here fits it, the latest one before it that
    one fits. With models, another one is loaded when the index is built anew by it.
    """

    database: Database
    embedder: Embedder
    reranker: Reranker
    tuning: Tuning
    models: Models | None = None
    generation_id: int | None = None  # search this one, whatever its state
    freshness_days: int = 365  # how long a page that does not say it counts as verified

    @property
    def basis(self) -> Basis:
        """What a relevance model has to be fitted on to be of use here."""
        return relevance.build_basis(self.reranker, self.embedder, self.tuning)

    def reading_as(self, audiences: Iterable[str]) -> "Retriever":
        """The same parts, over what one of these audiences may read."""
        return replace(self, database=self.database.reading_as(audiences))

    def settled(self) -> "Retriever":
        """The same search by the model of the index as it is now, and of no other from now on."""
        embedder = self.embedder
        with suppress(IndexMismatch), self._open(_embed, Clock()) as index:
            embedder = index.choice.embedder if index else embedder
        return replace(self, embedder=embedder, models=None)

    def check(self) -> None:
        """Raise what a search of the index as it is would: IndexMismatch or ConfigError."""
        with self._open(_embed, Clock()) as index:
            if index:
                _find_model(index)

    def is_loaded(self) -> bool:
        """Whether a model of the index as it is now is here, or nothing was ever indexed.

        One that is not is being loaded from now on, where models are given.
        """
        with self.database.transaction() as connection, suppress(IndexMismatch):
            self._choose(connection)
            return True
        return False

    def find_generation(self, connection: Connection) -> Generation | None:
        """The generation that is searched; the active one where none can be."""
        try:
            choice = self._choose(connection)
        except IndexMismatch:
            return generations.load(connection, "active")
        return choice.generation if choice else None

    def retrieve(self, query: Query, reword: Callable[[Query], Query] | None = None) -> Retrieval:
        """All that the query found, and what of it is good enough to answer from.

        reword is called once the wordings that the query brings are searched for, so that nothing
        waits for it before; it may add variants and set readings. An index without documents
        finds nothing, which is a valid result. Raises IndexMismatch when another embedding model
        or chunker built the index, and ConfigError when no floor was fitted for it and the
        reranker.
        """
        clock = Clock()
        embed = cache(_embed)  # what is read was mostly searched for before
        ahead, reworded = None, query
        if reword:
            with self._open(embed, clock) as index:
                ahead = index and self._search_ahead(index, query)
            with clock.stage("wait"):  # no transaction is open meanwhile
                reworded = reword(query)
        with self._open(embed, clock) as index:
            if index is None:
                return Retrieval(query=reworded, candidates=(), kept=(), stage_ms=clock.stage_ms)
            model = _find_model(index)
            least = model.floor if self.tuning.floor is None else self.tuning.floor
            wordings = _list_wordings(reworded)
            if ahead and _is_current(index, ahead):
                known = len(_list_wordings(query))
                legs = ahead.legs + self._search(index, wordings[known:], known)
            else:
                legs = self._search(index, wordings)
            measured, readings = self._measure(index, query, reworded, legs)
            with clock.stage("rerank"):
                reranked = model.rank(measured)
            with clock.stage("keep"):
                read = " ".join(asked.query.text for asked, _ in readings)
                passed_over, kept = self._keep(index.connection, reranked, read, least)
                kept = tuple(
                    replace(
                        each,
                        section=trim(
                            each.section, [found[each.section.section_id] for _, found in readings]
                        ),
                    )
                    for each in kept
                )
        return Retrieval(
            query=reworded,
            candidates=tuple(reranked),
            kept=() if measured.unknown else kept,
            passed_over=tuple(passed_over),
            unknown=measured.unknown,
            settings={
                **asdict(self.tuning),
                "generation_id": index.generation.generation_id,
                "embedder": index.generation.embedder,
                "chunker": index.generation.chunker,
                "reranker": self.reranker.name,
                "relevance_fitted_on": model.fitted_on,
                "floor": least,
                "freshness_days": self.freshness_days,
            },
            stage_ms=clock.stage_ms,
            vector=tuple(index.embed(query.text).embedding.vector.tolist()),
        )

    def measure(self, query: Query) -> Measured:
        """All that a relevance model is fitted on and decides by.

        Raises ConfigError when nothing is indexed, and IndexMismatch as retrieve does.
        """
        with self._opened() as index:
            legs = self._search(index, _list_wordings(query))
            return self._measure(index, query, query, legs)[0]

    def narrow(self, query: Query) -> list[Candidate]:
        """The candidates in the order of fusion with late interaction; raises as measure does."""
        with self._opened() as index:
            legs = self._search(index, _list_wordings(query))
            return self._narrow(index, query, legs)[1]

    def search(self, query: Query) -> list[Candidate]:
        """All that any leg found, in the order of fusion; nothing is reranked.

        Raises as measure does.
        """
        with self._opened() as index:
            legs = self._search(index, _list_wordings(query))
            return _load_candidates(index.connection, self._fuse(legs))

    def read_page(self, query: Query, document_id: int) -> list[Candidate]:
        """The sections of one document, by late interaction, best first; none of one that is gone.

        Raises as measure does.
        """
        with self._opened() as index:
            ids = search.load_page(index.connection, document_id, index.generation)
            if not ids:
                return []
            _, interactions = _read(index, query.text, ids)
            late = late_interaction.rank(interactions)
            return _load_candidates(index.connection, self._fuse([late]))

    @contextmanager
    def opened(self) -> Iterator[tuple[Connection, Generation]]:
        """The index as it is now, for as long as the block runs; raises as measure does."""
        with self._opened() as index:
            yield index.connection, index.generation

    @contextmanager
    def _opened(self) -> Iterator[_Open]:
        with self._open(cache(_embed), Clock()) as index:
            if index is None:
                raise ConfigError("Nothing is indexed. Run `footnote ingest` first.")
            yield index

    @contextmanager
    def _open(self, embed: _Embed, clock: Clock) -> Iterator[_Open | None]:
        """The index as it is now; None where nothing was ever indexed."""
        with ExitStack() as stack:
            connection = stack.enter_context(self.database.snapshot())
            try:
                choice = self._choose(connection)
            except IndexMismatch:
                if self.models is None:
                    raise
                active = generations.load(connection, "active")
                assert active is not None
                stack.close()  # no transaction is open while a model is loaded
                with clock.stage("load"):
                    self.models.wait(active, self.tuning)
                connection = stack.enter_context(self.database.snapshot())
                choice = self._choose(connection)
            if choice is None:
                yield None
                return
            yield _Open(
                connection=connection,
                generation=choice.generation,
                embed=partial(embed, choice.embedder),
                choice=choice,
                clock=clock,
            )

    def _choose(self, connection: Connection) -> _Choice | None:
        """What is searched, of the generations that a model here fits: the first one for which a
        relevance model was fitted, else the first.

        None where nothing was ever indexed. Raises IndexMismatch when no model fits any.
        """
        found: Iterable[Generation] = generations.find_searched(connection)
        if self.generation_id is not None:
            found = [generations.load_by_id(connection, self.generation_id)]
        first, fitting = None, []
        for generation in found:
            first = first or generation
            embedder = self._find_embedder(generation)
            if embedder is None:
                continue
            basis = relevance.build_basis(self.reranker, embedder, self.tuning)
            choice = _Choice(
                generation=generation,
                embedder=embedder,
                basis=basis,
                model=relevance.find(connection, basis),
            )
            if choice.model:
                return choice
            fitting.append(choice)
        if first and not fitting:
            raise IndexMismatch(
                f"The index does not fit: {first.difference(self.embedder, self.tuning)}. Run "
                "`footnote ingest` to build it anew, or set EMBEDDING_MODEL back."
            )
        return fitting[0] if fitting else None

    def _find_embedder(self, generation: Generation) -> Embedder | None:
        if not generation.difference(self.embedder, self.tuning):
            return self.embedder
        return self.models.find(generation, self.tuning) if self.models else None

    def _search_ahead(self, index: _Open, query: Query) -> _Ahead:
        legs = self._search(index, _list_wordings(query))
        return _Ahead(generation_id=index.generation.generation_id, legs=legs)

    @span("search")
    def _search(self, index: _Open, wordings: Sequence[str], first: int = 0) -> list[list[Hit]]:
        """The hits of every leg for every wording, numbered from first."""
        connection, generation, clock = index.connection, index.generation, index.clock
        legs = []
        for number, wording in enumerate(wordings, first):
            with clock.stage("embed"):
                vector = index.embed(wording).embedding.vector
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
        self, index: _Open, query: Query, legs: Sequence[Sequence[Hit]]
    ) -> tuple[_Reading, list[Candidate]]:
        """The best of what the legs found, fused with the ranks of late interaction."""
        connection, clock = index.connection, index.clock
        with clock.stage("fuse"):
            ids = [hits[0].section_id for hits, _ in self._fuse(legs)[: self.tuning.interacted]]
        with clock.stage("late"):
            asked, interactions = _read(index, query.text, ids)
            late = late_interaction.rank(interactions)
        with clock.stage("fuse"):
            fused = self._fuse([*legs, late])[: self.tuning.candidates]
            candidates = [
                replace(each, chunk_ids=interactions[each.section.section_id].best_chunks_first())
                for each in _load_candidates(connection, fused)
            ]
        return (asked, interactions), candidates

    def _measure(
        self, index: _Open, query: Query, reworded: Query, legs: Sequence[Sequence[Hit]]
    ) -> tuple[Measured, list[_Reading]]:
        """What the legs found, measured against each reading.

        The names are those of the query before it was reworded: a wording that leaves a name out
        does not make the name known.
        """
        connection, generation, clock = index.connection, index.generation, index.clock
        first, candidates = self._narrow(index, query, legs)
        ids = [candidate.section.section_id for candidate in candidates]
        with clock.stage("rerank"):
            readings = [
                first if text == query.text else _read(index, text, ids)
                for text in reworded.readings or (query.text,)
            ]
            features = tuple(
                self.reranker.measure(connection, asked, candidates, interactions)
                for asked, interactions in readings
            )
        with clock.stage("names"):
            asked, _ = first
            found = literal.find(connection, query, candidates)
            missing = unknown.find(connection, query, asked.query, generation, candidates)
        measured = Measured(
            candidates=tuple(candidates), features=features, literal=found, unknown=missing
        )
        return measured, readings

    def _keep(
        self, connection: Connection, reranked: Sequence[Candidate], read: str, least: float
    ) -> tuple[list[PassedOver], tuple[Candidate, ...]]:
        """What is passed over for pages that replace it, and what of the rest is kept."""
        documents = {each.section.document_id for each in reranked}
        validity = Validity(
            today=datetime.now(UTC).date(),
            freshness_days=self.freshness_days,
            copies=copies.load(connection, documents),
        )
        left, passed_over = precedence.pass_over(
            reranked, read, floor=least, tuning=self.tuning, validity=validity
        )
        kept = floor.apply(left, read, floor=least, tuning=self.tuning)
        return passed_over, precedence.prefer(
            kept, floor=least, tuning=self.tuning, validity=validity
        )

    def _fuse(self, legs: Sequence[Sequence[Hit]]) -> list[Fused]:
        weights: dict[Leg, float] = {
            "identifier": self.tuning.identifier_weight,
            "late": self.tuning.late_weight,
        }
        return fusion.fuse(legs, rrf_k=self.tuning.rrf_k, weights=weights)


def _embed(embedder: Embedder, text: str) -> EmbeddedQuery:
    return embedder.embed_query(text)


def _find_model(index: _Open) -> RelevanceModel:
    """The relevance model of what is searched; raises ConfigError where there is none."""
    if index.choice.model is None:
        beside = None if index.generation.state == "active" else index.generation.generation_id
        raise relevance.build_refusal(index.choice.basis, beside=beside)
    return index.choice.model


def _list_wordings(query: Query) -> tuple[str, ...]:
    return (query.text, *query.variants)


def _is_current(index: _Open, ahead: _Ahead) -> bool:
    """Whether all that was found ahead is still there; a page that changed has new sections."""
    found = {hit.section_id for leg in ahead.legs for hit in leg}
    return (
        index.generation.generation_id == ahead.generation_id
        and search.load_existing(index.connection, found) == found
    )


def _read(index: _Open, text: str, section_ids: Sequence[int]) -> _Reading:
    asked = load_asked(index.connection, index.generation, index.embed(text))
    return asked, interact(index.connection, index.generation, asked, section_ids)


def _load_candidates(connection: Connection, fused: Sequence[Fused]) -> list[Candidate]:
    sections = search.load_sections(connection, [hits[0].section_id for hits, _ in fused])
    return [
        Candidate(section=sections[hits[0].section_id], hits=hits, rrf_score=score)
        for hits, score in fused
        if hits[0].section_id in sections  # what the asker may not read is no candidate
    ]
