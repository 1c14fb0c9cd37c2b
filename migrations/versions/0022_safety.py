"""What is deleted or kept out for safety: secrets in pages, pages that were purged, and the index
by which the questions of a channel are counted.

Of secrets their kinds alone are kept, so that owners are told. A purged page stays out when its
source is read again.

A new column with a constant default and a new table: short locks, nothing is rewritten. Nobody can
write to traces while their index is built: about a second for a hundred thousand.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0022"
down_revision = "0021"

CHANGES = """
ALTER TABLE documents ADD COLUMN secret_kinds text[] NOT NULL DEFAULT '{}';

CREATE INDEX traces_channel ON traces (tenant_id, channel_id, asked_at);

-- Pages that nobody is to be answered from any more, whatever their source holds.
CREATE TABLE purged_pages (
    tenant_id text NOT NULL,
    source text NOT NULL,
    path text NOT NULL,
    text_hash text,  -- md5 of its text, by which a copy elsewhere is known; NULL: it was not there
    purged_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, source, path)
);
"""


def upgrade() -> None:
    op.execute(CHANGES)
    op.execute(POLICY.format(table="purged_pages"))
