"""What `footnote doctor` says of the questions that wait and of those who work on them."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app import findings
from app.counting import count
from app.findings import Finding

SILENT_S = 60  # a worker gives a sign of life every 10 s, and is taken for dead after 30
LONG_WAIT_S = 120  # chosen: as long as who asked may be expected to look for an answer
LEFT_DAYS = 7  # for which a question that nobody answered is told; chosen
MOST = 3  # questions that are named


def examine(connection: Connection) -> Iterator[Finding]:
    """The jobs of all tenants, as one queue serves them, and the questions of this one."""
    jobs = _load_jobs(connection)
    yield _examine_queue(jobs)
    if jobs.abandoned:
        yield findings.error(
            f"{count(jobs.abandoned, 'job')} at work by a worker without a sign of life for over "
            f"{SILENT_S} s, and nobody has taken over: see that `footnote serve` or `footnote "
            "worker` runs, and what its log says of the database."
        )
    yield from _examine_forgotten(connection)
    yield from _examine_untold(connection)


def _load_jobs(connection: Connection) -> Row[Any]:
    return connection.execute(
        text("""
            WITH workers AS (
                SELECT id, last_heartbeat > now() - make_interval(secs => :silent_s) AS is_alive
                FROM procrastinate_workers
            ),
            jobs AS (
                SELECT status, coalesce(is_alive, false) AS is_held,
                       coalesce(scheduled_at > now(), false) AS is_put_off,
                       (SELECT min(at) FROM procrastinate_events
                        WHERE job_id = procrastinate_jobs.id) AS added_at
                FROM procrastinate_jobs LEFT JOIN workers ON workers.id = worker_id
            )
            SELECT count(*) FILTER (WHERE status = 'todo' AND NOT is_put_off) AS waiting,
                   count(*) FILTER (WHERE status = 'todo' AND is_put_off) AS put_off,
                   count(*) FILTER (WHERE status = 'doing' AND is_held) AS at_work,
                   count(*) FILTER (WHERE status = 'doing' AND NOT is_held) AS abandoned,
                   CAST(extract(epoch FROM now() - min(added_at) FILTER (
                       WHERE status = 'todo' AND NOT is_put_off)) AS float8) AS oldest_s,
                   (SELECT count(*) FROM workers WHERE is_alive) AS workers
            FROM jobs
        """),
        {"silent_s": SILENT_S},
    ).one()


def _examine_queue(jobs: Row[Any]) -> Finding:
    oldest = "" if jobs.oldest_s is None else f", the oldest for {_tell_age(jobs.oldest_s)}"
    put_off = f", {jobs.put_off:,} to be tried again later" if jobs.put_off else ""
    told = (
        f"Jobs: {jobs.waiting:,} waiting{oldest}, {jobs.at_work:,} at work{put_off}; "
        f"{count(jobs.workers, 'worker')}."
    )
    if not jobs.workers and (jobs.waiting or jobs.put_off):
        return findings.error(f"{told} Start `footnote serve` or `footnote worker`.")
    if jobs.oldest_s is not None and jobs.oldest_s > LONG_WAIT_S:
        return findings.note(
            f"{told} Start another `footnote worker`, raise ANSWER_WORKERS, or see in the log what "
            "takes so long."
        )
    return findings.ok(told)


def _examine_forgotten(connection: Connection) -> Iterator[Finding]:
    """Questions that nobody is to work on any more; those of a terminal have no job."""
    open_ids = _load_ids(
        connection,
        f"outcome = 'pending' AND surface = 'slack' AND asked_at > now() - interval '{LEFT_DAYS}"
        " days'",
    )
    if open_ids:
        yield findings.error(
            f"{count(len(open_ids), 'question')} of the last {LEFT_DAYS} days open, without a job: "
            f"{_name(open_ids)}. Nobody works on them any more: `footnote trace ID` tells where "
            "they were asked, and an hour later they can be asked again there."
        )


def _examine_untold(connection: Connection) -> Iterator[Finding]:
    """Answers and notices that nobody is to bring to Slack any more."""
    untold_ids = _load_ids(connection, "outbox IS NOT NULL")
    if untold_ids:
        yield findings.error(
            f"{count(len(untold_ids), 'answer')} or notices not told in Slack, without a job: "
            f"{_name(untold_ids)}. `footnote trace ID` tells who waits for them and where; see in "
            "the log what Slack had against them."
        )


def _load_ids(connection: Connection, condition: str) -> Sequence[UUID]:
    """The traces for which a condition holds and no job is there, the latest first."""
    return (
        connection.execute(
            text(f"""
                SELECT trace_id FROM traces
                WHERE {condition} AND NOT EXISTS (
                    SELECT FROM procrastinate_jobs
                    WHERE args ->> 'trace_id' = CAST(traces.trace_id AS text)
                    AND status IN ('todo', 'doing'))
                ORDER BY asked_at DESC
            """)
        )
        .scalars()
        .all()
    )


def _name(trace_ids: Sequence[UUID]) -> str:
    more = f" and {len(trace_ids) - MOST:,} more" if len(trace_ids) > MOST else ""
    return f"{', '.join(map(str, trace_ids[:MOST]))}{more}"


def _tell_age(age_s: float) -> str:
    return f"{age_s:,.0f} s" if age_s < 600 else f"{age_s / 60:,.0f} min"
