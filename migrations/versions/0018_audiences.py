"""Audiences by number, so that the policy is a comparison of integers, which may use an index.

An audience is a set of names of which one is enough: everyone, public, channel:C1, group:S1,
user:U1. Every one holds *, the name of work that reads everything. Postings get one, too: how rare
a word is would tell of pages that the asker may not read; so would the size of the index, which is
therefore counted for each audience apart. A trace and a case may be read by who may read every page
that they were made of; triggers see to that, whatever code writes them, and see that they follow
when a page gets another audience.

The columns by name are dropped in the same release: nothing has ever set them to anything but
everyone, which is the default of those by number. Constant defaults: but for traces and cases,
which are read by who may read everyone's pages from now on, nothing is rewritten; those take about
a second for 10,000. The index of the words is built anew, so that they are still read from it
alone; nobody can write to the postings meanwhile, some seconds for a million.
"""

from alembic import op

from migrations.versions import AUDIENCE_POLICY, AUDIENCES_POLICY, POLICY, TRACE_POLICY

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
    IF TG_OP = 'INSERT' THEN  -- what stood there before is not more public than this
        UPDATE page_changes SET audience_id = page.audience_id
        WHERE tenant_id = page.tenant_id AND source = page.source AND path = page.path;
    END IF;
    INSERT INTO page_changes (tenant_id, audience_id, kind, source, path, title, text_hash,
                              title_before, hash_before)
    VALUES (page.tenant_id, page.audience_id,
            CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END,
            page.source, page.path, page.title, md5(page.text), OLD.title, md5(OLD.text));
    RETURN NULL;
END $$;
"""

PARTS = """
-- What each audience has of a generation: how rare a word is, and how long a section is beside the
-- others, tells of nothing else.
CREATE TABLE generation_parts (
    tenant_id text NOT NULL,
    generation_id bigint NOT NULL REFERENCES generations ON DELETE CASCADE,
    audience_id integer NOT NULL,
    language text NOT NULL,
    section_count integer NOT NULL,
    word_count double precision NOT NULL,  -- of all those sections
    PRIMARY KEY (generation_id, audience_id, language)
);
INSERT INTO generation_parts
SELECT tenant_id, generation_id, 0, language, count(*), sum(word_count)
FROM sections GROUP BY tenant_id, generation_id, language;
"""

# The functions belong to the owner of the tables, so that they see all pages, whoever writes.
FOLLOWING = """
ALTER TABLE traces ADD COLUMN document_ids bigint[] NOT NULL DEFAULT '{}';  -- that it was made of
CREATE INDEX traces_document_ids ON traces USING gin (document_ids);

