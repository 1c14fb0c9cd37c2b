"""Synonyms that questions and documents suggest."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import text

from app import claims, feedback, suggesting, synonyms, traces
from app.records import Answer, Arrival, Citation
from app.suggesting import Suggestion
from retrieval.db import Database
from tests.app.test_cli import load, succeed

SECRETS = ("infra/secrets.md", "Secrets manager", "Where keys and passwords are kept.\n")
LEAVE = ("leave.md", "Annual leave", "You have 28 days. The Human Resources Team (HRT) helps.\n")


def add_pages(database: Database, *pages: tuple[str, str, str]) -> None:
    with database.transaction() as connection:
        for path, title, body in pages:
            connection.execute(
                text("""
                    INSERT INTO documents (tenant_id, source, path, title, url, text, content_hash)
                    VALUES ('acme', 'docs', :path, :title, 'https://x.example', :body, '')
                """),
                {"path": path, "title": title, "body": f"# {title}\n\n{body}"},
            )


def ask(
    database: Database,
    question: str,
    *,
    cites: tuple[str, str, str] | None = None,
    thread_ts: str = "1",
    flagged: bool = False,
) -> UUID:
    """A question that was answered from a page, or abstained from."""
    with database.transaction() as connection:
        number = connection.execute(text("SELECT count(*) FROM traces")).scalar_one()
    arrival = Arrival(
        surface="slack",
        question=question,
        team_id="T1",
        channel_id="C1",
        message_ts=str(number),
        thread_ts=thread_ts,
        user_id="U1",
    )
    trace_id = claims.claim(database, arrival)
    assert trace_id is not None
    answer = Answer(text="", abstained_because="BELOW_FLOOR")
    if cites:
        answer = Answer(text="It is so [1].", citations=(cite(cites),))
    traces.save_answer(database, trace_id, answer, settings={}, stage_ms={})
    if flagged:
        feedback.vote(database, trace_id, "U2", -1)
    return trace_id


def cite(page: tuple[str, str, str]) -> Citation:
    path, title, body = page
    return Citation(
        marker=1,
        section_id=1,
        path=path,
        title=title,
        heading_path=(title, "Getting access"),
        url="https://x.example",
        cited_text=body,
        owner=None,
        updated_at=None,
        verified_at=None,
    )


def add_case(database: Database, trace_id: UUID, doc: str, state: str = "approved") -> None:
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO eval_cases (case_id, tenant_id, state, type, question, gold_any)
                VALUES (:case_id, 'acme', :state, 'flagged', 'q', CAST(:gold AS jsonb))
            """),
            {"case_id": str(trace_id), "state": state, "gold": json.dumps([{"doc": doc}])},
        )
        connection.execute(
            text("""
                INSERT INTO case_traces (trace_id, tenant_id, case_id)
                SELECT trace_id, tenant_id, CAST(trace_id AS text)
                FROM traces WHERE trace_id = :trace_id
                ON CONFLICT (trace_id) DO UPDATE SET case_id = excluded.case_id
            """),
            {"trace_id": trace_id},
        )


def find_pairs(database: Database) -> Sequence[tuple[str, str, int]]:
    found = suggesting.suggest(database)
    return [(each.phrase, each.meaning, each.count) for each in found if each.met_in == "questions"]


def test_a_word_is_paired_with_the_heading_of_the_page_that_answered_later(
    database: Database,
) -> None:
    add_pages(database, SECRETS, LEAVE)
    ask(database, "how do I open the vault?")
    ask(database, "how do I get into the secrets manager?", cites=SECRETS)
    assert find_pairs(database) == [
        ("open", "Secrets manager", 1),  # first what the better question says
        ("open", "access", 1),
        ("vault", "Secrets manager", 1),
        ("vault", "access", 1),
    ]


def test_more_questions_come_before_fewer(database: Database) -> None:
    add_pages(database, SECRETS, LEAVE)
    for thread, question in enumerate(["who owns the vault?", "is the vault down?"]):
        ask(database, question, thread_ts=f"t{thread}")
        ask(database, "the secrets manager?", cites=SECRETS, thread_ts=f"t{thread}")
    assert find_pairs(database)[:2] == [
        ("vault", "Secrets manager", 2),
        ("vault", "access", 2),
    ]


def test_a_case_names_the_page_of_a_flagged_answer(database: Database) -> None:
    add_pages(database, SECRETS, LEAVE)
    add_case(database, ask(database, "the vault?", cites=LEAVE, flagged=True), SECRETS[0])
    assert find_pairs(database) == [("vault", "Secrets manager", 1)]


def test_a_case_whose_answer_was_right_names_no_page(database: Database) -> None:
    add_pages(database, SECRETS, LEAVE)
    flagged = ask(database, "the vault?", cites=LEAVE, flagged=True)
    add_case(database, flagged, SECRETS[0], "dismissed")
    assert find_pairs(database) == []


def test_what_the_page_or_many_pages_say_is_no_unknown_word(database: Database) -> None:
    many = [(f"{number}.md", f"Page {number}", "The vault.\n") for number in range(4)]
    add_pages(database, SECRETS, *many)
    ask(database, "which vault has passwords?")  # in four pages; in the right page
    ask(database, "secrets manager?", cites=SECRETS)
    assert find_pairs(database) == []


def test_good_answers_other_threads_and_flagged_pages_suggest_nothing(database: Database) -> None:
    add_pages(database, SECRETS, LEAVE)
    ask(database, "open the vault?", cites=LEAVE)  # nobody minded
    ask(database, "secrets manager?", cites=SECRETS)
    ask(database, "open the vault?", thread_ts="2")
    ask(database, "secrets manager?", cites=SECRETS, thread_ts="3")
    ask(database, "open the vault?", thread_ts="4")
    ask(database, "secrets manager?", cites=SECRETS, thread_ts="4", flagged=True)
    assert find_pairs(database) == []


def test_abbreviations_that_pages_define_are_suggested_and_nothing_is_added(
    database: Database, database_url: str
) -> None:
    add_pages(database, SECRETS, LEAVE)
    (found,) = suggesting.suggest(database)
    assert found == Suggestion(
        phrase="HRT", meaning="Human Resources Team", met_in="documents", count=1, doc="leave.md"
    )
    shown = succeed(database_url, "synonyms", "suggest")
    command = "footnote synonyms add HRT 'Human Resources Team'"
    assert shown == (
        f"1 × HRT is defined as “Human Resources Team”, as in leave.md\n    {command}\n"
    )
    row: Any = load(database_url, "synonyms", "suggest", "--json")
    assert row == {
        **{"phrase": "HRT", "meaning": "Human Resources Team"},
        **{"met_in": "documents", "count": 1, "doc": "leave.md"},
    }
    assert synonyms.load(database) == []


def test_what_is_a_synonym_already_is_not_suggested(database: Database) -> None:
    add_pages(database, SECRETS, LEAVE)
    ask(database, "the vault?")
    ask(database, "the secrets manager?", cites=SECRETS)
    known = [
        ("secrets manager", "Vault"),
        ("vault", "access"),
        ("hrt", "human resources team"),
    ]
    synonyms.add(database, [synonyms.build(*pair, two_way=True) for pair in known])
    assert suggesting.suggest(database) == []


def test_a_command_is_safe_to_paste() -> None:
    nasty = Suggestion(phrase="$(rm)", meaning="it's", met_in="questions", count=1, doc="a.md")
    assert nasty.command == """footnote synonyms add '$(rm)' 'it'"'"'s'"""
