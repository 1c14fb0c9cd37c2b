"""The index: documents, generations, sections, chunks and postings, each tenant apart.

Why postings instead of tsvector and array columns: under row-level security PostgreSQL may use an
index only with operators marked leakproof, which `=` on text is and `@@`, `&&` and `@>` are not; a
GIN index would never be used. Postings also hold what BM25 needs: how often and how rarely.

Why partial HNSW indexes by dimension: an index needs one dimension, the table must take any.

New tables only; locks nothing, rewrites nothing.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0001"
down_revision = None

ROLE = """
DO $$ BEGIN
    CREATE ROLE footnote_app NOLOGIN NOSUPERUSER NOBYPASSRLS;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- roles belong to the whole server
END $$;
GRANT footnote_app TO CURRENT_USER;
"""

TABLES = """
CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE sources (
    tenant_id text NOT NULL,
    source text NOT NULL,
    root text NOT NULL,  -- the folder that it was last indexed from
    PRIMARY KEY (tenant_id, source)
);

CREATE TABLE documents (
    document_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    audience text[] NOT NULL DEFAULT '{everyone}',
    source text NOT NULL,
    path text NOT NULL,
    title text NOT NULL,
    url text NOT NULL,
    owner text,
    language text NOT NULL DEFAULT 'english',  -- a text search configuration
    text text NOT NULL,
    updated_at timestamptz,
    verified_at date,
    content_hash text NOT NULL,
    indexed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, source, path)
);

CREATE TABLE generations (
    generation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('building', 'active')),
    chunker text NOT NULL,
    embedder text NOT NULL,
    dimension integer NOT NULL,
    probe real[] NOT NULL,  -- the vector of a fixed sentence
    projection bytea NOT NULL,  -- float32, token_dimension rows of dimension
    token_dimension integer NOT NULL,
    section_count integer NOT NULL DEFAULT 0,
    chunk_count integer NOT NULL DEFAULT 0,
    mean_word_count real NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, state)
);

CREATE TABLE sections (
    section_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    audience text[] NOT NULL,
    generation_id bigint NOT NULL REFERENCES generations ON DELETE CASCADE,
    document_id bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal integer NOT NULL,  -- from 0, in the document
    heading_path text[] NOT NULL,
    text text NOT NULL,
    span_start integer NOT NULL,
    span_end integer NOT NULL,
    token_count integer NOT NULL,
    word_count real NOT NULL DEFAULT 0,  -- weighted, as the postings are
    content_hash text NOT NULL,  -- of the document, as it was when this was made of it
    UNIQUE (document_id, generation_id, ordinal)
);
CREATE INDEX sections_generation_id ON sections (generation_id);

CREATE TABLE chunks (
    chunk_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    audience text[] NOT NULL,
    generation_id bigint NOT NULL REFERENCES generations ON DELETE CASCADE,
    section_id bigint NOT NULL REFERENCES sections ON DELETE CASCADE,
    ordinal integer NOT NULL,  -- from 0, in the section
    heading_path text[] NOT NULL,
    text text NOT NULL,
    embedding halfvec NOT NULL,  -- of unit length
    token_vectors bytea NOT NULL,  -- int8, token_dimension a token
    UNIQUE (section_id, ordinal)
);
-- Vectors do not shrink; trying to costs time at every read.
ALTER TABLE chunks ALTER COLUMN token_vectors SET STORAGE EXTERNAL;
CREATE INDEX chunks_generation_id ON chunks (generation_id);

CREATE TABLE lexical_postings (
    tenant_id text NOT NULL,
    generation_id bigint NOT NULL,
    section_id bigint NOT NULL REFERENCES sections ON DELETE CASCADE,
    term text NOT NULL,
    frequency real NOT NULL,  -- headings count more
    PRIMARY KEY (section_id, term)
);
CREATE INDEX lexical_postings_term
    ON lexical_postings (generation_id, term) INCLUDE (section_id, frequency);

CREATE TABLE identifier_postings (
    tenant_id text NOT NULL,
    generation_id bigint NOT NULL,
    section_id bigint NOT NULL REFERENCES sections ON DELETE CASCADE,
    identifier text NOT NULL,  -- in a normal form
    PRIMARY KEY (section_id, identifier)
);
CREATE INDEX identifier_postings_identifier
    ON identifier_postings (generation_id, identifier) INCLUDE (section_id);
"""

AUDIENCE_POLICY = """
CREATE POLICY audience ON {table} AS RESTRICTIVE TO footnote_app
    USING (audience && string_to_array(current_setting('footnote.audiences', true), ','))
    WITH CHECK (true);
"""


def upgrade() -> None:
    op.execute(ROLE)
    op.execute(TABLES)
    for dimension in (384, 512, 768, 1024):
        op.execute(
            f"CREATE INDEX chunks_embedding_{dimension} ON chunks USING hnsw"
            f" ((embedding::halfvec({dimension})) halfvec_cosine_ops)"
            f" WHERE vector_dims(embedding) = {dimension}"
        )
    tables = ("sources", "documents", "generations", "sections", "chunks")
    for table in (*tables, "lexical_postings", "identifier_postings"):
        op.execute(POLICY.format(table=table))
    for table in ("documents", "sections", "chunks"):
        op.execute(AUDIENCE_POLICY.format(table=table))
    op.execute("GRANT USAGE ON SCHEMA public TO footnote_app")
    op.execute("GRANT SELECT ON alembic_version TO footnote_app")
