"""What `footnote doctor` says of pages."""

import json

from sqlalchemy import text

from app import page_findings
from app.config import Settings
from retrieval.db import Database
from tests.app.questions import add_page, ask

SETTINGS = Settings(report_channel="C1")


def add(
    database: Database,
    path: str,
    title: str = "",
    *,
    source: str = "wiki",
    verified_on: str | None = None,
    **more: object,
) -> int:
    fields = {"url": f"https://{path}", "is_superseded": "superseded_by" in more, **more}
    return add_page(database, source, path, title=title or path, verified_at=verified_on, **fields)


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
        return [each.text for each in page_findings.examine(connection, SETTINGS)]


def test_of_pages_of_which_nothing_is_known_only_that_is_said(database: Database) -> None:
    assert examine(database) == []
    add(database, "a.md")
    assert examine(database) == [
        "No document says when it was last verified: their age cannot be judged."
    ]


def test_sources_without_dates_beside_dated_ones_are_named(database: Database) -> None:
    add(database, "a.md", verified_on="2099-01-01")
    for source in ("git", "drive"):
        add(database, f"{source}.md", source=source)
    add(database, "c.md")  # of a source with dates
    assert examine(database) == [
        "No page of drive, git says when it was last verified, pages of other sources do: where "
        "they differ, age does not tell which one holds."
    ]


def test_pages_verified_on_a_day_to_come_are_listed_until_they_are_corrected(
    database: Database,
) -> None:
    add(database, "a.md", verified_on="2025-01-01", stated_on="2025-01-01")
    add(database, "b.md", stated_on="2999-01-01")
    add(database, "c.md", verified_on="2099-01-01", stated_on="2999-01-01")  # confirmed meanwhile
    add(database, "d.md", verified_on="2099-01-01", stated_on="2022-01-01")
    assert examine(database)[0] == (
        "2 pages verified, by their own word, on a day that was to come when they were read: "
        "“b.md” (b.md of wiki) 2999-01-01; “c.md” (c.md of wiki) 2999-01-01. That counts as no "
        "date: correct it there."
    )


def test_stale_pages_are_listed_the_most_used_first(database: Database) -> None:
    add(database, "fresh.md", verified_on="2099-01-01")
    add(database, "a.md", "A", verified_on="2022-03-01")
    for year, verified_on in ((2023, "2022-03-01"), (2024, "2099-01-01")):  # an edition each
        add(database, f"travel-{year}.md", f"Travel policy {year}", verified_on=verified_on)
    add(database, "hr/archive/b.md", "Filed", verified_on="2022-03-01")
    add(database, "over.md", "Over", verified_on="2022-03-01", is_superseded=True)
    used = add(database, "b.md", "B", verified_on="2023-03-01")
    come_upon(database, used)
    come_upon(database, *range(100, 107), used, kept=used)
    come_upon(database, *range(100, 107), used)  # far behind, and not kept
    assert examine(database) == [
        "2 pages verified too long ago: “B” (b.md of wiki) 2023-03-01 [2 questions]; “A” (a.md of "
        "wiki) 2022-03-01. Ask their owners, then `footnote verify PAGE`."
    ]


def test_stale_pages_that_are_told_to_nobody_are_listed(database: Database) -> None:
    for path, owner in {"a.md": "IT", "b.md": "U000000005", "c.md": "HR", "d.md": None}.items():
        add(database, path, verified_on="2022-03-01", owner=owner)
    settings = Settings(experts={"HR": "S000000001", "IT": "C2"})
    with database.transaction() as connection:
        *_, said = page_findings.examine(connection, settings)
        assert said.text == (
            "2 stale pages told to nobody in Slack: “c.md” (c.md of wiki); “d.md” (d.md of wiki). "
            "Name their owners by their ids in Slack, a channel for owner or source in EXPERTS, or "
            "set REPORT_CHANNEL."
        )