CREATE FUNCTION find_trace_audiences() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    NEW.document_ids := ARRAY(
        SELECT unnest(NEW.document_ids)
        UNION
        SELECT document_id FROM sections
        WHERE tenant_id = NEW.tenant_id AND section_id = ANY (NEW.kept || ARRAY(
            SELECT (cited ->> 'section_id')::bigint
            FROM jsonb_array_elements(NEW.citations) AS cited))
        UNION
        SELECT (candidate ->> 'document_id')::bigint
        FROM jsonb_array_elements(NEW.candidates) AS candidate
        WHERE candidate ? 'document_id'
        AND ((candidate ->> 'section_id')::bigint = ANY (NEW.kept)
             OR candidate ->> 'doc' = NEW.settings #>> '{nearest,path}')
        ORDER BY 1);
    NEW.audience_ids := ARRAY(
        SELECT audience_id FROM documents
        WHERE tenant_id = NEW.tenant_id AND document_id = ANY (NEW.document_ids)
        UNION  -- of pages that are gone: what they had last, and what was known
        SELECT page_changes.audience_id
        FROM jsonb_array_elements(NEW.candidates) AS candidate
        JOIN page_changes ON page_changes.tenant_id = NEW.tenant_id AND kind = 'removed'
            AND page_changes.path = candidate ->> 'doc'
        WHERE (candidate ->> 'document_id')::bigint = ANY (NEW.document_ids) AND NOT EXISTS (
            SELECT FROM documents WHERE document_id = (candidate ->> 'document_id')::bigint)
        UNION
        SELECT unnest(NEW.audience_ids) WHERE EXISTS (
            SELECT unnest(NEW.document_ids) EXCEPT SELECT document_id FROM documents)
        EXCEPT SELECT 1
        ORDER BY 1);
    RETURN NEW;
END $$;
CREATE TRIGGER find_audiences
    BEFORE INSERT OR UPDATE OF kept, citations, candidates, settings, document_ids ON traces
    FOR EACH ROW EXECUTE FUNCTION find_trace_audiences();

CREATE FUNCTION find_case_audiences() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    NEW.audience_ids := ARRAY(
        WITH named AS (
            SELECT doc, source
            FROM jsonb_to_recordset(NEW.gold_any || NEW.gold_all) AS gold (doc text, source text)
            UNION
            SELECT NEW.page_wrong_path, NEW.page_wrong_source WHERE NEW.page_wrong_path IS NOT NULL
        ), matched AS (
            SELECT doc, audience_id
            FROM named LEFT JOIN documents ON tenant_id = NEW.tenant_id AND path = doc
                AND documents.source = coalesce(named.source, documents.source)
        ), gone AS (
            SELECT doc FROM matched WHERE audience_id IS NULL
        )
        SELECT audience_id FROM matched WHERE audience_id IS NOT NULL
        UNION
        SELECT page_changes.audience_id
        FROM gone JOIN page_changes ON tenant_id = NEW.tenant_id AND kind = 'removed' AND path = doc
        UNION
        SELECT unnest(NEW.audience_ids) WHERE EXISTS (SELECT FROM gone)
        UNION
        SELECT unnest(audience_ids) FROM case_traces JOIN traces USING (trace_id)
        WHERE case_traces.tenant_id = NEW.tenant_id AND case_id = NEW.case_id
        EXCEPT SELECT 1
        ORDER BY 1);
    RETURN NEW;
END $$;
CREATE TRIGGER find_audiences
    BEFORE INSERT OR UPDATE OF gold_any, gold_all, page_wrong_path ON eval_cases
    FOR EACH ROW EXECUTE FUNCTION find_case_audiences();

CREATE FUNCTION follow_link() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    link case_traces := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    UPDATE eval_cases SET gold_any = gold_any
    WHERE tenant_id = link.tenant_id AND case_id = link.case_id;
    RETURN NULL;
END $$;
CREATE TRIGGER follow_link AFTER INSERT OR DELETE ON case_traces
    FOR EACH ROW EXECUTE FUNCTION follow_link();

CREATE FUNCTION follow_trace() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE eval_cases SET gold_any = gold_any FROM case_traces
    WHERE case_traces.trace_id = NEW.trace_id AND eval_cases.tenant_id = NEW.tenant_id
    AND eval_cases.case_id = case_traces.case_id;
    RETURN NULL;
END $$;
CREATE TRIGGER follow_trace AFTER UPDATE ON traces
    FOR EACH ROW WHEN (OLD.audience_ids IS DISTINCT FROM NEW.audience_ids)
    EXECUTE FUNCTION follow_trace();

CREATE FUNCTION follow_page() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE page_changes SET audience_id = NEW.audience_id
    WHERE tenant_id = NEW.tenant_id AND source = NEW.source AND path = NEW.path;
    UPDATE traces SET document_ids = document_ids WHERE document_ids @> ARRAY[NEW.document_id];
    UPDATE eval_cases SET gold_any = gold_any
    WHERE tenant_id = NEW.tenant_id AND (page_wrong_path = NEW.path OR (gold_any || gold_all)
        @> jsonb_build_array(jsonb_build_object('doc', NEW.path)));
    RETURN NULL;
END $$;
CREATE TRIGGER follow_page AFTER UPDATE ON documents
    FOR EACH ROW WHEN (OLD.audience_id IS DISTINCT FROM NEW.audience_id)
    EXECUTE FUNCTION follow_page();

UPDATE traces SET document_ids = document_ids;
UPDATE eval_cases SET gold_any = gold_any;
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
    op.execute(PARTS)
    op.execute(POLICY.format(table="generation_parts"))
    op.execute(AUDIENCE_POLICY.format(table="generation_parts"))
    op.execute(FOLLOWING)
