"""At which stage an answer went wrong."""

import json
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest
from sqlalchemy import text

from app import feedback
from app.feedback import Complaint
from app.loop import cases, faults, stages
from app.loop.stages import Flagged, Stage, Symptoms
from retrieval.db import Database
from retrieval.metrics import Gold
from tests.app.questions import add_page, ask, complain

FLAGGED = Flagged(
    asked_on=date(2026, 3, 1),
    was_indexed=True,
    verified_at=date(2026, 1, 1),
    relevances={70: 0.4, 71: 0.2},
    kept=frozenset({71, 80}),
    floor=0.3,
)


@pytest.mark.parametrize(
    ("more", "stage"),
    [
        ({"was_indexed": False, "relevances": {}}, "missing"),
        ({"relevances": {}}, "search"),
        ({"relevances": {}, "verified_at": date(2025, 2, 28)}, "search"),
        ({"kept": frozenset({80})}, "rerank"),
        ({"kept": frozenset({80}), "floor": 0.5}, "floor"),
        ({"kept": frozenset(), "floor": 0.5}, "floor"),
        ({"kept": frozenset()}, "search"),  # refused for a name that no page mentions
        ({}, "generation"),
        ({"verified_at": date(2025, 2, 28)}, "generation"),  # it was used all the same
        ({"kept": frozenset({80}), "verified_at": date(2025, 2, 28)}, "stale"),
        ({"kept": frozenset({80}), "verified_at": date(2025, 3, 1)}, "rerank"),  # to the day
        ({"kept": frozenset({80}), "verified_at": None}, "rerank"),  # without a date it has no age
        ({"kept": frozenset({80}), "floor": 0.5, "verified_at": date(2025, 2, 28)}, "floor"),
        ({"is_disputed": True}, "stale"),  # told as it stands there
        ({"kept": frozenset({80}), "is_disputed": True}, "rerank"),  # it was not told at all
    ],
)
def test_the_first_stage_that_lost_the_right_page_is_at_fault(
    more: dict[str, object], stage: Stage
) -> None:
    flagged = replace(FLAGGED, **more)  # type: ignore[arg-type]
    assert stages.find_stage(flagged, freshness_days=365) == stage


