"""Audiences by number, so that the policy is a comparison of integers, which may use an index.

An audience is a set of names of which one is enough: everyone, public, channel:C1, group:S1,
user:U1. Every one holds *, the name of work that reads everything. Postings get one, too: how rare
a word is would tell of pages that the asker may not read; so would the size of the index, which is
therefore counted for each audience apart. A trace and a case may be read by who may read every page
that they were made of; triggers see to that, whatever code writes them, and see that they follow
when a page gets another audience: a narrower one holds at once. A trace never gets more readers
than its pages had when it was made of them, since nobody knows whether what it tells of them is
what they say by then; nor does what was noted of a page, or a case whose passages do not stand in
its pages any more.

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

BY_NAME = ("documents", "sections", "chunks", "page_changes")
BY_ID = ("documents", "sections", "chunks", "lexical_postings", "identifier_postings")
BY_IDS = {"traces": "{}", "eval_cases": "{}", "page_changes": "{0}"}  # with those of what is there
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

-- By these what is gone is known again: what was made of it, and what stands in its place.
ALTER TABLE page_changes ADD COLUMN document_id bigint;  -- NULL: noted before there was this
CREATE INDEX page_changes_document ON page_changes (document_id);
CREATE INDEX page_changes_text ON page_changes (tenant_id, text_hash);
CREATE INDEX documents_text ON documents (tenant_id, md5(text));

CREATE OR REPLACE FUNCTION note_page_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    page documents := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    IF TG_OP = 'INSERT' THEN  -- what stood there before is not more public than this
        UPDATE page_changes SET audience_ids = audience_ids || page.audience_id
        WHERE tenant_id = page.tenant_id AND source = page.source AND path = page.path
        AND page.audience_id <> 1 AND page.audience_id <> ALL (audience_ids);
    END IF;
    INSERT INTO page_changes (tenant_id, audience_ids, document_id, kind, source, path, title,
                              text_hash, title_before, hash_before)
    VALUES (page.tenant_id,
            ARRAY(SELECT DISTINCT unnest(
                array_remove(ARRAY[OLD.audience_id, page.audience_id], NULL))),
            page.document_id,
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

CREATE FUNCTION count_parts(counted_id bigint) RETURNS void LANGUAGE sql
BEGIN ATOMIC
    WITH counted AS (
        INSERT INTO generation_parts AS old
        SELECT tenant_id, generation_id, audience_id, language, count(*), sum(word_count)
        FROM sections WHERE generation_id = counted_id
        GROUP BY tenant_id, generation_id, audience_id, language
        ON CONFLICT (generation_id, audience_id, language) DO UPDATE
        SET section_count = excluded.section_count, word_count = excluded.word_count
        RETURNING audience_id, language
    )
    DELETE FROM generation_parts WHERE generation_id = counted_id
    AND (audience_id, language) NOT IN (SELECT audience_id, language FROM counted);
END;
"""

