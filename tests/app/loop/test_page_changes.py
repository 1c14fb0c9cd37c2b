"""What the changes of pages come to."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from app.loop import page_changes
from app.loop.page_changes import Noted, PageChange
from retrieval.db import Database


def noted(kind: str, path: str, body: str = "1", title: str = "T") -> Noted:
    return Noted(kind=kind, source="wiki", path=path, title=title, text_hash=body)  # type: ignore[arg-type]


def change(kind: str, path: str, was: str | None = None) -> PageChange:
    return PageChange(kind=kind, path=path, title="T", was=was)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("history", "comes_to"),
    [
        ([noted("added", "a.md")], [change("added", "a.md")]),
        ([noted("changed", "a.md"), noted("changed", "a.md", "2")], [change("changed", "a.md")]),
        ([noted("changed", "a.md"), noted("removed", "a.md")], [change("removed", "a.md")]),
        ([noted("added", "a.md"), noted("changed", "a.md", "2")], [change("added", "a.md")]),
        ([noted("added", "a.md"), noted("removed", "a.md")], []),
        ([noted("removed", "a.md"), noted("added", "a.md")], []),
        ([noted("removed", "a.md"), noted("added", "a.md", "2")], [change("changed", "a.md")]),
        (
            [noted("removed", "a.md"), noted("added", "b/a.md")],
            [change("moved", "b/a.md", was="a.md")],
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
    other = Noted(kind="removed", source="docs", path="a.md", title="T", text_hash="1")
    assert page_changes.fold([noted("changed", "a.md"), other]) == [
        change("changed", "a.md"),
        change("removed", "a.md"),
    ]


def test_changes_are_those_since_a_time(database: Database) -> None:
    save = text("""
        INSERT INTO documents (tenant_id, source, path, title, url, language, text, content_hash,
                               updated_at)
        VALUES ('acme', 'wiki', :path, 'T', '', 'en', :path, :path, now())
    """)
    with database.transaction() as connection:
        connection.execute(save, {"path": "old.md"})
    since = datetime.now(UTC)
    with database.transaction() as connection:
        connection.execute(save, {"path": "new.md"})
        connection.execute(text("DELETE FROM documents WHERE path = 'old.md'"))
    with database.transaction() as connection:
        assert page_changes.load(connection, since) == [
            change("added", "new.md"),
            change("removed", "old.md"),
        ]
