"""Traces and feedback: what explains one answer later, and what people thought of it.

The unique key on team, channel and message is the claim: one question is one row, whichever
process or delivery comes first.

New tables only; locks nothing, rewrites nothing.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0002"
down_revision = "0001"

TABLES = """
CREATE TABLE traces (
    trace_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id text NOT NULL,
    surface text NOT NULL CHECK (surface IN ('slack', 'terminal')),
    team_id text,
    channel_id text,
    message_ts text,
    thread_ts text,
    user_id text,
    asked_at timestamptz NOT NULL DEFAULT now(),
    question text NOT NULL,
    queries text[] NOT NULL DEFAULT '{}',
    candidates jsonb NOT NULL DEFAULT '[]',
    kept bigint[] NOT NULL DEFAULT '{}',  -- section ids, best first
    answer text,
    citations jsonb NOT NULL DEFAULT '[]',
    abstained_because text,
    settings jsonb NOT NULL DEFAULT '{}',
    stage_ms jsonb NOT NULL DEFAULT '{}',
    tokens jsonb NOT NULL DEFAULT '{}',
    outcome text NOT NULL DEFAULT 'pending'
        CHECK (outcome IN ('pending', 'answered', 'abstained', 'failed')),
    error_class text,
    answer_ts text[] NOT NULL DEFAULT '{}',  -- of each Slack message that carries the answer
    completed_at timestamptz,
    UNIQUE (tenant_id, team_id, channel_id, message_ts)
);
CREATE INDEX traces_asked_at ON traces (tenant_id, asked_at);
CREATE INDEX traces_thread ON traces (tenant_id, channel_id, thread_ts);

CREATE TABLE feedback (
    trace_id uuid NOT NULL REFERENCES traces ON DELETE CASCADE,
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    vote smallint NOT NULL CHECK (vote IN (-1, 1)),
    voted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (trace_id, user_id)
);
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in ("traces", "feedback"):
        op.execute(POLICY.format(table=table))
