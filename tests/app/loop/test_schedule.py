"""When work is due, and that it is done once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest
from sqlalchemy import text

from app.loop import schedule
from app.loop.schedule import NIGHTLY, Schedule, Work, running
from retrieval.db import Database

NIGHT = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
DAILY = "0 3 * * *"


class Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class Counting:
    """Work that counts how often it was done, and may go wrong."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = 0
        self._error = error

    def __call__(self, *, progress: Callable[[int, int], None]) -> None:
        self.done += 1
        if self._error:
            raise self._error


def start(
    database: Database,
    work: Work,
    now: datetime | Clock,
    *,
    job: str = NIGHTLY,
    stop: Event | None = None,
) -> Schedule:
    clock = now if isinstance(now, Clock) else Clock(now)
    return Schedule(database, DAILY, work, stop or Event(), job=job, now=clock)


def find_rows(database: Database) -> list[tuple[datetime, bool]]:
    """The times that were begun, and whether they were ended."""
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT due_at, finished_at IS NOT NULL AS ended FROM scheduled_runs ORDER BY 1")
        )
        return [(row.due_at, row.ended) for row in rows]


def test_work_is_done_once_when_its_time_has_come(database: Database) -> None:
    clock, work = Clock(NIGHT - MINUTE), Counting()
    made = start(database, work, clock)
    assert made.run_due() is None
    clock.now = NIGHT + MINUTE
    assert made.run_due() == NIGHT
    assert made.run_due() is None
    schedule.claim(database, "sync wiki", NIGHT + DAY - schedule.KEPT - MINUTE)  # long past
    clock.now += DAY
    assert made.run_due() == NIGHT + DAY
    assert work.done == 2
    assert find_rows(database) == [(NIGHT, True), (NIGHT + DAY, True)]


def test_a_schedule_that_has_never_begun_waits_for_its_first_time(database: Database) -> None:
    work = Counting()
    assert start(database, work, NIGHT + MINUTE).run_due() is None
    assert work.done == 0


def test_a_time_that_was_missed_is_made_up_for(database: Database) -> None:
    clock, work = Clock(NIGHT - MINUTE), Counting()
    made = start(database, work, clock)
    clock.now = NIGHT
    made.run_due()
    later = start(database, work, NIGHT + DAY + 5 * MINUTE)
    assert later.run_due() == NIGHT + DAY
    assert later.run_due() is None


def test_a_time_that_is_long_past_is_not_made_up_for(database: Database) -> None:
    schedule.claim(database, NIGHTLY, NIGHT)
    schedule.finish(database, NIGHTLY, NIGHT)
    work = Counting()
    clock = Clock(NIGHT + 3 * DAY)  # it was due a day after
    weekly = Schedule(database, "0 3 * * 2", work, Event(), now=clock)
    assert weekly.run_due() is None
    assert work.done == 0


def test_the_first_night_is_made_up_for_when_it_was_stopped(database: Database) -> None:
    clock = Clock(NIGHT - MINUTE)
    stopped = start(database, Counting(schedule.Stopped("A new version comes.")), clock)
    clock.now = NIGHT
    assert stopped.run_due() is None
    work = Counting()
    assert start(database, work, NIGHT + 5 * MINUTE).run_due() == NIGHT
    assert work.done == 1
    assert find_rows(database) == [(NIGHT, True)]


def test_one_of_two_processes_does_it(database: Database) -> None:
    clock = Clock(NIGHT - MINUTE)
    begun, go_on = Event(), Event()

    def wait(*, progress: Callable[[int, int], None]) -> None:
        begun.set()
        assert go_on.wait(10)

    first, work = start(database, wait, clock), Counting()
    second = start(database, work, clock)
    clock.now = NIGHT
    thread = Thread(target=first.run_due)
    thread.start()
    assert begun.wait(10)
    assert second.run_due() is None
    go_on.set()
    thread.join()
    assert second.run_due() is None
    assert work.done == 0


def test_work_whose_process_died_is_taken_over(database: Database) -> None:
    assert schedule.claim(database, NIGHTLY, NIGHT)
    work = Counting()
    other = start(database, work, NIGHT + 4 * 60 * MINUTE)
    assert other.run_due() is None  # somebody may be at it
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE scheduled_runs SET started_at = now() - make_interval(secs => :age)"),
            {"age": schedule.CLAIM_S + 1},
        )
    assert other.run_due() == NIGHT
    assert work.done == 1


def test_each_job_has_times_of_its_own(database: Database) -> None:
    clock, nightly, sync = Clock(NIGHT - MINUTE), Counting(), Counting()
    both = [start(database, nightly, clock), start(database, sync, clock, job="sync wiki")]
    clock.now = NIGHT
    assert [each.run_due() for each in (*both, *both)] == [NIGHT, NIGHT, None, None]
    assert (nightly.done, sync.done) == (1, 1)


def test_one_that_fails_keeps_no_other_from_its_time(database: Database) -> None:
    clock, stop, done = Clock(NIGHT - MINUTE), Event(), Event()

    def work(*, progress: Callable[[int, int], None]) -> None:
        done.set()

    failing = start(database, Counting(ValueError("a page")), clock, job="sync wiki", stop=stop)
    other = start(database, work, clock, job="sync desk", stop=stop)
    clock.now = NIGHT
    with running([failing, other], stop):
        assert done.wait(10)


def test_work_that_goes_wrong_is_logged_and_not_done_again(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock, work = Clock(NIGHT - MINUTE), Counting(ValueError("a question"))
    made = start(database, work, clock)
    clock.now = NIGHT
    assert made.run_due() == NIGHT
    assert made.run_due() is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert find_rows(database) == [(NIGHT, True)]


def test_the_thread_does_what_is_due_and_ends_with_the_block(database: Database) -> None:
    schedule.claim(database, NIGHTLY, NIGHT - DAY)
    schedule.finish(database, NIGHTLY, NIGHT - DAY)
    begun, ended = Event(), Event()

    def work(*, progress: Callable[[int, int], None]) -> None:
        begun.set()
        try:
            while True:  # until the block's end is noticed
                progress(1, 600)
        finally:
            ended.set()

    stop = Event()
    with running([start(database, work, NIGHT + MINUTE, stop=stop)], stop):
        assert begun.wait(10)
    assert ended.is_set()
    # What was stopped is free to be begun by the next process.
    assert find_rows(database) == [(NIGHT - DAY, True), (NIGHT, False)]
    assert start(database, Counting(), NIGHT + 2 * MINUTE).run_due() == NIGHT


def test_a_database_that_is_away_does_not_end_the_thread(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    closed = Database(database_url.replace("test_", "gone_"), tenant_id="acme")
    looked = Event()

    class Looking(Clock):
        def __call__(self) -> datetime:
            if caplog.records:
                looked.set()
            return self.now

    stop = Event()
    with running([start(closed, Counting(), Looking(NIGHT), stop=stop)], stop):
        assert looked.wait(10)
    assert "The schedule was not looked at" in caplog.text
    closed.close()
