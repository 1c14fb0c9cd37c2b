"""What the changes of pages come to."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from app.loop import page_changes
from app.loop.page_changes import Noted, PageChange
from retrieval.db import Database


def noted(
    kind: str, path: str, body: str = "1", *, was: str = "1", title: str = "T", source: str = "wiki"
) -> Noted:
    """body and was are the text now, or the last, and before."""
    return Noted(
        kind=kind,  # type: ignore[arg-type]
        source=source,
        path=path,
        title=title,
        text_hash=body,
        title_before=None if kind == "added" else "T",
        hash_before=None if kind == "added" else was,
    )


def change(kind: str, path: str, was: str | None = None) -> PageChange:
    return PageChange(kind=kind, path=path, title="T", was=was)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("history", "comes_to"),
    [
        ([noted("added", "a.md")], [change("added", "a.md")]),
        (
            [noted("changed", "a.md", "2"), noted("changed", "a.md", "3", was="2")],
            [change("changed", "a.md")],
        ),
        ([noted("changed", "a.md", "2"), noted("changed", "a.md", was="2")], []),
        (
            [noted("removed", "a.md"), noted("added", "a.md", "2"), noted("changed", "a.md")],
            [],
        ),
        (
            [noted("changed", "a.md", title="New")],
            [PageChange(kind="changed", path="a.md", title="New")],
        ),
        (
            [noted("changed", "a.md", "2"), noted("removed", "a.md", "2", was="2")],
            [change("removed", "a.md")],
        ),
        ([noted("added", "a.md"), noted("changed", "a.md", "2")], [change("added", "a.md")]),
        ([noted("added", "a.md"), noted("removed", "a.md")], []),
        ([noted("removed", "a.md"), noted("added", "a.md")], []),
        ([noted("removed", "a.md"), noted("added", "a.md", "2")], [change("changed", "a.md")]),
        (
            [noted("removed", "a.md"), noted("added", "b/a.md")],
            [change("moved", "b/a.md", was="a.md")],
        ),
        (
            [noted("removed", "a.md"), noted("added", "b.md"), noted("changed", "b.md", "2")],
            [change("moved", "b.md", was="a.md")],
        ),
        (
            [noted("changed", "a.md", "2"), noted("removed", "a.md", "2"), noted("added", "b.md")],
            [change("moved", "b.md", was="a.md")],
        ),
        (
            [noted("removed", "a.md"), noted("added", "b.md", "2")],
            [change("removed", "a.md"), change("added", "b.md")],
        ),
        (
            [noted("removed", "a.md"), noted("added", "b.md"), noted("added", "c.md")],
            [change("moved", "b.md", was="a.md"), change("added", "c.md")],
        ),
    ],
)
def test_each_page_is_told_once(history: list[Noted], comes_to: list[PageChange]) -> None:
    assert page_changes.fold(history) == comes_to


def test_one_path_in_two_sources_is_two_pages() -> None:
    other = noted("removed", "a.md", source="docs")
    assert page_changes.fold([noted("changed", "a.md", "2"), other]) == [
        change("changed", "a.md"),
        change("removed", "a.md"),
    ]


def save(database: Database, path: str) -> None:
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO documents (tenant_id, source, path, title, url, language, text,
                                       content_hash, updated_at)
                VALUES ('acme', 'wiki', :path, 'T', '', 'en', :path, :path, now())
            """),
            {"path": path},
        )


def execute(database: Database, statement: str) -> None:
    with database.transaction() as connection:
        connection.execute(text(statement))


def load(database: Database, since: datetime) -> list[PageChange]:
    with database.transaction() as connection:
        return page_changes.load(connection, since)


def test_changes_are_those_since_a_time(database: Database) -> None:
    save(database, "old.md")
    since = datetime.now(UTC)
    save(database, "new.md")
    execute(database, "DELETE FROM documents WHERE path = 'old.md'")
    assert load(database, since) == [change("added", "new.md"), change("removed", "old.md")]


def test_a_page_is_changed_by_its_title_or_text_until_that_is_put_back(database: Database) -> None:
    for path in ("dated.md", "titled.md", "written.md"):
        save(database, path)
    since = datetime.now(UTC)
    execute(database, "UPDATE documents SET updated_at = now(), content_hash = 'other'")
    assert load(database, since) == []
    execute(database, "UPDATE documents SET title = 'New' WHERE path = 'titled.md'")
    execute(database, "UPDATE documents SET text = 'New' WHERE path = 'written.md'")
    assert load(database, since) == [
        PageChange(kind="changed", path="titled.md", title="New"),
        change("changed", "written.md"),
    ]
    execute(database, "UPDATE documents SET title = 'T', text = path")
    assert load(database, since) == []
