"""Questions whose asker pressed stop while the answer grew: they have not failed.

Checks each row of traces, under a lock that lets nobody write meanwhile: seconds for millions.
"""

from alembic import op

revision = "0009"
down_revision = "0008"

CONSTRAINT = """
ALTER TABLE traces
    DROP CONSTRAINT traces_outcome_check,
    ADD CONSTRAINT traces_outcome_check
        CHECK (outcome IN ('pending', 'answered', 'abstained', 'failed', 'stopped'))
"""


def upgrade() -> None:
    op.execute(CONSTRAINT)
