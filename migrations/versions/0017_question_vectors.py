"""The vector of each question, so that questions that are alike are found without a model.

New column without a default: a short lock, nothing is rewritten.
"""

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    # Of whatever dimension the embedder in settings had.
    op.execute("ALTER TABLE traces ADD COLUMN embedding halfvec")
