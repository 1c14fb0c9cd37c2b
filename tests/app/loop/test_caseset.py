"""The cases as a set: what is run, what is alike, and where pages went."""

import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from app import feedback
from app.loop import casefiles, cases, caseset
from app.loop.cases import Case
from app.loop.caseset import Followed, Move
from retrieval import indexing, metrics
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.metrics import Gold, Result
from retrieval.tuning import DEFAULT
from tests.app import questions
from tests.app.loop.flags import ask_flagged, flag
from tests.conftest import SAMPLE
from tests.folders import read_folder

LEAVE = "# Leave\n\nEverybody has 28 days of leave a year. Ask your lead first.\n"
SPAN = "Everybody has 28 days of leave a year."
VPN = "# VPN\n\nInstall the client and sign in with your badge number.\n"


def write_page(database: Database, path: str, body: str, *, source: str = "wiki") -> None:
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO documents
                    (tenant_id, source, path, title, url, text, content_hash)
                VALUES (:tenant_id, :source, :path, :path, '', :body, md5(:body))
                ON CONFLICT (tenant_id, source, path) DO UPDATE
                SET text = excluded.text, content_hash = excluded.content_hash
            """),
            {"tenant_id": database.tenant_id, "source": source, "path": path, "body": body},
        )


def remove_page(database: Database, path: str) -> None:
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM documents WHERE path = :path"), {"path": path})


def add_case(
    database: Database,
    case_id: str = "c1",
    question: str = "how much leave?",
    *,
    gold_any: list[Gold] | None = None,
    gold_all: list[Gold] | None = None,
    state: str = "approved",
    held_out: bool = False,
) -> None:
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO eval_cases (case_id, tenant_id, state, origin, type, question, gold_any,
                                        gold_all, held_out)
                VALUES (:case_id, :tenant_id, :state, 'import', 'table', :question,
                        CAST(:gold_any AS jsonb), CAST(:gold_all AS jsonb), :held_out)
            """),
            {
                "case_id": case_id,
                "tenant_id": database.tenant_id,
                "state": state,
                "question": question,
                "gold_any": json.dumps(cases.build_gold(gold_any or [])),
                "gold_all": json.dumps(cases.build_gold(gold_all or [])),
                "held_out": held_out,
            },
        )


def load(database: Database, case_id: str = "c1") -> Case:
    case = cases.load(database, case_id)
    assert case is not None
    return case


# What is run


def test_the_set_is_what_was_approved_in_whole_or_by_part(database: Database) -> None:
    add_case(database, "a")
    add_case(database, "b", held_out=True)
    add_case(database, "c", state="proposed")
    add_case(database, "d", state="dismissed")
    parts = {
        held_out: [case.case_id for case in caseset.load_set(database, held_out=held_out).cases]
        for held_out in (None, False, True)
    }
    assert parts == {None: ["a", "b"], False: ["a"], True: ["b"]}
    assert caseset.load_set(database).name == "cases"


def test_a_set_without_cases_says_where_they_come_from(database: Database) -> None:
    add_case(database, state="proposed")
    with pytest.raises(ConfigError, match=r"No case is approved yet\. Review"):
        caseset.load_set(database)
    add_case(database, "b")
    with pytest.raises(ConfigError, match="approved yet that is held out"):
        caseset.load_set(database, held_out=True)


# What is alike


def test_questions_that_are_alike_are_told_the_same_ones_first(
    database: Database, embedder: Embedder
) -> None:
    add_case(database, "a", "How many days of leave do I have in a year?")
    add_case(database, "b", "how many days of annual leave do I have per year", state="proposed")
    add_case(database, "c", "How many days of leave do I have  in a year")
    add_case(database, "d", "Who carries the pager at night?")
    add_case(database, "e", "How many days of leave do I have in a year?", state="dismissed")
    alike = caseset.find_alike(database, embedder)
    assert [(pair.first.case_id, pair.second.case_id) for pair in alike] == [
        ("a", "c"),
        *[
            pair
            for pair in [(each.first.case_id, each.second.case_id) for each in alike[1:]]
            if pair in (("a", "b"), ("b", "c"))
        ],
    ]
    assert len(alike) == 3
    assert alike[0].similarity == 1.0 > alike[1].similarity >= cases.ALIKE


def test_a_follow_up_is_alike_only_after_the_same_was_said(
    database: Database, embedder: Embedder
) -> None:
    for case_id, before in (("a", "leave in Spain?"), ("b", "VPN on a Mac?")):
        add_case(database, case_id, "and how long?")
        with database.transaction() as connection:
            connection.execute(
                text("UPDATE eval_cases SET history = CAST(:said AS jsonb) WHERE case_id = :id"),
                {"id": case_id, "said": json.dumps([{"role": "user", "text": before}])},
            )
    assert caseset.find_alike(database, embedder) == []


# Where pages went


