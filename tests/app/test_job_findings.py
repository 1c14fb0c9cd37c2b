"""What doctor says of jobs, workers, and questions that have neither."""

import pytest
from sqlalchemy import text

from app import job_findings
from retrieval.db import Database
from tests.app.jobs_kept import add_job, add_worker
from tests.app.questions import ask


def examine(database: Database) -> list[str]:
    """Level and text of each finding."""
    with database.unrestricted.transaction() as connection:
        return [f"{each.level}: {each.text}" for each in job_findings.examine(connection)]


def test_nothing_to_do_is_well(database: Database) -> None:
    assert examine(database) == ["ok: Jobs: 0 waiting, 0 at work; 0 workers."]
    ask(database, "answered")
    assert examine(database) == ["ok: Jobs: 0 waiting, 0 at work; 0 workers."]


def test_jobs_that_wait_without_a_worker_are_an_error(database: Database) -> None:
    add_job(database, ask(database, "pending"), waiting_s=30)
    add_job(database, ask(database, "pending"), waiting_s=5)
    add_worker(database, heard_s=61)
    (told,) = examine(database)
    assert told.startswith("error: Jobs: 2 waiting, the oldest for 30 s, 0 at work; 0 workers. ")
    assert "Start `footnote serve`" in told


def test_jobs_that_wait_for_long_are_noted(database: Database) -> None:
    worker_id = add_worker(database, heard_s=2)
    add_job(database, ask(database, "pending"), waiting_s=119)
    add_job(database, ask(database, "pending"), waiting_s=900, worker_id=worker_id)
    (told,) = examine(database)
    assert told == "ok: Jobs: 1 waiting, the oldest for 119 s, 1 at work; 1 worker."
    add_job(database, ask(database, "pending"), waiting_s=1_200)
    (told,) = examine(database)
    assert told.startswith("note: Jobs: 2 waiting, the oldest for 20 min, 1 at work; 1 worker.")


def test_a_job_that_is_put_off_does_not_wait(database: Database) -> None:
    add_worker(database, heard_s=2)
    add_job(database, ask(database, "pending"), waiting_s=900, later_s=60)
    (told,) = examine(database)
    assert told == "ok: Jobs: 0 waiting, 0 at work, 1 to be tried again later; 1 worker."


@pytest.mark.parametrize("is_pruned", [True, False])
def test_jobs_of_dead_workers_are_told(database: Database, is_pruned: bool) -> None:
    worker_id = add_worker(database, heard_s=61)
    add_job(database, ask(database, "pending"), worker_id=worker_id)
    if is_pruned:
        with database.transaction() as connection:
            connection.execute(text("DELETE FROM procrastinate_workers"))
    told = examine(database)[1]
    assert told.startswith("error: 1 job at work by a worker without a sign of life for over 60 s")


def test_open_questions_without_a_job_are_told(database: Database) -> None:
    lost = ask(database, "pending", days_ago=1)
    add_job(database, ask(database, "pending"))
    ask(database, "pending", days_ago=8)
    add_worker(database, heard_s=2)
    told = examine(database)[1]
    assert told.startswith(f"error: 1 question of the last 7 days open, without a job: {lost}. ")
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET surface = 'terminal'"))
    assert len(examine(database)) == 1


def test_what_nobody_is_to_tell_is_told(database: Database) -> None:
    add_worker(database, heard_s=2)
    untold = [ask(database, "answered", days_ago=day) for day in (1, 2, 3, 4)]
    add_job(database, ask(database, "answered"))
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET outbox = '{}'"))
    told = examine(database)[1]
    assert told.startswith("error: 4 answers or notices not told in Slack, without a job: ")
    assert f"{untold[0]}, {untold[1]}, {untold[2]} and 1 more. " in told
