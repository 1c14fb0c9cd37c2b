"""The path from turns to a saved answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from app import claims, traces
from app.abstaining import NO_TELLING, PARTLY, UNREAD
from app.answering import Answerer, Kept, Reading, Searching, Stage, Writing
from app.generate.generator import Write
from app.records import Answer, Arrival, Turn
from retrieval.db import Database
from retrieval.errors import GenerationError
from retrieval.records import Candidate, Query, Retrieval, StoredSection
from retrieval.retrieve import Retriever
from tests.app.bot import find_rows
from tests.app.questions import add_page

TURNS = (Turn(speaker="user", text="how long?"),)
SECTION = StoredSection(
    section_id=1,
    document_id=1,
    path="failover.md",
    title="Failover",
    heading_path=("Failover",),
    text="Failover takes 30 s.",
    url="https://docs.example.com/failover",
    owner=None,
    updated_at=None,
    verified_at=None,
)


class FindsOne:
    """Finds the same section for every query."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def retrieve(self, query: Query) -> Retrieval:
        found = (Candidate(section=SECTION, hits=(), rrf_score=0.0),)
        return Retrieval(query=query, candidates=found, kept=found, settings={"depth": 9})


class Says:
    settings: Mapping[str, object] = {"generator": "says", "prompt_version": "7"}

    def generate(
        self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate], write: Write
    ) -> Answer:
        answer = Answer(text=kept[0].section.text)
        write(replace(answer, text=answer.text[:8]))
        return answer


@pytest.fixture
def answerer(database: Database) -> Answerer:
    return Answerer(retriever=cast(Retriever, FindsOne(database)), generator=Says())


def claim(database: Database) -> Kept:
    trace_id = claims.claim(database, Arrival(question="how long?"))
    assert trace_id is not None
    return Kept(database=database, trace_id=trace_id)


def test_the_trace_has_the_settings_of_search_and_generator(
    answerer: Answerer, database: Database
) -> None:
    answerer.answer(TURNS, claim(database))
    (trace,) = find_rows(database, "traces")
    assert trace.settings == {
        **{"depth": 9, "rewriting": "rules"},
        **{"generator": "says", "prompt_version": "7"},
    }


def test_an_answer_is_not_saved_when_another_attempt_has_begun(
    answerer: Answerer, database: Database
) -> None:
    kept = claim(database)
    with database.unrestricted.transaction() as connection:
        claims.begin_anew(connection, kept.trace_id, "how long?")
    with pytest.raises(traces.Superseded):
        answerer.answer(TURNS, kept)
    (trace,) = find_rows(database, "traces")
    assert (trace.outcome, trace.answer) == ("pending", None)


def test_each_stage_is_told_as_it_begins(answerer: Answerer, database: Database) -> None:
    told: list[Stage] = []
    add_page(database, "wiki", "failover.md", verified_days_ago=None)
    answerer.answer(TURNS, claim(database), told.append)
    assert told[:2] == [Searching(page_count=1), Reading(section_count=1)]
    assert told[2:] == [Writing(answer=Answer(text="Failover"))]


class FindsByHalves(FindsOne):
    """As when a leg failed; keeps nothing for a question of nothing."""

    def retrieve(self, query: Query) -> Retrieval:
        found = super().retrieve(query)
        kept = () if "nothing" in query.text else found.kept
        return replace(found, kept=kept, settings={"failed_legs": ["dense"], "floor": 0.5})


class IsAway(Says):
    settings: Mapping[str, object] = {"generator": "away"}

    def generate(
        self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate], write: Write
    ) -> Answer:
        raise GenerationError("It is away.") from TimeoutError()


class QuotesNothing(Says):
    def generate(
        self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate], write: Write
    ) -> Answer:
        return Answer(text="", abstained_because="UNSUPPORTED")


def test_what_an_answer_may_lack_is_told_at_its_end(database: Database) -> None:
    retriever = cast(Retriever, FindsByHalves(database))
    answerer = Answerer(retriever=retriever, generator=Says())
    answer = answerer.answer(TURNS, claim(database))
    assert answer.text == f"{SECTION.text}\n\n{PARTLY}"
    (trace,) = find_rows(database, "traces")
    assert (trace.answer, trace.settings["failed_legs"]) == (answer.text, ["dense"])


def test_after_half_a_search_nothing_is_said_of_what_the_documents_hold(
    database: Database,
) -> None:
    answerer = Answerer(retriever=cast(Retriever, FindsByHalves(database)), generator=Says())
    turns = (Turn(speaker="user", text="is there nothing?"),)
    answer = answerer.answer(turns, claim(database))
    assert answer.abstained_because == "BELOW_FLOOR"
    assert answer.text == answer.text_for_others == NO_TELLING


def test_what_nobody_has_read_is_not_said_to_be_missing(database: Database) -> None:
    retriever = cast(Retriever, FindsOne(database))
    answerer = Answerer(retriever=retriever, generator=IsAway(), quoter=QuotesNothing())
    answer = answerer.answer(TURNS, claim(database))
    assert (answer.abstained_because, answer.text) == ("UNSUPPORTED", UNREAD)
    (trace,) = find_rows(database, "traces")
    assert (trace.settings["instead_of"], trace.settings["error_class"]) == ("away", "TimeoutError")


def test_what_is_found_does_not_undo_that_the_question_was_deleted(
    answerer: Answerer, database: Database
) -> None:
    where = {"team_id": "T1", "channel_id": "C1", "message_ts": "1700000000.000100"}
    trace_id = claims.claim(database, Arrival(question="how long?", surface="slack", **where))
    assert trace_id is not None
    with database.unrestricted.transaction() as connection:
        claims.save_deletion(connection, **where)
    answerer.answer(TURNS, Kept(database=database, trace_id=trace_id))
    assert traces.is_deleted(database, trace_id)