def test_a_page_where_it_was_is_no_news(database: Database) -> None:
    write_page(database, "leave.md", LEAVE)
    add_case(database, gold_any=[Gold(doc="leave.md", span=SPAN)])
    add_case(database, "c2")  # which no page answers
    before = load(database)
    assert caseset.follow_pages(database) == Followed()
    assert load(database) == before


def test_a_page_that_was_moved_is_followed_by_its_text(database: Database) -> None:
    write_page(database, "leave.md", LEAVE)
    write_page(database, "people/leave.md", LEAVE)
    remove_page(database, "leave.md")
    add_case(database, gold_any=[Gold(doc="leave.md", span=SPAN)])
    add_case(database, "c2", gold_all=[Gold(doc="leave.md"), Gold(doc="leave.md", span="a year")])
    assert caseset.follow_pages(database) == Followed(
        moved=tuple(
            Move(case_id=case_id, doc="leave.md", to="people/leave.md")
            for case_id in ("c1", "c2", "c2")
        )
    )
    assert load(database).gold_any == (Gold(doc="people/leave.md", span=SPAN, source="wiki"),)
    assert [gold.doc for gold in load(database, "c2").gold_all] == ["people/leave.md"] * 2
    assert caseset.follow_pages(database) == Followed()


def test_what_answers_is_followed_where_its_page_was_renamed_and_edited(
    database: Database,
) -> None:
    write_page(database, "leave.md", LEAVE)
    add_case(database, gold_any=[Gold(doc="leave.md", span=SPAN)])
    remove_page(database, "leave.md")
    write_page(
        database,
        "time-off.md",
        "# Time off\n\nNews.\n\n- Everybody has **28\n  days** of leave a year.\n",
    )  # as the metrics read it, in other markup
    write_page(database, "vpn.md", VPN)
    assert caseset.follow_pages(database).moved == (
        Move(case_id="c1", doc="leave.md", to="time-off.md"),
    )
    (gold,) = load(database).gold_any
    with database.transaction() as connection:
        body = connection.execute(
            text("SELECT text FROM documents WHERE path = 'time-off.md'")
        ).scalar_one()
    assert metrics.hits(Result(doc="time-off.md", text=body), gold)


def test_what_answers_is_followed_from_a_page_that_is_still_there(database: Database) -> None:
    write_page(database, "handbook.md", VPN)
    write_page(database, "leave.md", LEAVE)
    add_case(database, gold_any=[Gold(doc="handbook.md", span=SPAN)])
    assert caseset.follow_pages(database).moved[0].to == "leave.md"