def answer(
    database: Database,
    *,
    found: dict[int, tuple[int, float | None]] | None = None,
    kept: tuple[int, ...] = (),
    right: int | None = None,
    cited: dict[str, Any] | None = None,
    question: str = "how long?",
    verified: dict[int, date | None] | None = None,
) -> UUID:
    """A flagged answer; found are document and relevance by section, right is the page named.

    verified is when, as the trace has kept it, where it has.
    """
    trace_id = ask(database, settings={"floor": 0.3}, question=question)
    candidates = [
        {
            "section_id": section_id,
            "document_id": document_id,
            "doc": find_path(database, document_id),
            "relevance": relevance,
            **({"verified_at": verified.get(section_id)} if verified else {}),
        }
        for section_id, (document_id, relevance) in (found or {}).items()
    ]
    with database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces SET candidates = CAST(:candidates AS jsonb), kept = :kept,
                    citations = CAST(:citations AS jsonb)
                WHERE trace_id = :trace_id
            """),
            {
                "candidates": json.dumps(candidates, default=str),
                "kept": list(kept),
                "citations": json.dumps([cited] if cited else []),
                "trace_id": trace_id,
            },
        )
    feedback.vote(database, trace_id, "U1", -1)
    if right:
        complain(database, trace_id, "U1", right)
    return trace_id


def choose(database: Database, trace_id: UUID, gold: Gold) -> None:
    """Have a reviewer choose what answers."""
    case = cases.find(database, trace_id)
    assert case is not None
    assert cases.save_gold(database, case.case_id, "U5", gold=[gold])


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
    new = add_page(database, "wiki", "new.md", added_days_ago=0)
    answer(database, right=new)
    answer(database, found={1: (stale, 0.9), 3: (right, 0.9)}, kept=(3,), right=stale)
    answer(database, found={2: (stale, 0.9)}, kept=(2,), right=right)
    answer(database, found={2: (stale, 0.9), 3: (right, 0.5)}, kept=(2,), right=right)
    answer(database, found={2: (stale, 0.9), 3: (right, 0.1)}, kept=(2,), right=right)
    answer(database, found={3: (right, 0.2)}, right=right)
    answer(database, found={3: (right, 0.9)}, kept=(3,), right=right)
    answer(database, found={3: (right, 0.9)}, kept=(3,))  # nobody names a page
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
    first, last = (add_page(database, "wiki", path) for path in ("a.md", "b.md"))
    trace_id = answer(database, found={1: (last, 0.9)}, kept=(1,))
    for user_id, page in (("U1", first), ("U2", last)):
        feedback.vote(database, trace_id, user_id, -1)
        complain(database, trace_id, user_id, page)
    assert count(database) == {"generation": 1}


def test_a_vote_taken_back_takes_its_page_along(database: Database) -> None:
    trace_id = ask(database)
    feedback.vote(database, trace_id, "U1", -1)
    complain(database, trace_id, "U1", add_page(database, "wiki", "a.md"))
    assert count(database) == {"search": 1}
    feedback.vote(database, trace_id, "U1", 1)
    assert count(database) == {}


def find(database: Database, trace_id: UUID) -> tuple[Stage, bool] | None:
    with database.transaction() as connection:
        fault = faults.find_fault(connection, trace_id, freshness_days=365)
    return (fault.stage, fault.is_known) if fault else None


def add_sections(database: Database, document_id: int, texts: list[str]) -> list[int]:
    """Sections of a page in the index that is searched; their ids."""
    with database.transaction() as connection:
        generation_id = connection.execute(
            text("""
                INSERT INTO generations (tenant_id, state, chunker, embedder, dimension, probe,
                                         projection, token_dimension)
                VALUES (:tenant_id, 'active', '', '', 384, '{}', '', 128)
                ON CONFLICT (tenant_id, state) WHERE state IN ('building', 'active')
                DO UPDATE SET chunker = '' RETURNING generation_id
            """),
            {"tenant_id": database.tenant_id},
        ).scalar_one()
        rows = connection.execute(
            text("""
                INSERT INTO sections (tenant_id, generation_id, document_id, ordinal,
                                      heading_path, text, span_start, span_end, token_count,
                                      content_hash)
                SELECT :tenant_id, :generation_id, :document_id, number, '{}', said,
                       0, 0, 0, ''
                FROM unnest(CAST(:texts AS text[])) WITH ORDINALITY AS parts (said, number)
                RETURNING section_id
            """),
            {
                "tenant_id": database.tenant_id,
                "generation_id": generation_id,
                "document_id": document_id,
                "texts": texts,
            },
        )
        return list(rows.scalars())


def test_only_the_section_that_holds_the_passage_is_right(database: Database) -> None:
    right, other = (add_page(database, "wiki", path) for path in ("a.md", "b.md"))
    about, answering = add_sections(database, right, ["about", "Leave is 30 days.\n\nNo more."])
    found = {about: (right, 0.9), answering: (right, 0.1), 9: (other, 0.8)}
    kept_another = answer(database, found=found, kept=(about, 9))
    never_found = answer(database, found={about: (right, 0.9)}, kept=(about,), question="what?")
    for trace_id in (kept_another, never_found):
        case = cases.find(database, trace_id)
        assert case is not None
        gold = [Gold(doc="a.md", span="Leave is 30 days. No more.")]
        cases.save_gold(database, case.case_id, "U5", gold=gold)
    assert find(database, kept_another) == ("floor", True)
    assert find(database, never_found) == ("search", True)


@pytest.mark.parametrize("span", ["stands in no section", "Leave is 30 days."])
def test_where_the_passage_cannot_be_told_the_page_is_right(database: Database, span: str) -> None:
    right = add_page(database, "wiki", "a.md")
    add_sections(database, right, ["about", "Leave is 30 days."])
    indexed_before = 1_000  # of a generation that is gone
    trace_id = answer(database, found={indexed_before: (right, 0.9)}, kept=(indexed_before,))
    case = cases.find(database, trace_id)
    assert case is not None
    cases.save_gold(database, case.case_id, "U5", gold=[Gold(doc="a.md", span=span)])
    assert find(database, trace_id) == ("generation", True)


def test_the_page_that_a_reviewer_chose_goes_before_those_of_voters(database: Database) -> None:
    named, _ = (add_page(database, "wiki", path) for path in ("a.md", "b.md"))
    trace_id = answer(database, found={1: (named, 0.9)}, kept=(1,), right=named)
    assert find(database, trace_id) == ("generation", True)
    case = cases.find(database, trace_id)
    assert case is not None
    cases.save_gold(database, case.case_id, "U5", gold=[Gold(doc="b.md")])
    assert find(database, trace_id) == ("search", True)


@pytest.mark.parametrize(
    ("added_days_ago", "stage"), [(900, "search"), (0, "missing"), (None, "missing")]
)
def test_a_page_that_was_not_found_is_missing_only_where_it_was_not_there(
    database: Database, added_days_ago: int | None, stage: Stage
) -> None:
    """It was asked a day ago."""
    trace_id = answer(database)
    if added_days_ago is not None:
        add_page(database, "wiki", "a.md", added_days_ago=added_days_ago)
    choose(database, trace_id, Gold(doc="a.md", source="wiki"))
    assert find(database, trace_id) == (stage, True)


def test_a_page_removed_since_counts_as_it_was_then(database: Database) -> None:
    right = add_page(database, "wiki", "a.md")
    trace_id = answer(database, right=right)
    remove(database, right)
    assert find(database, trace_id) == ("search", True)
    add_page(database, "wiki", "a.md", added_days_ago=0)  # and put back
    assert find(database, trace_id) == ("search", True)


def test_a_page_that_moved_since_was_there_when_it_was_asked(database: Database) -> None:
    before = add_page(database, "wiki", "a.md")
    trace_id = answer(database)
    remove(database, before)
    add_page(database, "wiki", "moved/a.md", added_days_ago=0)
    choose(database, trace_id, Gold(doc="moved/a.md", source="wiki"))
    assert find(database, trace_id) == ("search", True)


def test_a_page_of_the_same_path_in_another_source_was_another_one(database: Database) -> None:
    add_page(database, "wiki", "a.md")
    add_page(database, "guide", "a.md", added_days_ago=0)
    trace_id = answer(database)
    choose(database, trace_id, Gold(doc="a.md", source="guide"))
    assert find(database, trace_id) == ("missing", True)
    choose(database, trace_id, Gold(doc="a.md", source="wiki"))
    assert find(database, trace_id) == ("search", True)


def test_a_page_is_as_old_as_it_was_when_it_was_asked(database: Database) -> None:
    """It was verified since, as somebody put it right."""
    right = add_page(database, "wiki", "a.md", verified_days_ago=0)
    other = add_page(database, "wiki", "b.md")
    found = {1: (right, 0.9), 2: (other, 0.9)}
    then = date.today() - timedelta(days=800)
    trace_id = answer(database, found=found, kept=(2,), right=right, verified={1: then})
    assert find(database, trace_id) == ("stale", True)
    old = add_page(database, "wiki", "old.md", verified_days_ago=800)
    found = {1: (old, 0.9), 2: (other, 0.9)}
    undated = answer(
        database, found=found, kept=(2,), right=old, verified={1: None}, question="what?"
    )
    assert find(database, undated) == ("rerank", True)


def test_what_is_refused_for_a_name_is_no_matter_of_the_floor() -> None:
    refused = replace(FLAGGED, kept=frozenset())
    fault = stages.explain(refused, freshness_days=365)
    assert fault.stage == "search"
    assert fault.why == (
        "no page mentions a name that is asked about, so all was refused; "
        "its best section had relevance 0.40 (floor 0.30)"
    )


def test_that_no_page_answers_is_known_once_it_is_decided(database: Database) -> None:
    other = add_page(database, "wiki", "a.md")
    trace_id = answer(database, found={1: (other, 0.9)}, kept=(1,))
    assert find(database, trace_id) == ("generation", False)
    assert count(database) == {}
    case = cases.find(database, trace_id)
    assert case is not None
    cases.approve(database, case.case_id, "U5")
    assert find(database, trace_id) == ("missing", True)
    assert count(database) == {"missing": 1}


def test_an_answer_that_was_right_has_no_fault(database: Database) -> None:
    right = add_page(database, "wiki", "a.md")
    trace_id = answer(database, found={1: (right, 0.9)}, kept=(1,), right=right)
    case = cases.find(database, trace_id)
    assert case is not None
    cases.dismiss(database, case.case_id, "U5")
    assert find(database, trace_id) is None
    assert count(database) == {}


def test_a_page_that_was_told_as_it_stands_there_is_stale_where_it_is_wrong(
    database: Database,
) -> None:
    right = add_page(database, "wiki", "a.md")
    trace_id = answer(
        database, found={1: (right, 0.9)}, kept=(1,), cited={"path": "a.md"}, right=right
    )
    assert find(database, trace_id) == ("generation", True)
    outdated = Complaint(reason="outdated", document_id=right)
    feedback.save_complaint(database, trace_id, "U1", outdated)
    assert find(database, trace_id) == ("stale", True)


def test_an_old_page_told_in_place_of_the_right_one_is_no_fault_of_that(
    database: Database,
) -> None:
    right, old = (add_page(database, "wiki", path) for path in ("a.md", "old.md"))
    found = {1: (right, 0.9), 2: (old, 0.9)}
    trace_id = answer(database, found=found, kept=(1, 2), cited={"path": "old.md"}, right=right)
    outdated = Complaint(reason="outdated", document_id=right)
    feedback.save_complaint(database, trace_id, "U1", outdated)
    assert find(database, trace_id) == ("generation", True)


def test_a_page_that_a_later_edition_contradicts_is_stale(database: Database) -> None:
    right = add_page(database, "wiki", "a.md")
    cited = {"path": "a.md", "caveat": "verified 2025-01-01, older than [2]"}
    trace_id = answer(database, found={1: (right, 0.9)}, kept=(1,), cited=cited, right=right)
    assert find(database, trace_id) == ("stale", True)


def test_a_page_marked_as_wrong_is_at_fault_though_none_is_named(database: Database) -> None:
    used = add_page(database, "wiki", "a.md")
    trace_id = answer(database, found={1: (used, 0.9)}, kept=(1,), cited={"path": "a.md"})
    case = cases.find(database, trace_id)
    assert case is not None
    cases.mark_page_wrong(database, case.case_id, "U5", Gold(doc="a.md", source="wiki"))
    assert find(database, trace_id) == ("stale", True)


def test_a_page_marked_as_wrong_says_nothing_of_another_one(database: Database) -> None:
    wrong, right = (add_page(database, "wiki", path) for path in ("a.md", "b.md"))
    trace_id = answer(database, found={1: (wrong, 0.9), 2: (right, 0.9)}, kept=(1, 2))
    case = cases.find(database, trace_id)
    assert case is not None
    cases.mark_page_wrong(database, case.case_id, "U5", Gold(doc="a.md", source="wiki"))
    choose(database, trace_id, Gold(doc="b.md", source="wiki"))
    assert find(database, trace_id) == ("generation", True)
    choose(database, trace_id, Gold(doc="a.md", source="wiki"))
    assert find(database, trace_id) == ("stale", True)


MEASURED = Symptoms(relevances=(0.6, 0.2), left=(0.2,), floor=0.08)
GUESSES: list[tuple[dict[str, Any], Stage, str]] = [
    ({"abstained_because": "NO_CANDIDATES", "relevances": ()}, "missing", "nothing was found"),
    ({"abstained_because": "UNKNOWN_IDENTIFIER"}, "missing", "no page mentions a name"),
    (
        {"abstained_because": "BELOW_FLOOR", "relevances": (0.02,)},
        "missing",
        "nothing above the floor; the best page had relevance 0.02 (floor 0.08)",
    ),
    (
        {"abstained_because": "BELOW_FLOOR", "relevances": (0.07,)},
        "floor",
        "something came near: the best page had relevance 0.07 (floor 0.08)",
    ),
    ({"abstained_because": "UNSUPPORTED"}, "generation", "nothing was told from what was kept"),
    (
        {"abstained_because": "UNSUPPORTED", "relevances": (0.2,)},
        "missing",
        "what was kept does not answer it",
    ),
    ({"reasons": {"outdated", "wrong"}}, "stale", "outdated"),
    ({"caveats": ("last verified 2020-01-01, 6 years ago",)}, "stale", "2020-01-01"),
    ({"reasons": {"not_asked"}}, "search", "something else was asked"),
    ({"reasons": {"missing"}}, "rerank", "1 more above the floor were not kept"),
    ({"reasons": {"missing"}, "left": (0.05,)}, "floor", "came near the floor: relevance 0.05"),
    ({"reasons": {"missing"}, "left": ()}, "search", "nothing else that was found comes near"),
    ({"reasons": {"wrong"}}, "generation", "what was kept looks right: relevance 0.60"),
    ({"relevances": (0.3,)}, "search", "relevance 0.30 at best"),
]


@pytest.mark.parametrize(("more", "stage", "why"), GUESSES)
def test_without_the_right_page_the_likeliest_stage_is_told_with_its_reason(
    more: dict[str, Any], stage: Stage, why: str
) -> None:
    values = {name: getattr(MEASURED, name) for name in Symptoms.__slots__}
    fault = stages.guess(Symptoms(**{**values, **more}))
    assert (fault.stage, fault.is_known) == (stage, False)
    assert why in fault.why


def test_every_stage_can_be_guessed() -> None:
    assert {stage for _, stage, _ in GUESSES} == set(get_args(Stage))


def test_what_a_trace_and_its_voters_tell_is_what_is_guessed_from(database: Database) -> None:
    page = add_page(database, "wiki", "a.md")
    trace_id = answer(database, found={1: (page, 0.9), 2: (page, 0.5)}, kept=(1,))
    assert find(database, trace_id) == ("generation", False)
    feedback.save_complaint(database, trace_id, "U1", Complaint(reason="missing"))
    assert find(database, trace_id) == ("rerank", False)
    feedback.save_complaint(database, trace_id, "U1", Complaint(reason="outdated"))
    assert find(database, trace_id) == ("stale", False)
