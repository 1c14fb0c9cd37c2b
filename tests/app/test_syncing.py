"""Sources that are brought up to date by schedule, beside people who ask."""

import logging
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app import syncing
from app.config import Settings
from app.loop import schedule
from app.loop.schedule import Schedule, running
from retrieval import generations, source_states, switching
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.models import Models
from retrieval.retrieve import Retriever
from retrieval.source_states import SourceState
from tests.retrieval.pages import ask, build_retriever, fit, ingest, page

SOURCES = """
sources:
  - name: notes
    path: notes
    schedule: "* * * * *"
  - name: by hand
    path: archive
"""
TEXT = "# Mast\n\nThe mast of the Halvermeer ferry is painted vermilion.\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mast.md").write_text(TEXT)
    (tmp_path / "sources.yml").write_text(SOURCES)
    return Settings(sources=tmp_path / "sources.yml", footnote_home=tmp_path / "home")


def build(settings: Settings, retriever: Retriever, stop: threading.Event) -> Schedule:
    """The schedule of the notes, whose time has come."""
    (made,) = syncing.build_schedules(settings, retriever.database, retriever, stop)
    make_due(retriever.database)
    return made


def make_due(database: Database) -> None:
    """Have the notes be due, whenever they were synced last."""
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM scheduled_runs"))
    past = datetime.now(UTC) - timedelta(minutes=5)
    schedule.claim(database, "sync notes", past)
    schedule.finish(database, "sync notes", past)


def find_state(database: Database) -> SourceState:
    with database.transaction() as connection:
        (state,) = source_states.load(connection)
    return state


def test_sources_with_a_schedule_are_synced_when_they_are_due(
    settings: Settings, retriever: Retriever, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    made = build(settings, retriever, threading.Event())
    assert made.run_due()
    assert "Source notes was synced: 1 new, 0 changed, 0 removed, 0 skipped" in caplog.text
    found = retriever.search(ask("what colour is the mast?"))
    assert "mast.md" in {candidate.section.path for candidate in found}
    assert find_state(retriever.database).error is None


def test_without_sources_nothing_is_scheduled(retriever: Retriever, settings: Settings) -> None:
    nothing = settings.model_copy(update={"sources": None})
    stop = threading.Event()
    assert list(syncing.build_schedules(nothing, retriever.database, retriever, stop)) == []
    missing = settings.model_copy(update={"sources": Path("/missing/sources.yml")})
    with pytest.raises(ConfigError, match=r"sources\.yml cannot be read"):
        syncing.build_schedules(missing, retriever.database, retriever, stop)


def test_a_source_that_fails_is_logged_without_what_it_holds(
    settings: Settings, retriever: Retriever, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes").rename(tmp_path / "away")
    assert build(settings, retriever, threading.Event()).run_due()
    (record,) = caplog.records
    assert record.getMessage() == "Source notes was not synced; footnote doctor says why"
    assert record.exc_info is None
    error = find_state(retriever.database).error
    assert error and "is not a folder" in error


def test_sources_are_synced_as_they_are_named_then(
    settings: Settings, retriever: Retriever, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What narrows an audience must not be undone by a process that began before."""
    made = build(settings, retriever, threading.Event())
    file = tmp_path / "sources.yml"
    file.write_text(SOURCES.replace("path: notes", "path: notes\n    audience: channel:C1"))
    assert made.run_due()
    question = ask("what colour is the mast?")
    for audience, found in (("everyone", False), ("channel:C1", True)):
        hits = retriever.reading_as([audience]).search(question)
        assert ("mast.md" in {each.section.path for each in hits}) == found
    file.write_text(SOURCES.replace("path: notes", "path: notes\n    audience:"))
    make_due(retriever.database)
    assert made.run_due()
    error = find_state(retriever.database).error
    assert error and "sources.yml" in error and "audience" in error
    assert caplog.records[-1].getMessage().endswith("was not synced; footnote doctor says why")


def test_sources_that_come_and_go_are_noticed(
    settings: Settings, retriever: Retriever, tmp_path: Path
) -> None:
    schedules = syncing.build_schedules(settings, retriever.database, retriever, threading.Event())
    (first,) = schedules
    assert list(schedules) == [first]  # it knows since when it waits
    file = tmp_path / "sources.yml"
    file.write_text(SOURCES + '    schedule: "* * * * *"\n')
    assert len(list(schedules)) == 2
    file.write_text("sources: [")
    assert len(list(schedules)) == 2
    file.write_text(SOURCES.replace("schedule", "#"))
    assert list(schedules) == []


def test_one_that_was_stopped_is_begun_again(settings: Settings, retriever: Retriever) -> None:
    stop = threading.Event()
    stop.set()
    assert build(settings, retriever, stop).run_due() is None
    with retriever.database.transaction() as connection:
        waiting = connection.execute(
            text("SELECT count(*) FROM scheduled_runs WHERE started_at IS NULL")
        ).scalar_one()
    assert waiting == 1
    assert build(settings, retriever, threading.Event()).run_due()


@pytest.fixture
def live(database: Database, embedder: Embedder, mirrored: Embedder) -> Retriever:
    """The search of a process that began on an index of one page by the packaged model."""
    ingest(database, embedder, page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n"))
    fit(build_retriever(database, mirrored))
    models = Models(lambda generation, tuning: mirrored)
    return replace(build_retriever(database, embedder), models=models)


def find_generations(database: Database) -> list[tuple[str, str, int]]:
    """The state, model and number of lacking pages of each generation, the active one first."""
    with database.transaction() as connection:
        return [
            (each.state, each.embedder, generations.count_lacking(connection, each))
            for each in generations.load_all(connection)
        ]


def test_a_sync_keeps_to_the_model_by_which_the_index_was_built_meanwhile(
    settings: Settings, live: Retriever, mirrored: Embedder
) -> None:
    made = build(settings, live, threading.Event())
    ingest(live.database, mirrored, source="none")
    switching.drop(live.database)
    assert made.run_due()
    assert find_generations(live.database) == [("active", mirrored.name, 0)]
    assert "mast.md" in {each.section.path for each in live.search(ask("what colour?"))}


def test_a_sync_builds_the_index_by_the_model_that_is_set(
    settings: Settings, live: Retriever, embedder: Embedder, mirrored: Embedder
) -> None:
    assert build(settings, live, threading.Event()).run_due()
    assert find_generations(live.database) == [("active", embedder.name, 0)]
    other = settings.model_copy(update={"embedding_model": mirrored.name})
    assert build(other, live, threading.Event()).run_due()
    assert [each[:2] for each in find_generations(live.database)] == [
        ("active", mirrored.name),
        ("kept", embedder.name),
    ]


def test_questions_are_answered_while_a_source_is_synced(
    settings: Settings, retriever: Retriever, tmp_path: Path
) -> None:
    for number in range(4):
        (tmp_path / "notes" / f"{number}.md").write_text(f"# Buoy {number}\n\nIt is green.\n")
    stop = threading.Event()
    with running([build(settings, retriever, stop)], stop):
        while find_paths(retriever.database) < 5:
            found = retriever.retrieve(ask("what does ERR_2041 mean?"))
            assert found.kept[0].section.path == "reference/error-codes.md"


def find_paths(database: Database) -> int:
    with database.transaction() as connection:
        count: int = connection.execute(
            text("SELECT count(*) FROM documents WHERE source = 'notes'")
        ).scalar_one()
    return count
