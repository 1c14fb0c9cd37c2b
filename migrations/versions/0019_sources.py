"""How each source was read last, what could not be, and which pages are on their way out.

A page is removed only when the source was read completely and has not had it twice running, some
time apart. The hash of its file tells that nothing has to be converted anew; anchors is how the
site names its headings.

A page that is moved keeps its row. It is noted as gone from where it was and come to where it is,
with the text that it had, so that whoever followed pages by their texts still does.

New columns with constant defaults, a new table and another trigger: short locks, nothing is
rewritten.
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
    ADD COLUMN missed_at timestamptz,  -- the first of them
    ADD COLUMN file_hash text,  -- of the file's bytes and of how they were read
    ADD COLUMN anchors text;

-- [[offset in the text, anchor without # or null], ...], of the heading above it and of its own.
ALTER TABLE sections ADD COLUMN anchors jsonb NOT NULL DEFAULT '[]';

-- Files that did not become documents, or not the ones they are now.
CREATE TABLE dead_letters (
    tenant_id text NOT NULL,
    source text NOT NULL,
    path text NOT NULL,
    reason text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 1,
    file_hash text  -- as of documents; NULL: it is tried again each time
);
-- By a hash: a path that is too long for an index may be why there is no document.
CREATE UNIQUE INDEX dead_letters_path ON dead_letters (tenant_id, source, md5(path));
"""

MOVES = """
CREATE FUNCTION note_page_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO page_changes (tenant_id, audience_ids, document_id, kind, source, path, title,
                              text_hash, title_before, hash_before)
    VALUES (OLD.tenant_id, ARRAY[OLD.audience_id], OLD.document_id, 'removed', OLD.source, OLD.path,
            OLD.title, md5(OLD.text), OLD.title, md5(OLD.text)),
           (NEW.tenant_id,
            ARRAY(SELECT DISTINCT unnest(ARRAY[OLD.audience_id, NEW.audience_id])),
            NEW.document_id, 'added', NEW.source, NEW.path,
            OLD.title, md5(OLD.text), NULL, NULL);
    RETURN NULL;
END $$;

-- By name before note_page_update, which then tells of the page at its new place.
CREATE TRIGGER note_page_move AFTER UPDATE ON documents
    FOR EACH ROW WHEN ((OLD.source, OLD.path) IS DISTINCT FROM (NEW.source, NEW.path))
    EXECUTE FUNCTION note_page_move();
"""


def upgrade() -> None:
    op.execute(CHANGES)
    op.execute(POLICY.format(table="dead_letters"))
    op.execute(MOVES)
