"""The eval set and its runs, so that a change is measured on what people flagged.

New tables only; locks nothing, rewrites nothing.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0003"
down_revision = "0002"

TABLES = """
CREATE TABLE eval_cases (
    case_id text NOT NULL,
    tenant_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('proposed', 'approved')),
    type text NOT NULL,
    question text NOT NULL,
    history jsonb NOT NULL DEFAULT '[]',
    gold_any jsonb NOT NULL DEFAULT '[]',
    gold_all jsonb NOT NULL DEFAULT '[]',
    answer text NOT NULL DEFAULT '',
    trace_id uuid REFERENCES traces ON DELETE SET NULL,
    reviewer text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, case_id)
);

CREATE TABLE eval_runs (
    run_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    cases_name text NOT NULL,  -- the file or set that was run
    commit text,  -- of the code; unknown outside a checkout
    settings jsonb NOT NULL,
    means jsonb NOT NULL,
    results jsonb NOT NULL  -- every case's metrics
);
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in ("eval_cases", "eval_runs"):
        op.execute(POLICY.format(table=table))
