"""Questions that were passed on to people when nothing was found.

The primary key is the claim: a question is passed on once, whoever asks for it.

New table only; locks nothing, rewrites nothing.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0008"
down_revision = "0007"

TABLE = """
CREATE TABLE escalations (
    trace_id uuid PRIMARY KEY REFERENCES traces ON DELETE CASCADE,
    tenant_id text NOT NULL,
    channel_id text NOT NULL,  -- with ts: the message to those who may know
    ts text,  -- NULL until it is posted
    question text NOT NULL,  -- as passed on; the asker may word it anew later, for others' eyes
    asked_by text NOT NULL,  -- who had the question passed on
    asked_at timestamptz NOT NULL DEFAULT now(),
    resolved_by text,
    resolved_at timestamptz,
    CHECK ((resolved_by IS NULL) = (resolved_at IS NULL))
);
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute(POLICY.format(table="escalations"))
