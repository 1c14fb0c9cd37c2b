"""At which stage an answer went wrong."""

import json
from datetime import date

import pytest
from sqlalchemy import text

from app import feedback
from app.loop import faults
from app.loop.faults import Flagged, Stage
from retrieval.db import Database
from tests.app.questions import add_page, ask, complain

FLAGGED = Flagged(
    asked_on=date(2026, 3, 1),
    is_indexed=True,
    verified_at=date(2026, 1, 1),
    relevances={70: 0.4, 71: 0.2},
    kept=frozenset({71, 80}),
    floor=0.3,
)


@pytest.mark.parametrize(
    ("more", "stage"),
    [
        ({"is_indexed": False, "relevances": {}}, "missing"),
        ({"relevances": {}}, "search"),
        ({"relevances": {}, "verified_at": date(2025, 2, 28)}, "search"),
        ({"kept": frozenset({80})}, "rerank"),
        ({"kept": frozenset({80}), "floor": 0.5}, "floor"),
        ({"kept": frozenset()}, "floor"),
        ({}, "generation"),
        ({"verified_at": date(2025, 2, 28)}, "generation"),  # it was used all the same
        ({"is_indexed": False}, "generation"),  # it was there
        ({"kept": frozenset({80}), "verified_at": date(2025, 2, 28)}, "stale"),
        ({"kept": frozenset({80}), "verified_at": date(2025, 3, 1)}, "rerank"),  # to the day
        ({"kept": frozenset({80}), "verified_at": None}, "rerank"),  # without a date it has no age
        ({"kept": frozenset(), "verified_at": date(2025, 2, 28)}, "floor"),
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
    found: dict[int, tuple[int, float | None]] | None = None,
    kept: tuple[int, ...] = (),
    right: int | None = None,
) -> None:
    """A flagged answer; found are document and relevance by section, right is the page named."""
    trace_id = ask(database, settings={"floor": 0.3})
    candidates = [
        {
            "section_id": section_id,
            "document_id": document_id,
            "doc": find_path(database, document_id),
            "relevance": relevance,
        }
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


def find_path(database: Database, document_id: int) -> str:
    with database.transaction() as connection:
        return str(
            connection.execute(
                text(f"SELECT path FROM documents WHERE document_id = {document_id}")
            ).scalar_one()
        )


def remove(database: Database, document_id: int) -> None:
    with database.transaction() as connection:
        connection.execute(text(f"DELETE FROM documents WHERE document_id = {document_id}"))


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
    answer(database, found={1: (stale, 0.9), 3: (right, 0.9)}, kept=(3,), right=stale)
    answer(database, found={2: (stale, 0.9)}, kept=(2,), right=right)
    answer(database, found={2: (stale, 0.9), 3: (right, 0.5)}, kept=(2,), right=right)
    answer(database, found={2: (stale, 0.9), 3: (right, 0.1)}, kept=(2,), right=right)
    answer(database, found={3: (right, 0.2)}, right=right)
    answer(database, found={3: (right, 0.9)}, kept=(3,), right=right)
    answer(database, found={3: (right, 0.9)}, kept=(3,))  # nobody names a page
    remove(database, gone)
    assert count(database) == {
        **{"missing": 1, "stale": 1, "search": 1, "rerank": 1, "floor": 2},
        "generation": 1,
    }


def test_a_page_that_is_renamed_or_indexed_again_was_still_found(database: Database) -> None:
    moved, again, other = (add_page(database, "wiki", path) for path in ("a.md", "b.md", "c.md"))
    answer(database, found={1: (moved, 0.9)}, kept=(1,), right=moved)
    answer(database, found={2: (again, 0.9), 3: (other, 0.9)}, kept=(3,), right=again)
    remove(database, moved)
    remove(database, again)
    add_page(database, "wiki", "elsewhere/a.md")
    add_page(database, "wiki", "b.md")
    assert count(database) == {"generation": 1, "rerank": 1}


def test_a_page_of_another_source_with_the_same_path_is_another(database: Database) -> None:
    right, other = (add_page(database, source, "README.md") for source in ("wiki", "guide"))
    answer(database, found={1: (other, 0.9)}, kept=(1,), right=right)
    assert count(database) == {"search": 1}


def test_a_candidate_that_was_not_scored_is_the_least_relevant(database: Database) -> None:
    right, other = (add_page(database, "wiki", path) for path in ("a.md", "b.md"))
    answer(database, found={1: (other, 0.9), 2: (right, None)}, kept=(1,), right=right)
    assert count(database) == {"floor": 1}


def test_of_several_pages_named_for_one_answer_the_last_counts(database: Database) -> None:
    pages = [add_page(database, "wiki", f"{number}.md") for number in range(2)]
    trace_id = ask(database)
    for user_id, page in zip(("U1", "U2"), pages, strict=True):
        feedback.vote(database, trace_id, user_id, -1)
        complain(database, trace_id, user_id, page)
    remove(database, pages[1])
    assert count(database) == {"missing": 1}


def test_a_vote_taken_back_takes_its_page_along(database: Database) -> None:
    trace_id = ask(database)
    feedback.vote(database, trace_id, "U1", -1)
    complain(database, trace_id, "U1", add_page(database, "wiki", "a.md"))
    assert count(database) == {"search": 1}
    feedback.vote(database, trace_id, "U1", 1)
    assert count(database) == {}
