"""Audiences by number, so that the policy is a comparison of integers, which may use an index.

An audience is a set of names of which one is enough: everyone, public, channel:C1, group:S1,
user:U1. Every one holds *, the name of work that reads everything. Postings get one, too: how rare
a word is would tell of pages that the asker may not read. A trace and a case may be read by who
may read every page that they were made of.

The columns by name are dropped in the same release: nothing has ever set them to anything but
everyone, which is the default of those by number. Constant defaults: nothing is rewritten. The
index of the words is built anew, so that they are still read from it alone; nobody can write to
the postings meanwhile, some seconds for a million.
"""

from alembic import op

from migrations.versions import AUDIENCE_POLICY, AUDIENCES_POLICY, TRACE_POLICY

revision = "0018"
down_revision = "0017"

BY_ID = (
    *("documents", "sections", "chunks"),
    *("lexical_postings", "identifier_postings", "page_changes"),
)
BY_IDS = ("traces", "eval_cases")
BY_TRACE = ("feedback", "escalations", "case_traces")

TABLE = """
CREATE TABLE audiences (
    audience_id integer GENERATED ALWAYS AS IDENTITY (START 100) PRIMARY KEY,
    tenant_id text,  -- NULL: every tenant's
    audience text[] NOT NULL CHECK ('*' = ANY (audience)),  -- sorted
    UNIQUE (tenant_id, audience)
);
INSERT INTO audiences (audience_id, audience) OVERRIDING SYSTEM VALUE
VALUES (0, '{*,everyone}'), (1, '{*,public}');
ALTER TABLE audiences ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audiences TO footnote_app
    USING (tenant_id IS NULL OR tenant_id = current_setting('footnote.tenant_id', true))
    WITH CHECK (tenant_id = current_setting('footnote.tenant_id', true));
GRANT SELECT, INSERT ON audiences TO footnote_app;

-- Called in a subquery, so once a statement.
CREATE FUNCTION readable_audiences() RETURNS integer[] LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT coalesce(array_agg(audience_id), '{}') FROM audiences
        WHERE audience && string_to_array(current_setting('footnote.audiences', true), ','));

DROP INDEX lexical_postings_term;
DROP INDEX identifier_postings_identifier;
"""

CHANGES = """
CREATE INDEX lexical_postings_term
    ON lexical_postings (generation_id, term) INCLUDE (section_id, frequency, audience_id);
CREATE INDEX identifier_postings_identifier
    ON identifier_postings (generation_id, identifier) INCLUDE (section_id, audience_id);

CREATE OR REPLACE FUNCTION note_page_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    page documents := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO page_changes (tenant_id, audience_id, kind, source, path, title, text_hash,
                              title_before, hash_before)
    VALUES (page.tenant_id, page.audience_id,
            CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END,
            page.source, page.path, page.title, md5(page.text), OLD.title, md5(OLD.text));
    RETURN NULL;
END $$;
"""


def upgrade() -> None:
    op.execute(TABLE)
    for table in BY_ID:
        if not table.endswith("_postings"):
            op.execute(f"DROP POLICY audience ON {table}")
            op.execute(f"ALTER TABLE {table} DROP COLUMN audience")
        op.execute(f"ALTER TABLE {table} ADD COLUMN audience_id integer NOT NULL DEFAULT 0")
        op.execute(AUDIENCE_POLICY.format(table=table))
    for table in BY_IDS:
        op.execute(f"ALTER TABLE {table} ADD COLUMN audience_ids integer[] NOT NULL DEFAULT '{{}}'")
        op.execute(AUDIENCES_POLICY.format(table=table))
    for table in BY_TRACE:
        op.execute(TRACE_POLICY.format(table=table))
    op.execute(CHANGES)
