"""What doctor says of sources and of files that are not in the index."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import text

from app import source_findings
from app.config import Settings
from retrieval import dead_letters, source_locks, source_states
from retrieval.db import Database
from retrieval.sources.reads import Skipped
from tests.app.questions import add_page

SOURCES = """
sources:
  - name: wiki
    path: wiki
    schedule: "0 * * * *"
"""
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def examine(database: Database, tmp_path: Path, sources: str | None = SOURCES) -> list[str]:
    """Level and text of each finding."""
    settings = Settings()
    if sources:
        (tmp_path / "sources.yml").write_text(sources)
        settings = Settings(sources=tmp_path / "sources.yml")
    with database.unrestricted.transaction() as connection:
        found = source_findings.examine(connection, settings)
        return [f"{finding.level}: {finding.text}" for finding in found]


def read(
    database: Database, source: str = "wiki", *, ago: timedelta = HOUR, error: str | None = None
) -> None:
    """Note that a source was read completely so long ago, and why not since."""
    with database.transaction() as connection:
        source_states.begin(connection, source, "/docs")
        source_states.complete(connection, source)
        connection.execute(
            text("UPDATE sources SET started_at = :at, completed_at = :at WHERE source = :source"),
            {"at": datetime.now(UTC) - ago, "source": source},
        )
        if error:
            source_states.fail(connection, source, error)


def test_a_source_that_was_read_is_well(database: Database, tmp_path: Path) -> None:
    read(database)
    (told,) = examine(database, tmp_path)
    assert told.startswith("ok: Source wiki was read at 20")


def test_a_source_that_was_never_read_is_told(database: Database, tmp_path: Path) -> None:
    never = "note: Source wiki was never read completely: run `footnote sync wiki`."
    assert examine(database, tmp_path) == [never]
    with database.transaction() as connection:
        source_states.begin(connection, "wiki", "/docs")  # and killed
    assert examine(database, tmp_path) == [never]


def test_a_source_that_fails_is_told_with_what_to_do(database: Database, tmp_path: Path) -> None:
    read(database, error="/docs is not a folder.\nGive one.")
    (told,) = examine(database, tmp_path)
    assert told.startswith("error: Source wiki was not read completely since 20")
    assert told.endswith(": /docs is not a folder. Give one.")


def test_a_sync_that_is_killed_each_time_is_told(database: Database, tmp_path: Path) -> None:
    read(database, ago=DAY)
    with source_locks.only_one(database, "wiki"):
        with database.transaction() as connection:
            source_states.begin(connection, "wiki", "/docs")
        (told,) = examine(database, tmp_path)
        assert "killed" not in told  # somebody is at it
    (told,) = examine(database, tmp_path)
    assert told.startswith("error: Source wiki was begun at 20") and "was killed" in told
    assert told.endswith("run `footnote sync wiki`.")


def test_a_source_that_is_overdue_is_told(database: Database, tmp_path: Path) -> None:
    read(database, ago=DAY)
    (told,) = examine(database, tmp_path)
    assert told.startswith("error: Source wiki was due at 20")
    assert "see that `footnote serve` runs" in told
    (told,) = examine(database, tmp_path, SOURCES.replace("schedule", "#"))
    assert told.startswith("ok: ")


def test_sources_that_nobody_names_are_told(database: Database, tmp_path: Path) -> None:
    read(database)
    read(database, "old", error="It is away.")
    *_, failing, unnamed = examine(database, tmp_path)
    assert failing.startswith("error: Source old was not read completely")
    assert unnamed.startswith("note: SOURCES does not name old: ")
    assert "`footnote sync NAME --prune` removes" in unnamed
    assert len(examine(database, tmp_path, None)) == 2  # where there is no such file
    with database.transaction() as connection:
        source_states.save_root(connection, "old", str(tmp_path / "wiki"))
    *_, renamed = examine(database, tmp_path)
    assert renamed.startswith("error: Source old is named wiki now")
    assert "`footnote sync old --prune`" in renamed


def test_a_file_of_sources_that_is_wrong_is_told(database: Database, tmp_path: Path) -> None:
    (told,) = examine(database, tmp_path, "sources: []")
    assert told.startswith("error: ") and "sources.yml" in told


def test_dead_letters_are_counted_by_source_and_reason(database: Database, tmp_path: Path) -> None:
    letters = [Skipped(path=f"{n}.md", reason=f"not UTF-8 at byte {n}") for n in range(5)]
    with database.transaction() as connection:
        dead_letters.save(connection, "wiki", letters)
        dead_letters.save(connection, "desk", [Skipped(path="a\n.md", reason="empty. Fill it.")])
    many, one = examine(database, tmp_path, None)
    assert many.startswith(
        "note: 5 files of source wiki are not in the index as they are now: 0.md, 1.md, 2.md and "
        "2 more, since 20"
    )
    assert many.endswith(". Why: not UTF-8 at byte 0.")
    assert one.startswith("note: 1 file of source desk is not in the index as it is now: a .md, ")
    assert one.endswith(". Why: empty. Fill it.")


def test_pages_on_their_way_out_are_told(database: Database, tmp_path: Path) -> None:
    for number in range(1, 11):
        add_page(database, "wiki", f"{number}.md", title="T", text="x", missed_count=number % 2)
    (told,) = examine(database, tmp_path, None)
    assert told == (
        "note: 5 pages of source wiki are missing there and answered from still, until missed "
        "again: 1.md, 3.md, 5.md and 2 more."
    )


def test_pages_that_nobody_can_open_are_told(database: Database, tmp_path: Path) -> None:
    for number in range(1, 11):
        url = "file:///a" if number % 3 else "https://a"
        add_page(database, f"wiki{number % 3}", f"{number}.md", title="T", url=url, text="x")
    (told,) = examine(database, tmp_path, None)
    assert told.startswith("note: Footnotes of wiki1, wiki2 link to files on this machine, ")
    assert "base_url in SOURCES" in told
