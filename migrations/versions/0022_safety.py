"""Which pages hold secrets, by kind, so that their owners are told; never the secrets themselves.

A new column with a constant default: a short lock, nothing is rewritten.
"""

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.execute("ALTER TABLE documents ADD COLUMN secret_kinds text[] NOT NULL DEFAULT '{}'")
