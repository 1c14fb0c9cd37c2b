"""Generations beside the active one: those that are complete and wait, and those of before.

Any number of them may stand there until somebody switches to one or drops it.

The few rows of generations are read for the constraint; nothing is rewritten.
"""

from alembic import op

revision = "0021"
down_revision = "0020"

CHANGES = """
ALTER TABLE generations
    DROP CONSTRAINT generations_state_check,
    DROP CONSTRAINT generations_tenant_id_state_key,
    -- ready: complete, and waiting to be switched to; kept: it was active before
    ADD CONSTRAINT generations_state_check
        CHECK (state IN ('building', 'ready', 'active', 'kept')),
    ADD COLUMN activated_at timestamptz;  -- for the last time
CREATE UNIQUE INDEX generations_state ON generations (tenant_id, state)
    WHERE state IN ('building', 'active');
"""


def upgrade() -> None:
    op.execute(CHANGES)
