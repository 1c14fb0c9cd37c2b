"""Synonyms: what people call a thing, and what the documents call it.

One row a direction, so that looking up a phrase is one `=`, and a one-way synonym is one row less.

A new table only; locks nothing, rewrites nothing.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0005"
down_revision = "0004"

TABLE = """
CREATE TABLE synonyms (
    synonym_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- in the order of adding
    tenant_id text NOT NULL,
    phrase text NOT NULL,  -- where this stands in a question,
    meaning text NOT NULL,  -- this is searched for as well; both as they were typed
    phrase_key text NOT NULL,  -- the same two in normal form
    meaning_key text NOT NULL,
    UNIQUE (tenant_id, phrase_key, meaning_key)
);
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute(POLICY.format(table="synonyms"))
