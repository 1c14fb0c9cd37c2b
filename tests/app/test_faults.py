"""At which stage an answer went wrong."""

import json
from datetime import date

import pytest
from sqlalchemy import text

from app import faults, feedback
from app.faults import Flagged, Stage
from retrieval.db import Database
from tests.app.questions import add_page, ask, complain

FLAGGED = Flagged(
    asked_on=date(2026, 3, 1),
    document_id=7,
    verified_at=date(2026, 1, 1),
    relevances={70: 0.4, 71: 0.2},
    kept=frozenset({71, 80}),
    floor=0.3,
)


@pytest.mark.parametrize(
    ("more", "stage"),
    [
        ({"document_id": None, "relevances": {}}, "missing"),
        ({"verified_at": date(2025, 2, 28)}, "stale"),
        ({"relevances": {}}, "search"),
        ({"kept": frozenset({80})}, "rerank"),
        ({"kept": frozenset({80}), "floor": 0.5}, "floor"),
        ({"kept": frozenset()}, "floor"),
        ({}, "generation"),
        ({"verified_at": date(2025, 3, 1)}, "generation"),  # to the day
        ({"verified_at": None}, "generation"),  # a page without a date has no age
    ],
)
def test_the_first_stage_that_lost_the_right_page_is_at_fault(
    more: dict[str, object], stage: Stage
) -> None:
    values = {name: getattr(FLAGGED, name) for name in Flagged.__slots__}
    assert faults.find_stage(Flagged(**{**values, **more}), freshness_days=365) == stage


def answer(
    database: Database,
    *,
    found: dict[int, tuple[int, float]] | None = None,
    kept: tuple[int, ...] = (),
    right: int | None = None,
) -> None:
    """A flagged answer; found are document and relevance by section, right is the page named."""
    trace_id = ask(database, settings={"floor": 0.3})
    candidates = [
        {"section_id": section_id, "document_id": document_id, "relevance": relevance}
        for section_id, (document_id, relevance) in (found or {}).items()
    ]
    with database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces SET candidates = CAST(:candidates AS jsonb), kept = :kept
                WHERE trace_id = :trace_id
            """),
            {"candidates": json.dumps(candidates), "kept": list(kept), "trace_id": trace_id},
        )
    feedback.vote(database, trace_id, "U1", -1)
    if right:
        complain(database, trace_id, "U1", right)


def count(database: Database) -> dict[Stage, int]:
    with database.transaction() as connection:
        return faults.count_stages(connection, days=30, channel_id="C1", freshness_days=365)


def test_each_stage_is_found_in_what_the_traces_keep(database: Database) -> None:
    right, stale = (
        add_page(database, "wiki", path, verified_days_ago=days)
        for path, days in (("a.md", 10), ("old.md", 400))
    )
    gone = add_page(database, "wiki", "gone.md")
    answer(database, right=gone)
    answer(database, found={1: (stale, 0.9)}, kept=(1,), right=stale)
    answer(database, found={2: (stale, 0.9)}, kept=(2,), right=right)
    answer(database, found={2: (stale, 0.9), 3: (right, 0.5)}, kept=(2,), right=right)
    answer(database, found={2: (stale, 0.9), 3: (right, 0.1)}, kept=(2,), right=right)
    answer(database, found={3: (right, 0.2)}, right=right)
    answer(database, found={3: (right, 0.9)}, kept=(3,), right=right)
    answer(database, found={3: (right, 0.9)}, kept=(3,))  # nobody names a page
    with database.transaction() as connection:
        connection.execute(text(f"DELETE FROM documents WHERE document_id = {gone}"))
    assert count(database) == {
        **{"missing": 1, "stale": 1, "search": 1, "rerank": 1, "floor": 2},
        "generation": 1,
    }


def test_of_several_pages_named_for_one_answer_the_last_counts(database: Database) -> None:
    pages = [add_page(database, "wiki", f"{number}.md") for number in range(2)]
    trace_id = ask(database)
    for user_id, page in zip(("U1", "U2"), pages, strict=True):
        feedback.vote(database, trace_id, user_id, -1)
        complain(database, trace_id, user_id, page)
    with database.transaction() as connection:
        connection.execute(text(f"DELETE FROM documents WHERE document_id = {pages[1]}"))
    assert count(database) == {"missing": 1}


def test_a_vote_taken_back_takes_its_page_along(database: Database) -> None:
    trace_id = ask(database)
    feedback.vote(database, trace_id, "U1", -1)
    complain(database, trace_id, "U1", add_page(database, "wiki", "a.md"))
    assert count(database) == {"search": 1}
    feedback.vote(database, trace_id, "U1", 1)
    assert count(database) == {}
