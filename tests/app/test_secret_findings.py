"""What `footnote doctor` says of pages that hold secrets."""

from sqlalchemy import text

from app import secret_findings
from app.findings import Finding
from retrieval.db import Database
from tests.app import questions


def add(database: Database, path: str, owner: str | None, *kinds: str) -> None:
    document_id = questions.add_page(database, "wiki", path)
    with database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE documents SET owner = :owner, secret_kinds = :kinds
                WHERE document_id = :document_id
            """),
            {"owner": owner, "kinds": list(kinds), "document_id": document_id},
        )


def examine(database: Database) -> list[Finding]:
    with database.transaction() as connection:
        return list(secret_findings.examine(connection))


def test_who_has_most_pages_with_secrets_comes_first(database: Database) -> None:
    add(database, "clean.md", "infra")
    add(database, "one.md", None, "password")
    add(database, "two.md", "infra\x1b[2J", "password")
    add(database, "three.md", "infra\x1b[2J", "AWS access key", "password")
    first, second = examine(database)
    assert first.level == second.level == "note"
    assert first.text == (
        "2 pages of infra[2J hold secrets: wiki/three.md (AWS access key, password), wiki/two.md "
        "(password). They are masked here, not at the source: take them out there, and replace "
        "them."
    )
    assert second.text.startswith("1 page of nobody known holds secrets: wiki/one.md (password).")


def test_without_secrets_all_is_well(database: Database) -> None:
    add(database, "clean.md", "infra")
    (finding,) = examine(database)
    assert (finding.level, finding.text) == ("ok", "No secret was found in the documents.")


def test_of_many_pages_the_first_are_named(database: Database) -> None:
    for number in range(12):
        add(database, f"{number:02}.md", "infra", "password")
    (finding,) = examine(database)
    assert "12 pages of infra hold secrets: wiki/00.md (password), " in finding.text
    assert "wiki/09.md (password), and 2 more. They" in finding.text
