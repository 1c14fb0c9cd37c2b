"""`footnote verify`, as a person types it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from app.cli import main
from retrieval import audiences
from retrieval.db import Database
from tests.app.questions import add_page


@pytest.fixture
def pages(database: Database) -> Database:
    """Two sources with a page of one title in each, and one that few may read."""
    for source, path, title in (
        ("wiki", "hr/leave.md", "Leave"),
        ("wiki", "hr/travel.md", "Travel policy"),
        ("git", "docs/travel.md", "Travel policy"),
        ("git", "hr/leave.md", "Leave of absence"),
    ):
        add(database, source, path, title)
    return database


def add(database: Database, source: str, path: str, title: str) -> None:
    dates = {"stated_on": "2022-03-01", "verified_at": "2022-03-01"}
    add_page(database, source, path, title=title, **dates)


def verify(database: Database, *arguments: str) -> Result:
    url = database.engine.url.render_as_string(hide_password=False)
    environment = {"DATABASE_URL": url, "TENANT_ID": database.tenant_id}
    return CliRunner().invoke(main, ["verify", *arguments], env=environment)


def find_confirmed(database: Database) -> dict[str, tuple[Any, ...]]:
    """What was confirmed, with who said so and since when it counts as verified."""
    with database.unrestricted.transaction() as connection:
        rows = connection.execute(
            text("SELECT * FROM documents WHERE confirmed_on IS NOT NULL ORDER BY document_id")
        )
        return {
            f"{row.source}:{row.path}": (row.confirmed_by, row.confirmed_on, row.verified_at)
            for row in rows
        }


def test_a_page_given_by_its_path_or_title_counts_as_verified_today(pages: Database) -> None:
    result = verify(pages, "hr/travel.md", "leave of ABSENCE", "--by", "Ana")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "hr/travel.md: “Travel policy” counts as verified today; it was last verified 2022-03-01",
        "hr/leave.md: “Leave of absence” counts as verified today; it was last verified 2022-03-01",
    ]
    today = datetime.now(UTC).date()
    said = ("Ana", today, today)
    assert find_confirmed(pages) == {"wiki:hr/travel.md": said, "git:hr/leave.md": said}


def test_a_name_of_several_pages_lists_them_and_verifies_none(pages: Database) -> None:
    result = verify(pages, "Leave", "Travel policy")
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr == (
        "Error: 2 pages are called 'Travel policy': docs/travel.md of git, hr/travel.md of wiki. "
        "Give a path, with --source.\n"
    )
    assert find_confirmed(pages) == {}
    assert verify(pages, "Travel policy", "--source", "git").exit_code == 0
    assert list(find_confirmed(pages)) == ["git:docs/travel.md"]


def test_a_path_comes_before_a_title(pages: Database) -> None:
    add(pages, "wiki", "Leave", "Other")
    assert verify(pages, "leave").exit_code == 0
    assert list(find_confirmed(pages)) == ["wiki:Leave"]


@pytest.mark.parametrize("name", ["hr/travell.md", "%", "hr/travel", ""])
def test_a_name_of_no_page_is_said(pages: Database, name: str) -> None:
    result = verify(pages, name)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: No page is called {name!r}. Give its path below the source's folder, its title or "
        "its address.\n"
    )


def test_what_is_no_text_is_said(pages: Database) -> None:
    result = verify(pages, "bad\udcff")
    assert result.exit_code == 1
    assert result.stderr == "Error: 'bad\\udcff' is not written in UTF-8.\n"


def test_pages_that_few_may_read_are_verified_too(pages: Database) -> None:
    with pages.unrestricted.transaction() as connection:
        (number,) = connection.execute(
            text("SELECT document_id FROM documents WHERE path = 'docs/travel.md'")
        ).one()
        audiences.assign(connection, ("user:U7",), [number])
    assert verify(pages, "docs/travel.md").exit_code == 0


def test_a_later_date_of_the_page_itself_stays_unless_it_is_to_come(pages: Database) -> None:
    today = datetime.now(UTC).date()
    for stated, expected in ((1, today + timedelta(days=1)), (2, today)):
        with pages.transaction() as connection:
            connection.execute(
                text("UPDATE documents SET stated_on = :stated_on"),
                {"stated_on": today + timedelta(days=stated)},
            )
        verify(pages, "hr/travel.md")
        ((_, _, verified_at),) = find_confirmed(pages).values()
        assert verified_at == expected


def test_a_page_may_be_given_by_its_address(pages: Database) -> None:
    with pages.transaction() as connection:
        connection.execute(
            text("UPDATE documents SET url = 'https://x.example/' || source || path")
        )
    result = verify(
        pages, "https://x.example/githr/leave.md#caps", "HTTPS://x.example/wikihr/leave.md"
    )
    assert result.exit_code == 0, result.output
    assert list(find_confirmed(pages)) == ["wiki:hr/leave.md", "git:hr/leave.md"]


def test_a_source_without_pages_is_said(pages: Database) -> None:
    result = verify(pages, "hr/travel.md", "--source", "wikki")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: No page is of a source called 'wikki'. There are pages of git, wiki.\n"
    )