# The functions belong to the owner of the tables, so that they see all pages, whoever writes.
FOLLOWING = r"""
ALTER TABLE traces
    ADD COLUMN document_ids bigint[] NOT NULL DEFAULT '{}',  -- that it was made of
    ADD COLUMN made_for integer[] NOT NULL DEFAULT '{}';  -- the audiences that those had then
CREATE INDEX traces_document_ids ON traces USING gin (document_ids);
CREATE INDEX eval_cases_gold ON eval_cases USING gin ((gold_any || gold_all) jsonb_path_ops);
CREATE INDEX eval_cases_page_wrong ON eval_cases (page_wrong_path);

-- Who may read what was made of a page that is gone: who could do so last, and who may read what
-- stands in its place since, be it by its path or by its text. Of a moved page, where it was.
CREATE VIEW gone_pages AS
SELECT tenant_id, document_id, path, unnest(audience_ids) AS audience_id, NULL AS successor_id
FROM page_changes WHERE kind = 'removed'
UNION ALL
SELECT gone.tenant_id, gone.document_id, gone.path, page.audience_id, page.document_id
FROM page_changes AS gone JOIN documents AS page USING (tenant_id, path) WHERE kind = 'removed'
UNION ALL
SELECT gone.tenant_id, gone.document_id, gone.path, page.audience_id, page.document_id
FROM page_changes AS gone JOIN documents AS page
    ON page.tenant_id = gone.tenant_id AND md5(page.text) = text_hash
WHERE kind = 'removed' AND page.text ~ '\S';

-- All of the audiences of what was made of pages for some, each named once; known: what they were
-- so far, which counts on where some page is gone. Volatile, so that it sees the pages as they are
-- by now, also where what asks for it has waited for somebody.
CREATE FUNCTION find_audiences(page_ids bigint[], made_for integer[], known integer[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    found integer[] := ARRAY(SELECT audience_id FROM documents WHERE document_id = ANY (page_ids));
BEGIN
    IF cardinality(found) < cardinality(page_ids) THEN
        found := found || known || ARRAY(
            SELECT audience_id FROM gone_pages WHERE document_id IN (
                SELECT unnest(page_ids) EXCEPT SELECT document_id FROM documents
                WHERE document_id = ANY (page_ids)));
    END IF;
    RETURN ARRAY(SELECT DISTINCT unnest(array_remove(found || made_for, 1)) ORDER BY 1);
END $$;

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
    -- Held, so that whoever narrows them waits until this row is there to follow. Where somebody is
    -- at it, this fails at once: waiting for it could have it wait for this row in turn.
    NEW.made_for := ARRAY(
        WITH added AS (
            SELECT audience_id FROM documents
            WHERE document_id = ANY (NEW.document_ids)
            AND document_id <> ALL (coalesce(OLD.document_ids, '{}'))
            ORDER BY document_id FOR KEY SHARE NOWAIT
        )
        SELECT unnest(NEW.made_for) UNION SELECT audience_id FROM added ORDER BY 1);
    NEW.audience_ids := find_audiences(NEW.document_ids, NEW.made_for, NEW.audience_ids);
    RETURN NEW;
END $$;
CREATE TRIGGER find_audiences
    BEFORE INSERT OR UPDATE OF kept, citations, candidates, settings, document_ids, made_for
    ON traces
    FOR EACH ROW EXECUTE FUNCTION find_trace_audiences();

CREATE FUNCTION find_case_audiences() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    found integer[];
    gone text[];
BEGIN
    IF TG_OP = 'INSERT' OR (NEW.gold_any, NEW.gold_all, NEW.page_wrong_path)
            IS DISTINCT FROM (OLD.gold_any, OLD.gold_all, OLD.page_wrong_path) THEN
        -- As those that a trace is made of.
        PERFORM FROM documents WHERE tenant_id = NEW.tenant_id AND path IN (
            SELECT gold ->> 'doc' FROM jsonb_array_elements(NEW.gold_any || NEW.gold_all) AS gold
            UNION SELECT NEW.page_wrong_path)
        ORDER BY document_id FOR KEY SHARE NOWAIT;
    END IF;
    -- Gone is, too, a page that does not say any more what the case has of it.
    SELECT array_agg(audience_id),
           array_agg(doc) FILTER (WHERE audience_id IS NULL OR strpos(text, span) = 0)
    INTO found, gone
    FROM (
        SELECT doc, source, span
        FROM jsonb_to_recordset(NEW.gold_any || NEW.gold_all)
            AS gold (doc text, source text, span text)
        UNION
        SELECT NEW.page_wrong_path, NEW.page_wrong_source, NULL
        WHERE NEW.page_wrong_path IS NOT NULL
    ) AS named
    LEFT JOIN documents ON tenant_id = NEW.tenant_id AND path = doc
        AND documents.source = coalesce(named.source, documents.source);
    IF gone IS NOT NULL THEN
        found := found || NEW.audience_ids || ARRAY(
            SELECT audience_id FROM gone_pages
            WHERE tenant_id = NEW.tenant_id AND path = ANY (gone));
    END IF;
    NEW.audience_ids := ARRAY(
        SELECT unnest(found)
        UNION
        SELECT unnest(audience_ids) FROM case_traces JOIN traces USING (trace_id)
        WHERE case_traces.tenant_id = NEW.tenant_id AND case_id = NEW.case_id
        EXCEPT VALUES (1), (NULL)
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

-- What was made of pages follows them, and of such that are gone in whose place they stand.
CREATE FUNCTION follow_pages(page_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    followed bigint[] := page_ids || ARRAY(
        SELECT document_id FROM gone_pages WHERE successor_id = ANY (page_ids));
    named jsonb[];
BEGIN
    UPDATE traces SET audience_ids = find_audiences(document_ids, made_for, audience_ids)
    WHERE document_ids && followed
    AND audience_ids <> find_audiences(document_ids, made_for, audience_ids);

    named := ARRAY(
        SELECT jsonb_build_object('doc', path) FROM documents WHERE document_id = ANY (page_ids)
        UNION
        SELECT jsonb_build_object('doc', path) FROM page_changes WHERE document_id = ANY (followed)
    );
    UPDATE eval_cases SET gold_any = gold_any
    WHERE page_wrong_path IN (SELECT each ->> 'doc' FROM unnest(named) AS each)
    OR (gold_any || gold_all) @> ANY (
        ARRAY(SELECT jsonb_build_array(each) FROM unnest(named) AS each));
END $$;

-- A page that gets other readers is locked as one that is deleted: what is made of it waits for no
-- other change.
CREATE FUNCTION lock_page() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM documents WHERE document_id = OLD.document_id FOR UPDATE;
    RETURN NEW;
END $$;
CREATE TRIGGER lock_page BEFORE UPDATE OF audience_id ON documents
    FOR EACH ROW WHEN (OLD.audience_id <> NEW.audience_id) EXECUTE FUNCTION lock_page();

CREATE FUNCTION follow_change() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    page_ids bigint[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM follow_pages(ARRAY(SELECT document_id FROM now));
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM follow_pages(ARRAY(SELECT document_id FROM was));
        RETURN NULL;
    END IF;
    page_ids := ARRAY(SELECT document_id FROM now JOIN was USING (document_id)
                      WHERE now.audience_id <> was.audience_id);
    IF page_ids = '{}' THEN
        RETURN NULL;
    END IF;
    -- A narrower audience holds at once for what every generation made of the page.
    UPDATE sections SET audience_id = now.audience_id FROM now
    WHERE sections.document_id = now.document_id AND sections.audience_id <> now.audience_id;
    UPDATE chunks SET audience_id = sections.audience_id FROM sections
    WHERE chunks.section_id = sections.section_id AND document_id = ANY (page_ids);
    UPDATE lexical_postings SET audience_id = sections.audience_id FROM sections
    WHERE lexical_postings.section_id = sections.section_id AND document_id = ANY (page_ids);
    UPDATE identifier_postings SET audience_id = sections.audience_id FROM sections
    WHERE identifier_postings.section_id = sections.section_id AND document_id = ANY (page_ids);
    PERFORM count_parts(generation_id)
    FROM (SELECT DISTINCT generation_id FROM sections WHERE document_id = ANY (page_ids)) AS made;
    UPDATE page_changes SET audience_ids = audience_ids || now.audience_id FROM now
    WHERE now.document_id = ANY (page_ids) AND page_changes.tenant_id = now.tenant_id
    AND now.audience_id <> 1 AND now.audience_id <> ALL (audience_ids)
    AND (page_changes.document_id = now.document_id
         OR page_changes.path = now.path AND page_changes.source = now.source);
    PERFORM follow_pages(page_ids);
    RETURN NULL;
END $$;
CREATE TRIGGER follow_new AFTER INSERT ON documents REFERENCING NEW TABLE AS now
    FOR EACH STATEMENT EXECUTE FUNCTION follow_change();
CREATE TRIGGER follow_changed AFTER UPDATE ON documents
    REFERENCING OLD TABLE AS was NEW TABLE AS now
    FOR EACH STATEMENT EXECUTE FUNCTION follow_change();
CREATE TRIGGER follow_removed AFTER DELETE ON documents REFERENCING OLD TABLE AS was
    FOR EACH STATEMENT EXECUTE FUNCTION follow_change();

UPDATE traces SET document_ids = document_ids;
UPDATE eval_cases SET gold_any = gold_any;
"""


def upgrade() -> None:
    op.execute(TABLE)
    for table in BY_NAME:
        op.execute(f"DROP POLICY audience ON {table}")
        op.execute(f"ALTER TABLE {table} DROP COLUMN audience")
    for table in BY_ID:
        op.execute(f"ALTER TABLE {table} ADD COLUMN audience_id integer NOT NULL DEFAULT 0")
        op.execute(AUDIENCE_POLICY.format(table=table))
    for table, found in BY_IDS.items():
        op.execute(
            f"ALTER TABLE {table} ADD COLUMN audience_ids integer[] NOT NULL DEFAULT '{found}'"
        )
        op.execute(AUDIENCES_POLICY.format(table=table))
    for table in BY_TRACE:
        op.execute(TRACE_POLICY.format(table=table))
    op.execute(CHANGES)
    op.execute(PARTS)
    op.execute(POLICY.format(table="generation_parts"))
    op.execute(AUDIENCE_POLICY.format(table="generation_parts"))
    op.execute(FOLLOWING)
