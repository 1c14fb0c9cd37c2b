"""Runs that come by themselves, each once whichever process is first, and the tickets they open.

eval_runs gets what the index was, and which runs were reported; those before were not. Constant
defaults: nothing is rewritten.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0015"
down_revision = "0014"

TABLES = """
-- Generation, chunker, embedder, its probe, and how many documents, sections and chunks.
ALTER TABLE eval_runs ADD COLUMN index jsonb NOT NULL DEFAULT '{}';
-- A night's runs are compared with one another, and drawn; those by hand are not among them.
ALTER TABLE eval_runs ADD COLUMN is_reported boolean NOT NULL DEFAULT false;

CREATE TABLE scheduled_runs (
    tenant_id text NOT NULL,
    job text NOT NULL,
    due_at timestamptz NOT NULL,
    started_at timestamptz DEFAULT now(),  -- NULL: it was stopped, and may be begun anew
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, job, due_at)
);

CREATE TABLE tickets (
    ticket_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    cases_name text NOT NULL,  -- of the set, as in eval_runs
    good_run_id bigint NOT NULL REFERENCES eval_runs,  -- the last before the drop
    run_id bigint NOT NULL REFERENCES eval_runs,  -- the last that the ticket tells of
    reference text,  -- where it stands, as its tracker names it; NULL until that is known
    claimed_at timestamptz DEFAULT now(),  -- until there is a reference; NULL: nobody opens it
    gone_count int NOT NULL DEFAULT 0,  -- how often in a row its tracker said that it is gone
    closed_at timestamptz
);
-- The claim: of a set at most one is open.
CREATE UNIQUE INDEX tickets_open ON tickets (tenant_id, cases_name) WHERE closed_at IS NULL;
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in ("scheduled_runs", "tickets"):
        op.execute(POLICY.format(table=table))
