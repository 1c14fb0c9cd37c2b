"""What is deleted or kept out for safety: secrets in pages, pages that were purged, who has
answered by hand, of whom anything is kept, and the index by which the questions of a channel are
counted.

Of secrets their kinds alone are kept, so that owners are told. A purged page stays out when its
source is read again.

New columns, one with a constant default, and a new table: short locks; of cases, the proposed ones
with an answer by hand are rewritten. Nobody can write to traces while their index is built: about a
second for a hundred thousand.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0022"
down_revision = "0021"

CHANGES = """
ALTER TABLE documents ADD COLUMN secret_kinds text[] NOT NULL DEFAULT '{}';

-- Whose the answer by hand is, whoever decides about the case.
ALTER TABLE eval_cases ADD COLUMN author text;
UPDATE eval_cases SET author = reviewer WHERE origin = 'reply' AND state = 'proposed';

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

-- The workspaces and organisations of which anything is kept, also after they have gone. The
-- function belongs to the owner of the tables, so that it sees all.
CREATE FUNCTION list_workspaces() RETURNS SETOF text LANGUAGE sql STABLE
SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT tenant_id FROM (
        SELECT tenant_id FROM traces
        UNION SELECT tenant_id FROM eval_cases
        UNION SELECT tenant_id FROM page_changes
    ) AS kept WHERE tenant_id ~ '^[ET][A-Z0-9]+$'
$$;
"""


def upgrade() -> None:
    op.execute(CHANGES)
    op.execute(POLICY.format(table="purged_pages"))
