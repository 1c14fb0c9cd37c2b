"""What is kept no longer than is set, deleted once a day by one process of all."""

import threading
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import text

from app import retention
from app.loop.schedule import Schedule
from retrieval.db import Database
from tests.app import questions


def build(database: Database, now: datetime) -> Schedule:
    """A process that began two days before and looks at the clock now."""
    work = partial(retention.run, database, 30, now=lambda: now)
    times = iter([now - timedelta(days=2)])
    return Schedule(
        database,
        retention.SCHEDULE,
        work,
        threading.Event(),
        job=retention.JOB,
        now=lambda: next(times, now),
    )


def count(database: Database) -> int:
    with database.transaction() as connection:
        return int(connection.execute(text("SELECT count(*) FROM traces")).scalar_one())


def test_one_process_deletes_what_is_too_old_every_night(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    for days_ago in (1, 29, 31, 400):
        questions.ask(database, question="my SSN is 078-05-1120", days_ago=days_ago)
    first, second = build(database, now), build(database, now)
    with caplog.at_level("INFO"):
        assert first.run_due() is not None
        assert second.run_due() is None
    assert count(database) == 2
    assert "Deleted as older than 30 days: {'questions': 2," in caplog.text
    assert "SSN" not in caplog.text


def test_nothing_of_another_tenant_is_deleted(database: Database) -> None:
    other = Database(database.engine.url.render_as_string(hide_password=False), tenant_id="other")
    questions.ask(other, days_ago=400)
    build(database, datetime.now(UTC)).run_due()
    assert count(other) == 1
    other.close()


def test_workspaces_are_known_by_what_is_kept_of_them_also_when_they_are_gone(
    database: Database,
) -> None:
    for tenant_id in ("T2", "E3", "other"):  # none of them has installed the app
        questions.ask(database.for_tenant(tenant_id), days_ago=400)
    assert sorted(retention.list_workspaces(database)) == ["E3", "T2"]
