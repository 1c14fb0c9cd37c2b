"""What people say is wrong with an answer becomes a case."""

from typing import Any

import pytest
from sqlalchemy import text

from app import feedback, traces
from app.feedback import Complaint
from retrieval.db import Database
from tests.app import questions


@pytest.fixture
def pages(database: Database) -> list[int]:
    return [questions.add_page(database, "wiki", path) for path in ("a.md", "b.md")]


def flag(database: Database, trace_id: Any, user_id: str, page: int | None) -> None:
    feedback.vote(database, trace_id, user_id, -1)
    feedback.save_complaint(database, trace_id, user_id, Complaint(document_id=page))


def find_cases(database: Database) -> list[tuple[str, str, list[str]]]:
    with database.transaction() as connection:
        rows = connection.execute(text("SELECT * FROM eval_cases ORDER BY case_id")).all()
    return [(row.question, row.state, [gold["doc"] for gold in row.gold_any]) for row in rows]


def test_all_that_is_said_of_one_answer_makes_one_case(
    database: Database, pages: list[int]
) -> None:
    trace_id = questions.ask(database)
    flag(database, trace_id, "U1", None)
    assert find_cases(database) == []
    for user_id, page in (("U1", pages[0]), ("U2", pages[1]), ("U3", pages[0])):
        flag(database, trace_id, user_id, page)
    assert find_cases(database) == [("how long?", "proposed", ["a.md", "b.md"])]


def test_a_follow_up_becomes_a_case_as_it_was_searched_for(
    database: Database, pages: list[int]
) -> None:
    trace_id = questions.ask(database, question="and in Spain?")
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET queries = '{leave in Spain, holidays}'"))
    flag(database, trace_id, "U1", pages[0])
    assert find_cases(database) == [("leave in Spain", "proposed", ["a.md"])]


def test_a_case_goes_with_what_it_rests_on(database: Database, pages: list[int]) -> None:
    trace_ids = [questions.ask(database, question=f"how {number}?") for number in range(4)]
    for trace_id in trace_ids:
        flag(database, trace_id, "U1", pages[0])
    feedback.vote(database, trace_ids[0], "U1", 1)
    feedback.take_back(database, trace_ids[1], "U1", -1)
    traces.reopen(database, trace_ids[2], "how much?")
    assert [question for question, *_ in find_cases(database)] == ["how 3?"]


def test_a_case_that_was_approved_stays_as_it_is(database: Database, pages: list[int]) -> None:
    trace_id = questions.ask(database)
    flag(database, trace_id, "U1", pages[0])
    with database.transaction() as connection:
        connection.execute(text("UPDATE eval_cases SET state = 'approved'"))
    flag(database, trace_id, "U2", pages[1])
    assert find_cases(database) == [("how long?", "approved", ["a.md"])]
