"""How each source was read last, and what could not be.

A page is removed only when the source was read completely and has not had it twice running. The
hash of its file tells that nothing has to be converted anew; anchors is how the site names its
headings.

New columns with constant defaults and a new table: short locks, nothing is rewritten.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0019"
down_revision = "0018"

CHANGES = """
ALTER TABLE sources
    ADD COLUMN started_at timestamptz,  -- of the last sync
    ADD COLUMN completed_at timestamptz,  -- of the last one that read all of it
    ADD COLUMN error text,  -- why the last one did not; NULL where it did
    ADD COLUMN revision text;  -- of a git checkout, what was read last

ALTER TABLE documents
    ADD COLUMN missed_count integer NOT NULL DEFAULT 0,  -- complete reads in a row without it
    ADD COLUMN file_hash text,  -- of the file's bytes and of how they were read
    ADD COLUMN anchors text;

ALTER TABLE sections ADD COLUMN anchor text;  -- of its first heading, without #

-- Files that did not become documents.
CREATE TABLE dead_letters (
    tenant_id text NOT NULL,
    source text NOT NULL,
    path text NOT NULL,
    reason text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant_id, source, path)
);
"""


def upgrade() -> None:
    op.execute(CHANGES)
    op.execute(POLICY.format(table="dead_letters"))
