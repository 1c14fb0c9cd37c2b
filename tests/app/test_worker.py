"""The worker's own life: what it takes up, what it loses, and how it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from app import queueing
from app.attempts import Again
from app.worker import MOST_FAULTS, Worker
from retrieval.db import Database
from tests.stand_ins.recording import Recording

QUEUE = queueing.name("acme")
Question = tuple[str, UUID]


class Work:
    """Records what a worker takes up, and does as told."""

    def __init__(self) -> None:
        self.begun: Recording[Question] = Recording()
        self.ended: Recording[Question] = Recording()
        self.held = Event()
        self.held.set()
        self.errors: list[Exception] = []

    def __call__(self, tenant_id: str, trace_id: UUID) -> None:
        self.begun.add((tenant_id, trace_id))
        assert self.held.wait(30)
        if self.errors:
            raise self.errors.pop(0)
        self.ended.add((tenant_id, trace_id))


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.held.set()


@contextmanager
def working(database: Database, work: Work, **more: Any) -> Iterator[Worker]:
    worker = Worker(
        database,
        work,
        **{"give_back": lambda: None, "taken_over": lambda _: None, **more},
        queue=QUEUE,
        concurrency=2,
        poll_s=0.05,
    )
    worker.start()
    yield worker
    worker.close(10)


def defer(database: Database, *, tenant_id: str = "acme", queue: str = QUEUE) -> Question:
    trace_id = uuid4()
    with database.unrestricted.transaction() as connection:
        ids = {"trace_id": str(trace_id), "tenant_id": tenant_id}
        queueing.defer(connection, queue, ids, round=1)
    return tenant_id, trace_id


def find_jobs(database: Database) -> list[Any]:
    with database.transaction() as connection:
        return list(connection.execute(text("SELECT * FROM procrastinate_jobs")).all())


def wait_for_none(database: Database) -> None:
    until = monotonic() + 10
    while find_jobs(database):
        assert monotonic() < until
        Event().wait(0.02)


def test_what_is_deferred_is_done_and_leaves_nothing(database: Database, work: Work) -> None:
    with working(database, work):
        done = [defer(database), defer(database, tenant_id="other")]
        defer(database, queue=queueing.name("of others"))
        assert sorted(work.ended.wait_for(count=2)) == sorted(done)
    (left,) = find_jobs(database)
    assert left.queue_name == queueing.name("of others")
    with database.transaction() as connection:
        for table in ("events WHERE job_id <> :left", "workers WHERE :left > 0"):
            rows = connection.execute(
                text(f"SELECT count(*) FROM procrastinate_{table}"), {"left": left.id}
            ).scalar()
            assert rows == 0


def test_no_more_is_at_work_at_once_than_is_allowed(database: Database, work: Work) -> None:
    work.held.clear()
    with working(database, work):
        for _ in range(4):
            defer(database)
        work.begun.wait_for(count=2)
        statuses = sorted(job.status for job in find_jobs(database))
        assert statuses == ["doing", "doing", "todo", "todo"]
        work.held.set()
        work.ended.wait_for(count=4)


def test_what_is_to_be_done_again_is(database: Database, work: Work) -> None:
    work.errors = [Again(0), KeyError("a fault of ours")]
    with working(database, work):
        question = defer(database)
        assert work.ended.wait_for() == (question,)
    assert work.begun.having() == (question,) * 3


def test_what_fails_for_ever_is_no_job_for_ever(database: Database, work: Work) -> None:
    defer(database)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE procrastinate_jobs SET attempts = :most"), {"most": MOST_FAULTS}
        )
    work.errors = [KeyError("a fault of ours")]
    with working(database, work):
        work.begun.wait_for()
        wait_for_none(database)


def test_a_worker_whose_connections_are_cut_goes_on(database: Database, work: Work) -> None:
    work.held.clear()
    with working(database, work) as worker:
        question = defer(database)
        work.begun.wait_for()
        with database.engine.connect() as connection:
            connection.execute(
                text("""
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()
                """)
            )
        work.held.set()
        work.ended.wait_for()
        another = defer(database)
        work.ended.wait_for(lambda each: each == another)
        wait_for_none(database)
        assert worker.look().is_ok
    assert set(work.ended.having()) == {question, another}


def test_the_question_of_a_dead_worker_is_taken_over(database: Database, work: Work) -> None:
    question = defer(database)
    with database.transaction() as connection:
        connection.execute(
            text("""
                WITH dead AS (
                    INSERT INTO procrastinate_workers (last_heartbeat)
                    VALUES (now() - interval '1 minute') RETURNING id
                )
                UPDATE procrastinate_jobs SET status = 'doing', worker_id = dead.id FROM dead
            """)
        )
    counted: Recording[int] = Recording()
    with working(database, work, taken_over=counted.add):
        assert work.ended.wait_for() == (question,)
    assert counted.having() == (1,)


def test_a_job_whose_end_was_lost_is_done_again(database: Database, work: Work) -> None:
    with working(database, work):
        work.held.clear()
        question = defer(database)
        work.begun.wait_for()
        with database.transaction() as connection:
            connection.execute(
                text("""
                    INSERT INTO procrastinate_jobs
                        (queue_name, task_name, args, status, worker_id)
                    SELECT queue_name, task_name, args, status, worker_id FROM procrastinate_jobs
                """)
            )
        work.held.set()
        assert work.ended.wait_for(count=2, timeout_s=20) == (question,) * 2
        wait_for_none(database)


def test_what_ends_late_is_not_ended_for_who_has_taken_it_over(
    database: Database, work: Work
) -> None:
    work.held.clear()
    with working(database, work):
        defer(database)
        work.begun.wait_for()
        with database.transaction() as connection:
            connection.execute(text("UPDATE procrastinate_jobs SET worker_id = NULL"))
        work.held.set()
        work.ended.wait_for()
    (job,) = find_jobs(database)
    assert (job.status, job.worker_id) == ("doing", None)


def test_what_does_not_end_is_handed_back(database: Database, work: Work) -> None:
    work.held.clear()
    asked = Event()
    with working(database, work, give_back=asked.set) as worker:
        question = defer(database)
        work.begun.wait_for()
        worker.close(0)
    assert asked.is_set()
    (job,) = find_jobs(database)
    assert (job.status, job.worker_id) == ("todo", None)
    work.held.set()
    with working(database, work):
        work.ended.wait_for(count=2)  # the thread of before, which comes too late, and the new one
        wait_for_none(database)
    assert work.begun.having() == (question,) * 2


def test_a_worker_that_was_closed_before_it_began_takes_nothing(
    database: Database, work: Work
) -> None:
    defer(database)
    with working(database, work) as worker:
        worker.close(0)
        assert not worker.look().is_ok
    assert len(find_jobs(database)) + len(work.begun.having()) >= 1
