"""How traces are found again."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app import conversations, traces
from app.records import PastAnswer
from retrieval import audiences
from retrieval.db import Database
from retrieval.records import Hit, Leg, Query, Retrieval
from tests.app.plans import explain
from tests.app.questions import add_page, ask, reopen
from tests.retrieval.candidates import candidate


def add_answer(database: Database, *answer_ts: str, channel_id: str = "C1") -> UUID:
    trace_id = ask(database, channel_id=channel_id)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET answer_ts = :answer_ts WHERE trace_id = :trace_id"),
            {"answer_ts": list(answer_ts), "trace_id": trace_id},
        )
    return trace_id


def test_an_answer_is_found_by_each_of_its_messages(database: Database) -> None:
    first = add_answer(database, "1767225601.000001", "1767225604.000001", "1767225609.000001")
    between = add_answer(database, "1767225602.000001", "1767225605.000001")
    add_answer(database, "1767225601.000001", channel_id="C2")
    add_answer(database)
    found = {ts: traces.find_by_answer(database, "C1", f"176722560{ts}.000001") for ts in range(10)}
    assert {ts: trace_id for ts, trace_id in found.items() if trace_id} == {
        **dict.fromkeys((1, 4, 9), first),
        **dict.fromkeys((2, 5), between),
    }


@pytest.mark.parametrize(
    ("find", "index", "condition"),
    [
        (
            lambda database: traces.find_by_answer(database, "C1", "1767225601.000001"),
            "traces_answer",
            "(answer_ts[1] <= ",
        ),
        (
            lambda database: conversations.find_own(database, "T1", "U1"),
            "traces_asker",
            "(user_id = ",
        ),
    ],
    ids=["by answer", "by asker"],
)
def test_traces_are_found_by_an_index_under_row_level_security(
    database: Database, find: Callable[[Database], Any], index: str, condition: str
) -> None:
    off = ("enable_seqscan", "enable_bitmapscan", "enable_sort")
    lines = explain(database, lambda: find(database), off=off)
    (scan,) = (line for line in lines if index in line)
    assert scan.startswith("->  Index Scan Backward")
    (conditions,) = (line for line in lines if line.startswith("Index Cond:"))
    assert "tenant_id = " in conditions and condition in conditions
    assert not any("Sort" in line for line in lines)


LEGS: tuple[Leg, ...] = ("dense", "lexical", "identifier", "late")


def retrieved(question: str, *, vector: tuple[float, ...] = ()) -> Retrieval:
    hits = tuple(
        Hit(section_id=7, leg=leg, rank=18 + at, score=0.5 + at, chunk_id=1)
        for at, leg in enumerate(LEGS)
    )
    found = candidate(7, rrf_score=1 / (60 + 18), relevance=0.8, hits=hits)
    query = Query(text=question, question=question)
    return Retrieval(query=query, candidates=(found,), kept=(found,), vector=vector)


def load(database: Database, trace_id: UUID, column: str) -> Any:
    with database.transaction() as connection:
        return connection.execute(
            text(f"SELECT {column} FROM traces WHERE trace_id = :trace_id"), {"trace_id": trace_id}
        ).scalar()


def test_p71_a_trace_keeps_each_score_under_its_own_name(database: Database) -> None:
    trace_id = ask(database)
    traces.save_retrieval(database, trace_id, retrieved("how long?"), tokens={})
    (row,) = load(database, trace_id, "candidates")
    scores = {f"{leg}_score": 0.5 + at for at, leg in enumerate(LEGS)}
    ranks = {f"{leg}_rank": 18 + at for at, leg in enumerate(LEGS)}
    known = {*("section_id", "document_id", "doc", "verified_at", "chunk_ids"), *ranks, *scores}
    assert set(row) == {*known, "rrf_score", "relevance"}
    assert {name: row[name] for name in (*scores, *ranks)} == {**scores, **ranks}
    assert row["rrf_score"] == pytest.approx(0.0128, abs=0.0001) and row["relevance"] == 0.8


def test_p47_an_answer_waits_for_nobody_who_narrows_a_page(database: Database) -> None:
    document_id = add_page(database, "wiki", "a.md")
    earlier, later = ask(database), ask(database)
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET document_ids = :ids WHERE trace_id = :trace_id"),
            {"ids": [document_id], "trace_id": earlier},
        )
    past = [PastAnswer(trace_id=earlier, question="how long?", answer="")]
    with database.unrestricted.transaction() as connection:
        audiences.assign(connection, ("group:S1",), [document_id])
        with pytest.raises(traces.Narrowed):
            traces.save_past(database, later, past)
    traces.save_past(database, later, past)
    assert load(database, later, "document_ids") is None


def test_the_vector_of_a_question_is_kept_until_it_is_edited(database: Database) -> None:
    trace_id = ask(database)
    unknown = retrieved("how long?")
    traces.save_retrieval(database, trace_id, unknown, tokens={})
    assert load(database, trace_id, "embedding") is None
    found = retrieved("how long?", vector=(0.5, -0.25, 0.0))
    traces.save_retrieval(database, trace_id, found, tokens={})
    assert load(database, trace_id, "embedding").to_list() == [0.5, -0.25, 0.0]
    reopen(database, trace_id, "how much?")
    assert load(database, trace_id, "embedding") is None
