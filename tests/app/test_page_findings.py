"""What `footnote doctor` says of pages."""

import json

from sqlalchemy import text

from app import page_findings
from retrieval.db import Database
from tests.app.questions import ask


def add(database: Database, path: str, title: str = "", **fields: object) -> int:
    with database.transaction() as connection:
        document_id: int = connection.execute(
            text("""
                INSERT INTO documents (tenant_id, source, path, title, url, text, content_hash,
                                       verified_at, is_superseded, superseded_by)
                VALUES (:tenant_id, 'wiki', :path, :title, '', '', '',
                        CAST(:verified_on AS date), :is_superseded, :superseded_by)
                RETURNING document_id
            """),
            {
                "tenant_id": database.tenant_id,
                "path": path,
                "title": title or path,
                **{"verified_on": None, "is_superseded": False, "superseded_by": None, **fields},
            },
        ).scalar_one()
    return document_id


def come_upon(database: Database, *document_ids: int, kept: int | None = None) -> None:
    """A question whose candidates are sections of these pages, the first of each page 10 of it."""
    candidates = [{"document_id": each, "section_id": each * 10} for each in document_ids]
    with database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces SET candidates = CAST(:candidates AS jsonb), kept = :kept
                WHERE trace_id = :trace_id
            """),
            {
                "trace_id": ask(database),
                "candidates": json.dumps(candidates),
                "kept": [] if kept is None else [kept * 10],
            },
        )


def examine(database: Database) -> list[str]:
    with database.transaction() as connection:
        return [each.text for each in page_findings.examine(connection, 365)]


def test_of_pages_of_which_nothing_is_known_only_that_is_said(database: Database) -> None:
    assert examine(database) == []
    add(database, "a.md")
    assert examine(database) == [
        "No document says when it was last verified: their age cannot be judged."
    ]


def test_stale_pages_are_listed_the_most_used_first(database: Database) -> None:
    add(database, "fresh.md", verified_on="2099-01-01")
    add(database, "a.md", "A", verified_on="2022-03-01")
    used = add(database, "b.md", "B", verified_on="2023-03-01")
    come_upon(database, used)
    come_upon(database, *range(100, 107), used, kept=used)
    come_upon(database, *range(100, 107), used)  # far behind, and not kept
    assert examine(database) == [
        "2 pages verified too long ago: “B” (b.md) 2023-03-01 [2 questions]; “A” (a.md) "
        "2022-03-01. Ask their owners, then `footnote verify PAGE`."
    ]


def test_pages_that_no_longer_hold_are_listed_as_long_as_they_are_found(database: Database) -> None:
    add(database, "unused.md", is_superseded=True, verified_on="2099-01-01")
    old = add(database, "old.md", "Old", is_superseded=True, superseded_by="New rules")
    come_upon(database, old)
    assert examine(database) == [
        "1 page still found that no longer hold by their own word: “Old” (old.md), replaced by "
        "“New rules” [1 question]. Remove them from the source, or say what replaces them."
    ]


def test_copies_and_pages_of_one_title_are_listed_worst_first(database: Database) -> None:
    ids = [add(database, f"{name}.md", "Leave", verified_on="2099-01-01") for name in "abc"]
    for one, other, similarity in ((0, 1, 0.9), (0, 2, 0.8)):
        with database.transaction() as connection:
            connection.execute(
                text("INSERT INTO copies VALUES (:tenant_id, :one, :other, :similarity)"),
                {
                    "tenant_id": database.tenant_id,
                    "one": ids[one],
                    "other": ids[other],
                    "similarity": similarity,
                },
            )
    come_upon(database, ids[2])
    assert examine(database) == [
        "2 pairs of pages that say nearly the same: “Leave” (a.md) and “c.md”, 80% alike "
        "[1 question]; “Leave” (a.md) and “b.md”, 90% alike. Which one holds?",
        "Several pages have one title: “Leave” (3) [1 question]. Which one holds?",
    ]


def test_of_many_the_first_are_named(database: Database) -> None:
    for number in range(8):
        add(database, f"{number}.md", verified_on="2022-03-01")
    (said,) = examine(database)
    assert said.startswith("8 pages verified too long ago: ") and "; 3 more. " in said
