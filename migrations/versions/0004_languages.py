"""Languages: each document's words are stemmed in its own, and a question's in all of them.

Columns with a constant default: short locks, nothing is rewritten.
"""

from alembic import op

revision = "0004"
down_revision = "0003"

COLUMNS = """
ALTER TABLE sections ADD COLUMN language text NOT NULL DEFAULT 'english';  -- the document's
-- Those of its sections, that of the most first; counted when an ingest ends.
ALTER TABLE generations ADD COLUMN languages text[] NOT NULL DEFAULT '{english}';
"""


def upgrade() -> None:
    op.execute(COLUMNS)
