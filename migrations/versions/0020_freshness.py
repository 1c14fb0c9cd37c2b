"""Which pages still hold: who confirmed them, which have been replaced, and which are copies.

verified_at is the later of what the page says itself, unless that day is to come, and of
confirmed_on.

New columns without defaults or with constant ones, new tables: short locks, nothing is rewritten.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0020"
down_revision = "0019"

CHANGES = """
ALTER TABLE documents
    ADD COLUMN stated_on date,  -- when the page itself says that it was last verified
    ADD COLUMN confirmed_on date,  -- when somebody said in Footnote that it is still true
    ADD COLUMN confirmed_by text,
    ADD COLUMN freshness_days integer,  -- NULL: the setting's
    ADD COLUMN is_superseded boolean NOT NULL DEFAULT false,
    ADD COLUMN superseded_by text;  -- as the page says it: a title, path or address
UPDATE documents
SET stated_on = verified_at,
    verified_at = CASE WHEN verified_at <= current_date + 1 THEN verified_at END
WHERE verified_at IS NOT NULL;

-- Pages that say nearly the same; each pair once, that with the lower id first.
CREATE TABLE copies (
    tenant_id text NOT NULL,
    document_id bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
    other_id bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
    similarity real NOT NULL,  -- of their words, in [0, 1]
    has_one_title boolean NOT NULL,  -- or each has a word in its title that the other has not
    PRIMARY KEY (document_id, other_id),
    CHECK (document_id < other_id)
);
CREATE INDEX copies_other ON copies (other_id);

-- What is compared of each page, so that of a changed one only its own is made anew.
CREATE TABLE signatures (
    tenant_id text NOT NULL,
    document_id bigint PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
    content_hash text NOT NULL,  -- of the document, as it was when this was made
    bands bigint[] NOT NULL  -- pages that have one in common may say nearly the same
);
"""

# Who may not read one of the two may not know of the pair.
READABLE = """
CREATE POLICY audience ON copies AS RESTRICTIVE TO footnote_app
    USING (EXISTS (SELECT FROM documents WHERE documents.document_id = copies.document_id)
           AND EXISTS (SELECT FROM documents WHERE documents.document_id = copies.other_id))
    WITH CHECK (true);
CREATE POLICY audience ON signatures AS RESTRICTIVE TO footnote_app
    USING (EXISTS (SELECT FROM documents WHERE documents.document_id = signatures.document_id))
    WITH CHECK (true);
"""


def upgrade() -> None:
    op.execute(CHANGES)
    for table in ("copies", "signatures"):
        op.execute(POLICY.format(table=table))
    op.execute(READABLE)
