"""Votes that were taken back stay as 0: Slack may repeat the reaction that was one, minutes later,
and without a trace of its end it would count again.

The votes are read once for the constraint, under a short lock; nothing is rewritten.
"""

from alembic import op

revision = "0010"
down_revision = "0009"

CONSTRAINT = """
ALTER TABLE feedback
    DROP CONSTRAINT feedback_vote_check,
    ADD CONSTRAINT feedback_vote_check CHECK (vote IN (-1, 0, 1));  -- 0: taken back, at voted_at
"""


def upgrade() -> None:
    op.execute(CONSTRAINT)