def test_pages_that_no_longer_hold_are_listed_as_long_as_they_are_found(database: Database) -> None:
    add(database, "unused.md", is_superseded=True, verified_on="2099-01-01")
    add(database, "new.md", "New rules", verified_on="2099-01-01")
    old = add(database, "old.md", "Old", superseded_by="New rules")
    over = add(database, "over.md", "Over", is_superseded=True)
    come_upon(database, old, over)
    assert examine(database) == [
        "2 pages still found that no longer hold by their own word: “Old” (old.md of wiki), "
        "replaced by “New rules” [1 question]; “Over” (over.md of wiki), naming no other "
        "[1 question]. Remove them from the source, or say what replaces those that name no other."
    ]
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM documents WHERE title = 'Over'"))
    assert examine(database)[0].endswith("[1 question]. Remove them from the source.")


def test_pages_that_name_in_their_place_no_page_that_holds_are_listed(database: Database) -> None:
    for path, name in {
        "badges-a.md": "Badges B",
        "badges-b.md": "badges-a",
        "depot/forklift.md": "depot/forklift.MD",
        "ghost.md": "Pallet deposit 2030",
        "hr/archive/travel.md": "../travel.md",
        "old/leave.md": "../hr/travel.md",
        "url.md": "https://hr/travel.md",
        "elsewhere.md": "https://new-wiki.example/home",
    }.items():
        titles = {"badges-a.md": "Badges A", "badges-b.md": "Badges B"}
        add(database, path, titles.get(path, ""), superseded_by=name, verified_on="2099-01-01")
    add(database, "hr/travel.md", source="git", verified_on="2099-01-01")
    assert examine(database) == [
        "4 pages that no longer hold by their own word name in their place no page that does: "
        "“Badges A” (badges-a.md of wiki): “Badges B”, a circle; “Badges B” (badges-b.md of wiki): "
        "“Badges A”, a circle; “depot/forklift.md” (depot/forklift.md of wiki): itself; “ghost.md” "
        "(ghost.md of wiki): “Pallet deposit 2030”, no such page. Say in each which page replaces "
        "it, by title, path or address."
    ]


def test_a_page_that_is_replaced_by_one_that_does_not_hold_is_listed(database: Database) -> None:
    names = {"a": "b", "b": "c", "c": None, "d": "e", "e": "https://wiki.example/f", "g": "h"}
    for path, name in names.items():
        add(database, path, superseded_by=name, verified_on="2099-01-01")
    add(database, "h", verified_on="2099-01-01")
    assert examine(database) == [
        "2 pages that no longer hold by their own word name in their place no page that does: “a” "
        "(a of wiki): “c”, which does not hold either; “b” (b of wiki): “c”, which does not hold "
        "either. Say in each which page replaces it, by title, path or address."
    ]


def test_copies_and_pages_of_one_title_are_listed_worst_first(database: Database) -> None:
    pages = (("wiki", "a.md"), ("wiki", "b.md"), ("git", "a.md"), ("wiki", "d.md"))
    ids = [
        add(database, path, "Leave", source=source, verified_on="2099-01-01")
        for source, path in pages
    ]
    for one, other, similarity in ((0, 1, 0.9), (0, 2, 0.8)):
        with database.transaction() as connection:
            connection.execute(
                text("INSERT INTO copies VALUES (:tenant_id, :one, :other, :similarity, true)"),
                {
                    "tenant_id": database.tenant_id,
                    "one": ids[one],
                    "other": ids[other],
                    "similarity": similarity,
                },
            )
    come_upon(database, ids[2])
    assert examine(database) == [
        "2 pairs of pages that say nearly the same: “Leave” (a.md of wiki) and “Leave” (a.md of "
        "git), 80% alike [1 question]; “Leave” (a.md of wiki) and “Leave” (b.md of wiki), 90% "
        "alike. Which one holds?",
        "Several pages have one title: “Leave” (a.md of git, a.md of wiki, b.md of wiki, 1 more) "
        "[1 question]. Which one holds?",
    ]


def test_of_many_the_first_are_named(database: Database) -> None:
    for number in range(8):
        add(database, f"{number}.md", verified_on="2022-03-01")
    (said,) = examine(database)
    assert said.startswith("8 pages verified too long ago: ") and "; 3 more. " in said
