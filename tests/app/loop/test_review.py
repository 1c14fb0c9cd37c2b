"""What a reviewer sees of a case, as it is loaded."""

import json
from math import cos, sin
from uuid import UUID

import pytest
from sqlalchemy import text

from app import feedback
from app.feedback import Complaint
from app.loop import cases, review
from app.loop.review import Flag, Found, Review
from retrieval.db import Database
from retrieval.metrics import Gold
from tests.app.questions import add_page, ask


def flag(database: Database, trace_id: UUID, user_id: str = "U1", **said: object) -> None:
    feedback.vote(database, trace_id, user_id, -1)
    feedback.save_complaint(database, trace_id, user_id, Complaint(**said))  # type: ignore[arg-type]


def load(database: Database, trace_id: UUID) -> Review:
    case = cases.find(database, trace_id)
    assert case is not None
    found = review.load_review(database, case.case_id, 365)
    assert found is not None
    return found


def keep(database: Database, trace_id: UUID, document_id: int, doc: str) -> None:
    """Have an answer be made from a section of a page."""
    candidates = [{"section_id": 1, "document_id": document_id, "doc": doc, "relevance": 0.4}]
    with database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces SET answer = 'Forever.', kept = '{1}',
                    candidates = CAST(:candidates AS jsonb)
                WHERE trace_id = :trace_id
            """),
            {"candidates": json.dumps(candidates), "trace_id": trace_id},
        )


def change(database: Database, statement: str) -> None:
    with database.transaction() as connection:
        connection.execute(text(statement))


def test_a_case_comes_with_its_last_answer_and_all_flags(database: Database) -> None:
    page = add_page(database, "wiki", "a.md")
    older, newer = ask(database, days_ago=2), ask(database, days_ago=1)
    keep(database, newer, page, "a.md")
    flag(database, older, "U1", reason="wrong", note="no")
    flag(database, newer, "U2", document_id=page)
    found = load(database, older)
    assert found.case.trace_ids == (newer, older)
    assert found.flags == (
        Flag(user_id="U1", reason="wrong", note="no"),
        Flag(user_id="U2", reason=None, note=None, page="a.md"),
    )
    assert (found.answer, found.is_abstained) == ("Forever.", False)
    assert found.found == (Found(place="a.md", url="", relevance=0.4, is_kept=True),)
    assert [(each.document_id, each.span) for each in found.pages] == [(page, None)]
    assert found.fault and (found.fault.stage, found.fault.is_known) == ("generation", True)
    assert found.asked and found.asked.channel_id == "C1"


def test_what_an_answer_was_made_from_is_named_though_it_is_gone(database: Database) -> None:
    page = add_page(database, "wiki", "a.md")
    trace_id = ask(database)
    keep(database, trace_id, page, "a.md")
    flag(database, trace_id)
    assert load(database, trace_id).page_at_hand
    change(database, "DELETE FROM documents")
    found = load(database, trace_id)
    assert found.found == (Found(place="a.md", url="", relevance=0.4, is_kept=True),)
    assert found.page_at_hand is None


def test_where_nothing_was_kept_the_nearest_is_named(database: Database) -> None:
    for number in range(5):
        add_page(database, "wiki", f"{number}.md")
    trace_id = ask(database, "abstained")
    candidates = [  # of which the best is no page that the reader may know of
        {"section_id": number, "document_id": 9, "doc": f"{number}.md", "relevance": number / 10}
        for number in range(6)
    ]
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET candidates = CAST(:candidates AS jsonb)"),
            {"candidates": json.dumps(candidates)},
        )
    flag(database, trace_id)
    found = load(database, trace_id).found
    assert [(each.place, each.is_kept) for each in found] == [
        *(("4.md", False), ("3.md", False), ("2.md", False)),
    ]


def test_the_right_page_comes_with_its_passage_and_before_the_one_used(database: Database) -> None:
    used, right = (add_page(database, "wiki", path) for path in ("a.md", "b.md"))
    trace_id = ask(database)
    keep(database, trace_id, used, "a.md")
    flag(database, trace_id)
    found = load(database, trace_id)
    assert found.page_at_hand and found.page_at_hand.document_id == used
    gold = [Gold(doc="gone.md"), Gold(doc="b.md", span="Two years.")]
    cases.save_gold(database, found.case.case_id, "U5", gold=gold)
    found = load(database, trace_id)
    (page,) = found.pages
    assert (page.document_id, page.span, page.number) == (right, "Two years.", 1)
    assert found.page_at_hand == page


def test_of_two_pages_with_one_path_that_of_the_source_is_shown(database: Database) -> None:
    wiki, handbook = (add_page(database, source, "index.md") for source in ("wiki", "handbook"))
    trace_id = ask(database)
    flag(database, trace_id, document_id=handbook)
    assert [page.document_id for page in load(database, trace_id).pages] == [handbook]
    gold = [Gold(doc="index.md", source="wiki"), Gold(doc="index.md")]
    found = load(database, trace_id)
    cases.save_gold(database, found.case.case_id, "U5", gold=gold)
    assert [page.document_id for page in load(database, trace_id).pages] == [wiki, wiki]


def test_what_is_marked_as_wrong_is_one_page(database: Database) -> None:
    used, right = (add_page(database, "wiki", path) for path in ("a.md", "b.md"))
    trace_id = ask(database)
    keep(database, trace_id, used, "a.md")
    flag(database, trace_id)
    found = load(database, trace_id)
    assert found.page_at_hand and found.page_wrong is None
    cases.mark_page_wrong(database, found.case.case_id, "U5", found.page_at_hand.gold)
    assert load(database, trace_id).page_wrong == found.page_at_hand
    cases.save_gold(database, found.case.case_id, "U5", gold=[Gold(doc="b.md")])
    found = load(database, trace_id)
    assert found.page_at_hand and found.page_at_hand.document_id == right
    assert found.page_wrong == found.used


@pytest.mark.parametrize(("angle", "is_alike"), [(0.2, True), (1.0, False)])
def test_the_case_of_nearly_the_same_question_is_found(
    database: Database, angle: float, is_alike: bool
) -> None:
    """By the cosine of their vectors: 0.98 at an angle of 0.2, 0.54 at 1."""
    for question, vector in (
        ("how long?", [1, 0]),
        ("for how long?", [cos(angle), sin(angle)]),
        ("how wide?", [-1, 0]),
    ):
        trace_id = ask(database, question=question)
        with database.transaction() as connection:
            connection.execute(
                text("UPDATE traces SET embedding = :vector WHERE trace_id = :trace_id"),
                {"vector": str(vector), "trace_id": trace_id},
            )
        flag(database, trace_id)
    first, second, _ = cases.list_cases(database)
    found = review.load_review(database, first.case_id, 365)
    assert found and found.alike == (second if is_alike else None)


def test_there_is_no_review_of_no_case(database: Database) -> None:
    assert review.load_review(database, "flag-nothing", 365) is None


@pytest.mark.parametrize(
    ("span", "is_held"),
    [
        ("Two years.", True),
        ("the  rule:\nTwo\tyears.", True),
        ("two years", True),
        ("as HR says in its own tool", True),  # as Slack or a browser shows it
        ("**HR** says", True),
        ("Three years.", False),
        ("the rule years", False),
        ("the rule: Two years. as HR knows", False),
        ("**", False),
    ],
)
def test_a_passage_stands_in_a_page_whatever_its_white_space_and_markup(
    database: Database, span: str, is_held: bool
) -> None:
    page = add_page(database, "wiki", "a.md")
    change(
        database,
        "UPDATE documents SET text ="
        " E'# Leave\\n\\nthe rule: Two\\nyears.\\n\\nas **HR** says in its _own_ `tool`'",
    )
    assert review.holds(database, page, span) is is_held
    assert review.holds(database, page + 1, span) is False


@pytest.mark.parametrize(
    ("url", "is_found"),
    [
        ("https://wiki.example/a", True),
        ("https://wiki.example/a/", True),
        ("https://wiki.example/a?view=1#top", True),
        ("https://wiki.example/a#b?c", True),
        ("https://wiki.example/b", False),
        ("https://elsewhere.example/a", False),
        ("", False),
    ],
)
def test_a_link_is_known_by_its_address_alone(database: Database, url: str, is_found: bool) -> None:
    page = add_page(database, "wiki", "a.md")
    add_page(database, "wiki", "without.md")
    change(
        database,
        "UPDATE documents SET url = 'https://wiki.example/a/#head' WHERE path = 'a.md'",
    )
    found = review.find_linked_page(database, ["https://other.example/", url])
    assert found == (page if is_found else None)
