"""Work that comes by itself: when it is due, and that one process of many does it.

A time that came while no process ran is made up for, if it is of the last day and later than what
was last begun; a schedule that has never begun waits for its first time. Work that was stopped with
its process is begun again by the next one; so is, after CLAIM_S, work whose process died.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from cronsim import CronSim
from sqlalchemy import text

from retrieval.db import Database
from retrieval.errors import FootnoteError

NIGHTLY = "nightly"
MADE_UP = timedelta(days=1)  # how old a time may be that is made up for
CLAIM_S = 3 * 3600  # the longest that work is waited for; 600 cases take minutes
KEPT = timedelta(days=180)  # what was begun before the last time of all; chosen
POLL_S = 60  # between two looks at the claims of others
STOP_S = 5  # that the process waits for work to notice that it ends

log = logging.getLogger(__name__)


class Stopped(FootnoteError):
    """The process ends; the next one does the work."""


class Work(Protocol):
    """What is done; it calls progress now and then, and lets pass what that raises."""

    def __call__(self, *, progress: Callable[[int, int], None]) -> None: ...


class Schedule:
    """The times at which some work is due in one process."""

    def __init__(
        self,
        database: Database,
        cron: str,
        work: Work,
        stop: threading.Event,
        *,
        job: str = NIGHTLY,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Once stop is set, no work is begun, and what is begun ends where it tells progress.

        The job is the name by which processes claim the work.
        """
        self._database = database
        self._cron = cron
        self._work = work
        self._job = job
        self._now = now
        self._stop = stop
        self._started_at = now()

    def run_due(self) -> datetime | None:
        """Do the work if it is due, and no other process does; the time that was due, else None.

        Work that goes wrong is logged, and not done again before the next time.
        """
        due_at = self._find_due()
        if due_at is None or not claim(self._database, self._job, due_at):
            return None
        try:
            self._work(progress=self._check)
        except Stopped:
            release(self._database, self._job, due_at)
            log.info("%s, due at %s, was stopped", self._job, due_at)
            return None
        except Exception:
            log.exception("%s, due at %s, failed", self._job, due_at)
        finish(self._database, self._job, due_at)
        return due_at

    def find_wait(self) -> float:
        """Seconds until the next time at which it may be due."""
        upcoming = next(CronSim(self._cron, self._now()))
        return (upcoming - self._now()).total_seconds()

    def _find_due(self) -> datetime | None:
        """The last time that has come and was not ended, nor begun before this process."""
        now = self._now()
        since = max(now - MADE_UP, self._find_last() or self._started_at)
        due_at = None
        for time in CronSim(self._cron, since - timedelta(microseconds=1)):
            if time > now:
                return due_at
            due_at = time
        return due_at

    def _find_last(self) -> datetime | None:
        """The last time that was begun: until it is ended, by somebody, it is due."""
        with self._database.transaction() as connection:
            row = connection.execute(
                text("""
                    SELECT due_at, finished_at FROM scheduled_runs WHERE job = :job
                    ORDER BY due_at DESC LIMIT 1
                """),
                {"job": self._job},
            ).one_or_none()
        if row is None:
            return None
        last: datetime = row.due_at
        return last if row.finished_at is None else last + timedelta(microseconds=1)

    def _check(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise Stopped("Footnote was stopped.")


@contextmanager
def running(schedules: Iterable[Schedule], stop: threading.Event) -> Iterator[None]:
    """Do what is due while the block runs, one after another, on a thread of its own; the end of
    the block sets stop, which is that of them all.

    Which schedules there are is asked anew at each look.
    """
    thread = threading.Thread(target=_run, args=(schedules, stop), name="schedule", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_S)


def _run(schedules: Iterable[Schedule], stop: threading.Event) -> None:
    while not stop.is_set():
        current = list(schedules)
        for schedule in current:
            try:
                schedule.run_due()
            except Exception:  # the database is away; the thread must outlive that
                log.exception("The schedule was not looked at")
        stop.wait(min([POLL_S, *(schedule.find_wait() for schedule in current)]))


def claim(database: Database, job: str, due_at: datetime) -> bool:
    """Whether it is this process, of all, that does the job of this time."""
    with database.transaction() as connection:
        claimed = connection.execute(
            text("""
                INSERT INTO scheduled_runs AS old (tenant_id, job, due_at)
                VALUES (current_setting('footnote.tenant_id'), :job, :due_at)
                ON CONFLICT (tenant_id, job, due_at) DO UPDATE SET started_at = now()
                WHERE old.finished_at IS NULL
                AND coalesce(old.started_at, '-infinity')
                    < now() - make_interval(secs => :claim_s)
                RETURNING due_at
            """),
            {"job": job, "due_at": due_at, "claim_s": CLAIM_S},
        ).scalar()
    return claimed is not None


def find_finished(database: Database, due_at: datetime) -> frozenset[str]:
    """The jobs of this time that are done, or have failed."""
    with database.transaction() as connection:
        jobs = connection.execute(
            text("""
                SELECT job FROM scheduled_runs
                WHERE due_at = :due_at AND finished_at IS NOT NULL
            """),
            {"due_at": due_at},
        )
        return frozenset(jobs.scalars())


def finish(database: Database, job: str, due_at: datetime) -> None:
    """The job of this time is done, or has failed: nobody begins it again. What is long past is
    forgotten."""
    with database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE scheduled_runs SET finished_at = now()"
                " WHERE job = :job AND due_at = :due_at"
            ),
            {"job": job, "due_at": due_at},
        )
        connection.execute(
            text("DELETE FROM scheduled_runs WHERE due_at < :until"),
            {"until": due_at - KEPT},
        )


def release(database: Database, job: str, due_at: datetime) -> None:
    """Let the job of this time be begun anew."""
    with database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE scheduled_runs SET started_at = NULL"
                " WHERE job = :job AND due_at = :due_at AND finished_at IS NULL"
            ),
            {"job": job, "due_at": due_at},
        )
