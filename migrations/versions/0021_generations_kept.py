"""The generation before is kept beside the active one until somebody drops it.

The few rows of the table are read for the constraint; nothing is rewritten.
"""

from alembic import op

revision = "0021"
down_revision = "0020"

CONSTRAINT = """
ALTER TABLE generations
    DROP CONSTRAINT generations_state_check,
    -- ready: complete, and waiting to be switched to; kept: it was active before
    ADD CONSTRAINT generations_state_check
        CHECK (state IN ('building', 'ready', 'active', 'kept')),
    ADD COLUMN activated_at timestamptz;
"""


def upgrade() -> None:
    op.execute(CONSTRAINT)
