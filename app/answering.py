"""The whole path from turns to Answer and trace; knows nothing of Slack."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from app import abstaining, claims, freshness, successors, traces
from app.abstaining import Searched
from app.generate.generator import Generator, Write
from app.records import Abstention, Answer, Arrival, Turn
from app.searching import search
from retrieval import audiences
from retrieval.db import Database
from retrieval.errors import ConfigError, GenerationError
from retrieval.precedence import Validity
from retrieval.records import Retrieval
from retrieval.retrieve import Retriever
from retrieval.timing import Clock

if TYPE_CHECKING:  # takes seconds to import, and without a key nothing needs it
    from app.reword import Rewriter


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """The pages are being searched."""

    page_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer is being made from what was found."""

    section_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """An answer is being written."""

    answer: Answer  # so far, checked like the whole; its end may still change


Stage = Searching | Reading | Writing
Tell = Callable[[Stage], None]  # what it raises ends the answering


def _tell_nobody(stage: Stage) -> None:
    pass


class Keeping(Protocol):
    """What keeps the trace of a question as it is answered; what it raises ends the answering."""

    @property
    def trace_id(self) -> UUID: ...

    def save_retrieval(self, retrieval: Retrieval, tokens: Mapping[str, int]) -> None: ...

    def save_answer(
        self, answer: Answer, settings: Mapping[str, object], stage_ms: Mapping[str, float]
    ) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The trace of a question that is answered then and there."""

    database: Database
    trace_id: UUID

    def save_retrieval(self, retrieval: Retrieval, tokens: Mapping[str, int]) -> None:
        traces.save_retrieval(self.database, self.trace_id, retrieval, tokens=tokens)

    def save_answer(
        self, answer: Answer, settings: Mapping[str, object], stage_ms: Mapping[str, float]
    ) -> None:
        traces.save_answer(
            self.database, self.trace_id, answer, settings=settings, stage_ms=stage_ms
        )


@dataclass(frozen=True, kw_only=True)
class Answerer:
    """The parts of the path, held open; safe to use from several threads."""

    retriever: Retriever
    generator: Generator
    quoter: Generator | None = None  # answers where the generator has nothing; None: nobody does
    rewriter: "Rewriter | None" = None  # None: questions are worded by rules alone
    freshness_days: int = 365  # a page verified longer ago is cited with a warning

    def reading_as(self, audiences: Iterable[str]) -> "Answerer":
        """The same parts, answering from what one of these audiences may read."""
        return replace(self, retriever=self.retriever.reading_as(audiences))

    def answer(
        self,
        turns: Sequence[Turn],
        trace: Keeping,
        tell: Tell = _tell_nobody,
    ) -> Answer:
        """Answer the last turn, or abstain with a reason; the trace keeps all that comes of it.

        tell is told of each stage as it begins, of writing again as it goes on; of none for an
        index without pages. Raises IndexMismatch when another embedding model built the index,
        Narrowed, and what tell and trace do, and without a quoter GenerationError when
        Claude gave nothing usable and ConfigError when it does not take the key or the model; that
        holds what was found so far.
        """
        return self.retrieve_and_answer(turns, trace, tell)[1]

    def retrieve_and_answer(
        self,
        turns: Sequence[Turn],
        trace: Keeping,
        tell: Tell = _tell_nobody,
    ) -> tuple[Retrieval, Answer]:
        """As answer, with all that was found; stage_ms has every stage, and their total."""
        database = self.retriever.database
        start = perf_counter()
        searched = abstaining.load_searched(database)
        if searched.page_count:
            tell(Searching(page_count=searched.page_count))
        found = search(self.retriever, turns, self.rewriter)
        retrieval = found.retrieval
        trace.save_retrieval(retrieval, found.tokens)
        if retrieval.kept:
            tell(Reading(section_count=len(retrieval.kept)))
        clock = Clock()
        with clock.stage("generate"):
            answer, settings = self._generate(turns, retrieval, searched, tell)
        total = round((perf_counter() - start) * 1000, 1)
        stage_ms = {**retrieval.stage_ms, **clock.stage_ms, "total": total}
        self._refuse_narrowed(trace.trace_id, retrieval, answer)
        trace.save_answer(answer, settings, stage_ms)
        # Saving may have waited for who narrows them.
        self._refuse_narrowed(trace.trace_id, retrieval, answer)
        return replace(retrieval, stage_ms=stage_ms), answer

    def _refuse_narrowed(self, trace_id: UUID, retrieval: Retrieval, answer: Answer) -> None:
        database = self.retriever.database
        if traces.are_readable(database, [trace_id]):
            return
        # What the trace holds of the question before it was edited may be for fewer people.
        nearest = answer.nearest and answer.nearest.path
        pages = {
            *(each.section.document_id for each in retrieval.kept),
            *(each.section.document_id for each in retrieval.passed_over),
            *(
                each.section.document_id
                for each in retrieval.candidates
                if each.section.path == nearest
            ),
            *(each.successor.document_id for each in answer.citations if each.successor),
        }
        with database.transaction() as connection:
            if not audiences.may_read(connection, pages):
                raise traces.Narrowed("A page has got another audience.")

    def _generate(
        self, turns: Sequence[Turn], retrieval: Retrieval, searched: Searched, tell: Tell
    ) -> tuple[Answer, Mapping[str, object]]:
        """What the kept sections give, or the words that say why there is no answer; and by what,
        as the trace keeps it."""

        validity = Validity(today=datetime.now(UTC).date(), freshness_days=self.freshness_days)
        replaced = freshness.find_replaced(retrieval)
        named = successors.load_named(self.retriever.database, retrieval)
        replacing = successors.find(retrieval, named)

        def judge(answer: Answer) -> Answer:
            marked = freshness.mark(answer.citations, validity, replaced, replacing)
            return freshness.open_with_warning(replace(answer, citations=marked), validity)

        def write(answer: Answer) -> None:
            tell(Writing(answer=judge(answer)))

        query, settings = retrieval.query, self.generator.settings
        if retrieval.kept:
            answer, settings = self._write(turns, retrieval, write)
        else:
            answer = Answer(text="", abstained_because=_find_reason(retrieval))
        is_partial = "failed_legs" in retrieval.settings
        if answer.abstained_because is None:
            answer = judge(answer)
            # At the end: the beginning may have been seen growing.
            partly = f"{answer.text}\n\n{abstaining.PARTLY}"
            return replace(answer, text=partly) if is_partial else answer, settings
        explain = partial(
            abstaining.explain, answer.abstained_because, query, unknown=retrieval.unknown
        )
        # Where something has failed, nothing is said of what the documents hold.
        fault = abstaining.UNREAD if "instead_of" in settings else None
        fault = abstaining.NO_TELLING if is_partial else fault
        abstention = replace(
            answer,
            text=fault or explain(searched),
            text_for_others=fault or explain(None),
            nearest=abstaining.find_nearest(answer.abstained_because, retrieval, validity),
        )
        return abstention, settings

    def _write(
        self, turns: Sequence[Turn], retrieval: Retrieval, write: Write
    ) -> tuple[Answer, Mapping[str, object]]:
        """The generator's answer, else the quoter's; and by what and why, as the trace keeps it."""
        query, kept = retrieval.query, retrieval.kept
        try:
            return self.generator.generate(turns, query, kept, write), self.generator.settings
        except (GenerationError, ConfigError) as error:
            if self.quoter is None:
                raise
            level = logging.ERROR if isinstance(error, ConfigError) else logging.WARNING
            log.log(level, "Quoted, as no model has answered: %s", error)
            settings = {
                **self.quoter.settings,
                "instead_of": self.generator.settings["generator"],
                "error_class": type(error.__cause__ or error).__name__,
            }
        return self.quoter.generate(turns, query, kept, write), settings


def _find_reason(retrieval: Retrieval) -> Abstention:
    if retrieval.unknown:
        return "UNKNOWN_IDENTIFIER"
    return "BELOW_FLOOR" if retrieval.candidates else "NO_CANDIDATES"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question from the terminal with all that came of it."""

    question: str
    trace_id: UUID
    retrieval: Retrieval
    answer: Answer


def ask(answerer: Answerer, turns: Sequence[Turn]) -> Asked:
    """Answer the last turn, from claim to complete trace; raises as Answerer.answer does."""
    question = turns[-1].text
    database = answerer.retriever.database
    trace_id = claims.claim(database, Arrival(question=question))
    assert trace_id is not None  # only Slack messages can be claimed twice
    try:
        kept = Kept(database=database, trace_id=trace_id)
        retrieval, answer = answerer.retrieve_and_answer(turns, kept)
    except Exception as error:
        traces.save_failure(database, trace_id, type(error).__name__)
        raise
    return Asked(question=question, trace_id=trace_id, retrieval=retrieval, answer=answer)
