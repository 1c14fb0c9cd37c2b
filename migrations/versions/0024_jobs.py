"""Questions as jobs: the queue's tables, and what a trace keeps until its asker has been told.

The queue is procrastinate's; its tables are made by the migrations that it ships, up to those of
the version that this was written for, so that they are the same whichever one is installed. A later
version's are a migration of their own. Jobs hold ids alone, so their tables are under no row-level
security: a worker takes up jobs before it knows whose they are.

attempts counts those at a question: only the latest may write to its trace. outbox is what is still
to be told to the asker, arrival what the other columns do not have of how the question came.

New tables, and columns with constant defaults: short locks, rewrites nothing.
"""

from importlib import resources
from typing import Any

from alembic import op

revision = "0024"
down_revision = "0023"

LAST = "03.04.00_50_post_add_retry_failed_job_procedure.sql"  # of procrastinate 3.10

COLUMNS = """
ALTER TABLE traces
    ADD COLUMN attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN outbox jsonb,  -- NULL: nothing
    ADD COLUMN arrival jsonb NOT NULL DEFAULT '{}';

-- The job of a question: how far it is before others, and whether it is still at work.
CREATE INDEX procrastinate_jobs_trace ON procrastinate_jobs ((args ->> 'trace_id'));
"""

RIGHTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON procrastinate_jobs, procrastinate_events,
    procrastinate_workers, procrastinate_periodic_defers TO footnote_app;
GRANT USAGE ON SEQUENCE procrastinate_jobs_id_seq, procrastinate_events_id_seq,
    procrastinate_workers_id_seq, procrastinate_periodic_defers_id_seq TO footnote_app;
"""


def upgrade() -> None:
    driver: Any = op.get_bind().connection.driver_connection
    scripts = resources.files("procrastinate.sql") / "migrations"
    for script in sorted(scripts.iterdir(), key=lambda each: each.name):
        if script.name.endswith(".sql") and script.name <= LAST:
            # As it stands: its percent signs are none of ours.
            driver.execute(script.read_text(encoding="utf-8"))
    op.execute(COLUMNS)
    op.execute(RIGHTS)
