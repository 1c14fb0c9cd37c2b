"""Jobs and workers, straight into procrastinate's tables."""

from uuid import UUID

from sqlalchemy import text

from retrieval.db import Database


def add_worker(database: Database, *, heard_s: float) -> int:
    """A worker that gave its last sign of life so long ago."""
    with database.transaction() as connection:
        worker_id: int = connection.execute(
            text("""
                INSERT INTO procrastinate_workers (last_heartbeat)
                VALUES (now() - make_interval(secs => :heard_s)) RETURNING id
            """),
            {"heard_s": heard_s},
        ).scalar_one()
    return worker_id


def add_job(
    database: Database,
    trace_id: UUID,
    *,
    waiting_s: float = 1,
    later_s: float | None = None,
    worker_id: int | None = None,
    priority: int = -1,
) -> int:
    """The job of a question, added so long ago, to be tried so much later, or at work."""
    with database.transaction() as connection:
        job_id: int = connection.execute(
            text("""
                INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args, scheduled_at)
                VALUES ('answers', 'answer', :priority,
                        jsonb_build_object('trace_id', CAST(:trace_id AS text)),
                        now() + make_interval(secs => :later_s))
                RETURNING id
            """),
            {"priority": priority, "trace_id": str(trace_id), "later_s": later_s},
        ).scalar_one()
        if worker_id is not None:
            connection.execute(
                text("""
                    UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker_id
                    WHERE id = :job_id
                """),
                {"worker_id": worker_id, "job_id": job_id},
            )
        connection.execute(
            text("""
                UPDATE procrastinate_events SET at = now() - make_interval(secs => :waiting_s)
                WHERE job_id = :job_id AND type = 'deferred'
            """),
            {"waiting_s": waiting_s, "job_id": job_id},
        )
    return job_id