def test_a_file_that_was_renamed_is_followed_after_the_next_ingest(
    indexed: Database, embedder: Embedder, tmp_path: Path
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(SAMPLE / "docs", docs)
    (docs / "reference" / "error-codes.md").rename(docs / "codes.md")
    casefiles.import_file(indexed, SAMPLE / "cases.jsonl", "ann")
    url = "https://wiki.halvermeer.example"
    reads = read_folder(docs, base_url=url)
    indexing.ingest(indexed, embedder, reads, source="wiki", tuning=DEFAULT, prune=True)
    followed = caseset.follow_pages(indexed)
    assert {move.to for move in followed.moved} == {"codes.md"}
    assert {move.case_id for move in followed.moved} == {"s-001", "s-002", "s-007"}
    assert (followed.orphaned, caseset.follow_pages(indexed)) == ((), Followed())


@pytest.mark.parametrize(
    ("span", "why"),
    [(SPAN, "two pages have it"), ("28 days", "so few words tell no page"), (None, "no words")],
)
def test_what_may_stand_in_several_places_is_not_followed(
    database: Database, span: str | None, why: str
) -> None:
    for path in ("one.md", "two.md") if span == SPAN else ("one.md",):
        write_page(database, path, f"{LEAVE}\nThis is {path}.\n")
    add_case(database, gold_any=[Gold(doc="leave.md", span=span)])
    assert caseset.follow_pages(database) == Followed(orphaned=("c1",)), why
    assert load(database).gold_any == (Gold(doc="leave.md", span=span),)


def test_an_orphan_is_told_once_and_found_again_when_its_page_is_back(database: Database) -> None:
    write_page(database, "leave.md", LEAVE)
    add_case(database, gold_any=[Gold(doc="leave.md", span=SPAN)])
    remove_page(database, "leave.md")
    assert caseset.follow_pages(database) == Followed(orphaned=("c1",))
    since = load(database).orphaned_at
    assert since is not None
    assert caseset.follow_pages(database) == Followed()
    assert load(database).orphaned_at == since
    assert [case.case_id for case in caseset.load_set(database).cases] == ["c1"]  # and will fail
    write_page(database, "leave.md", LEAVE)
    assert caseset.follow_pages(database) == Followed(found_again=("c1",))
    assert load(database).orphaned_at is None


def test_a_page_edited_so_that_it_no_longer_answers_makes_an_orphan(database: Database) -> None:
    write_page(database, "leave.md", LEAVE)
    add_case(database, gold_any=[Gold(doc="leave.md", span=SPAN)])
    write_page(database, "leave.md", LEAVE.replace("has 28 days", "has *28*\n days"))
    assert caseset.follow_pages(database).orphaned == ()  # the same words
    edited = LEAVE.replace("28", "30")
    write_page(database, "leave.md", edited)
    (gold,) = load(database).gold
    assert metrics.hits(Result(doc="leave.md", text=edited), gold)  # which most of it does
    assert caseset.follow_pages(database).orphaned == ("c1",)


def test_a_page_of_the_same_path_in_another_source_is_no_place(database: Database) -> None:
    write_page(database, "index.md", VPN)
    write_page(database, "index.md", LEAVE, source="handbook")
    add_case(database, gold_any=[Gold(doc="index.md", source="wiki")])
    add_case(database, "c2", gold_any=[Gold(doc="index.md", span=SPAN, source="wiki")])
    add_case(database, "c3", gold_any=[Gold(doc="index.md", span=SPAN)])  # of whichever
    assert caseset.follow_pages(database).moved == (
        Move(case_id="c2", doc="index.md", to="index.md"),
    )
    assert load(database, "c2").gold_any == (Gold(doc="index.md", span=SPAN, source="handbook"),)
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM documents WHERE source = 'wiki'"))
    write_page(database, "vpn.md", VPN)
    assert caseset.follow_pages(database).moved == (
        Move(case_id="c1", doc="index.md", to="vpn.md"),
    )
    assert load(database).gold_any == (Gold(doc="vpn.md", source="wiki"),)


def test_of_pages_of_one_path_each_is_followed_where_it_went(database: Database) -> None:
    sources = {"wiki": LEAVE, "handbook": VPN}
    named = [questions.add_page(database, source, "a.md") for source in sources]
    for source, body in sources.items():
        write_page(database, "a.md", body, source=source)
        add_case(database, source, gold_any=[Gold(doc="a.md", source=source)])
    flagged = ask_flagged(database, page=named[0])
    flag(database, flagged.trace_ids[0], "U2", named[1])
    for source, body in sources.items():
        write_page(database, f"{source}.md", body)
    remove_page(database, "a.md")
    assert {(move.case_id, move.to) for move in caseset.follow_pages(database).moved} == {
        (case_id, f"{source}.md") for source in sources for case_id in (source, flagged.case_id)
    }
    flag(database, flagged.trace_ids[0], "U3")
    assert {gold.doc for gold in load(database, flagged.case_id).gold} == {
        "wiki.md",
        "handbook.md",
    }


def test_a_page_that_voters_have_named_is_followed_for_good(database: Database) -> None:
    page = questions.add_page(database, "wiki", "leave.md")
    write_page(database, "leave.md", LEAVE)
    case = ask_flagged(database, page=page)
    write_page(database, "people/leave.md", LEAVE)
    remove_page(database, "leave.md")
    assert len(caseset.follow_pages(database).moved) == 1
    feedback.vote(database, case.trace_ids[0], "U2", -1)
    assert load(database, case.case_id).gold == (Gold(doc="people/leave.md", source="wiki"),)
    named = feedback.load_complaint(database, case.trace_ids[0], "U1")
    assert named.document_id is not None


def test_one_of_several_pages_that_answer_is_enough_and_all_that_are_needed_are(
    database: Database,
) -> None:
    write_page(database, "leave.md", LEAVE)
    golds = [Gold(doc="leave.md", span=SPAN), Gold(doc="gone.md", span="28")]
    add_case(database, "any", gold_any=golds)
    add_case(database, "all", gold_all=golds)
    assert caseset.follow_pages(database).orphaned == ("all",)
    since = load(database, "all").orphaned_at
    write_page(database, "people/leave.md", LEAVE)
    remove_page(database, "leave.md")
    followed = caseset.follow_pages(database)
    assert {move.case_id for move in followed.moved} == {"any", "all"}
    assert (followed.orphaned, load(database, "all").orphaned_at) == ((), since)


def test_cases_that_were_dismissed_are_left_alone(database: Database) -> None:
    add_case(database, gold_any=[Gold(doc="gone.md")], state="dismissed")
    add_case(database, "c2", gold_any=[Gold(doc="gone.md")], state="proposed")
    assert caseset.follow_pages(database).orphaned == ("c2",)


def test_pages_of_other_tenants_are_no_place(database: Database, database_url: str) -> None:
    add_case(database, gold_any=[Gold(doc="leave.md", span=SPAN)])
    other = Database(database_url, tenant_id="other")
    write_page(other, "leave.md", LEAVE)
    write_page(other, "people/leave.md", LEAVE)
    other.close()
    assert caseset.follow_pages(database).orphaned == ("c1",)
