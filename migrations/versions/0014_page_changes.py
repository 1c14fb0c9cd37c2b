"""What happened to pages, so that a drop of the nightly figure can be told with its cause.

A trigger writes it down, whatever code changes documents. Text is kept as a hash alone, by which a
page that was moved, or put back as it was, is known again. A new date alone is no change.

New table, function and trigger; locks documents for a moment, rewrites nothing.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0014"
down_revision = "0013"

TABLE = """
CREATE TABLE page_changes (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    audience text[] NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text NOT NULL CHECK (kind IN ('added', 'changed', 'removed')),
    source text NOT NULL,
    path text NOT NULL,
    title text NOT NULL,
    text_hash text NOT NULL,  -- md5 of the text, without title and dates; of one removed, the last
    title_before text,  -- NULL of a page that was added, as is the next
    hash_before text
);
CREATE INDEX page_changes_changed_at ON page_changes (tenant_id, changed_at);
CREATE INDEX page_changes_path ON page_changes (tenant_id, path);

CREATE FUNCTION note_page_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    page documents := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO page_changes (tenant_id, audience, kind, source, path, title, text_hash,
                              title_before, hash_before)
    VALUES (page.tenant_id, page.audience,
            CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END,
            page.source, page.path, page.title, md5(page.text), OLD.title, md5(OLD.text));
    RETURN NULL;
END $$;

CREATE TRIGGER note_page_change AFTER INSERT OR DELETE ON documents
    FOR EACH ROW EXECUTE FUNCTION note_page_change();
CREATE TRIGGER note_page_update AFTER UPDATE ON documents
    FOR EACH ROW WHEN ((OLD.title, OLD.text) IS DISTINCT FROM (NEW.title, NEW.text))
    EXECUTE FUNCTION note_page_change();
"""

AUDIENCE = """
CREATE POLICY audience ON page_changes AS RESTRICTIVE TO footnote_app
    USING (audience && string_to_array(current_setting('footnote.audiences', true), ','))
    WITH CHECK (true);
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute(POLICY.format(table="page_changes"))
    op.execute(AUDIENCE)
