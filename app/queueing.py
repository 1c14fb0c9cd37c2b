"""The queue of questions: procrastinate's jobs, in the database of the traces.

A job holds ids alone, and goes when it ends. Those that wait are taken up in the order of rounds,
as in fair queueing by virtual start times: each person and each channel has one question in a
round, so that whoever asks many waits for their own and not for others' to end.
"""

from dataclasses import asdict, dataclass
from datetime import timedelta
from hashlib import sha256
from uuid import UUID

from procrastinate import App, SyncPsycopgConnector
from sqlalchemy import Connection, text

from app.records import Arrival
from retrieval.db import Database

TASK = "answer"
AT_ONCE = 0  # a round before all others: of what is only to be told
STALLED_S = 20  # without a sign of life, a worker is dead; it gives one every 5 s; chosen

# It only defers, in transactions of ours, so it is never opened.
_DEFERRING = App(connector=SyncPsycopgConnector())


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What there is to do, as a question comes that is none of it yet."""

    waiting: int
    round: int  # of the question that comes, from 1


def name(deployment: str) -> str:
    """The queue of a deployment, by what tells it from others in its database.

    PostgreSQL has room for 40 characters of it beside the name of procrastinate's channel.
    """
    return f"answers-{sha256(deployment.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """All that a job holds."""

    trace_id: str
    tenant_id: str
    person: str  # who asks, and where: by these its round is found
    place: str


def build_ids(trace_id: UUID, tenant_id: str, arrival: Arrival) -> Ids:
    """What the job of a question holds."""
    return Ids(
        trace_id=str(trace_id),
        tenant_id=tenant_id,
        person=f"{arrival.team_id} {arrival.user_id}",
        place=f"{arrival.team_id} {arrival.channel_id}",
    )


def find_load(connection: Connection, queue: str, ids: Ids) -> Load:
    """How much is waiting, and in which round a question comes that is in no job yet.

    It is behind the last one of its person and of its channel, and no earlier than what waits to
    be taken up: what is put off may be so for long, and all that comes would be before the rest.
    """
    row = connection.execute(
        text("""
            SELECT count(*) FILTER (WHERE is_due) AS waiting,
                   1 + greatest(
                       min(round) FILTER (WHERE is_due AND round > 0) - 1,
                       max(round) FILTER (WHERE person = :person OR place = :place),
                       0) AS round
            FROM (
                SELECT -priority AS round, args ->> 'person' AS person, args ->> 'place' AS place,
                       status = 'todo' AND coalesce(scheduled_at <= now(), true) AS is_due
                FROM procrastinate_jobs
                WHERE queue_name = :queue AND status IN ('todo', 'doing')
            ) AS open
        """),
        {"queue": queue, "person": ids.person, "place": ids.place},
    ).one()
    return Load(waiting=row.waiting, round=row.round)


def defer(connection: Connection, queue: str, ids: Ids, *, round: int = AT_ONCE) -> None:
    """Have a worker take up a question once the transaction is over.

    Several jobs of one question may be at work at once: of their attempts the latest counts.
    """
    _DEFERRING.configure_task(
        TASK,
        queue=queue,
        priority=-round,
        connection=connection.connection.driver_connection,
        allow_unknown=True,
    ).defer(**asdict(ids))


def count_ahead(database: Database, queue: str, trace_id: UUID) -> int | None:
    """How many questions there are before one that waits, with those at work; None: it does not."""
    with database.unrestricted.transaction() as connection:
        return connection.execute(
            text("""
                SELECT (SELECT count(*) FROM procrastinate_jobs
                        WHERE queue_name = :queue AND (status = 'doing' OR status = 'todo'
                              AND (-priority, id) < (-own.priority, own.id)))
                FROM procrastinate_jobs AS own
                WHERE args ->> 'trace_id' = :trace_id AND status = 'todo'
                ORDER BY id LIMIT 1
            """),
            {"queue": queue, "trace_id": str(trace_id)},
        ).scalar()


def count_workers(database: Database) -> int:
    """How many workers have given a sign of life lately."""
    with database.unrestricted.transaction() as connection:
        counted: int = connection.execute(
            text("""
                SELECT count(*) FROM procrastinate_workers
                WHERE last_heartbeat > now() - CAST(:stalled AS interval)
            """),
            {"stalled": timedelta(seconds=STALLED_S)},
        ).scalar_one()
    return counted


def take_over(database: Database, queue: str) -> int:
    """Have what dead workers were at taken up by others; how much.

    In one statement, unlike with procrastinate's retry_job: of two that do it at once, the later
    would take a job from who has just begun it.
    """
    return _send_back(
        database,
        """queue_name = :queue AND NOT EXISTS (
            SELECT FROM procrastinate_workers AS workers
            WHERE workers.id = worker_id
            AND last_heartbeat > now() - CAST(:stalled AS interval))""",
        queue=queue,
        stalled=timedelta(seconds=STALLED_S),
    )


def hand_back(database: Database, worker_id: int, job_ids: list[int]) -> int:
    """Have what a worker is no longer at taken up by others, unless it has been; how much."""
    return _send_back(
        database,
        "worker_id = :worker_id AND id = ANY(:job_ids)",
        worker_id=worker_id,
        job_ids=job_ids,
    )


def list_at_work(database: Database, worker_id: int) -> list[int]:
    """The jobs that a worker is at, as the queue has it."""
    with database.unrestricted.transaction() as connection:
        return list(
            connection.execute(
                text("""
                    SELECT id FROM procrastinate_jobs
                    WHERE worker_id = :worker_id AND status = 'doing'
                """),
                {"worker_id": worker_id},
            ).scalars()
        )


def _send_back(database: Database, condition: str, **values: object) -> int:
    with database.unrestricted.transaction() as connection:
        sent = connection.execute(
            text(f"""
                UPDATE procrastinate_jobs
                SET status = 'todo', attempts = attempts + 1, scheduled_at = NULL,
                    worker_id = NULL, abort_requested = false
                WHERE status = 'doing' AND {condition}
            """),
            values,
        )
    return sent.rowcount
