"""Eval cases as people review them: which answers each rests on, who decided, what became of it.

One question is one case, however many answers to it were flagged. A proposed case has no gold until
somebody names the right page; an approved one without gold says that no document answers. Of the
approved, a part is held out: nothing is fitted on it.

case_traces takes the place of eval_cases.trace_id, which a later release drops.

The columns with defaults are constants, so nothing is rewritten; eval_cases is locked for as long
as its few rows take to be read for the constraints.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0013"
down_revision = "0012"

TABLES = """
ALTER TABLE eval_cases
    DROP CONSTRAINT eval_cases_state_check,
    ADD CONSTRAINT eval_cases_state_check CHECK (state IN ('proposed', 'approved', 'dismissed')),
    ADD COLUMN origin text NOT NULL DEFAULT 'flag'
        CHECK (origin IN ('flag', 'reply', 'import')),
    ADD COLUMN reviewed_at timestamptz,
    ADD COLUMN held_out boolean,  -- chosen once, when it is first approved
    ADD COLUMN orphaned_at timestamptz,  -- since when what answers it stands on no page
    ADD COLUMN page_wrong_by text,  -- who said that the right page is what is wrong
    ADD COLUMN page_wrong_at timestamptz,
    ADD COLUMN page_wrong_source text,  -- with page_wrong_path: which page they mean
    ADD COLUMN page_wrong_path text,
    ADD COLUMN review_channel_id text,  -- with review_ts: the message to the reviewers
    ADD COLUMN review_ts text,
    ADD COLUMN review_claimed_at timestamptz;  -- by who is about to post that message

-- The answers that a case rests on.
CREATE TABLE case_traces (
    trace_id uuid PRIMARY KEY REFERENCES traces ON DELETE CASCADE,
    tenant_id text NOT NULL,
    case_id text NOT NULL,
    linked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (tenant_id, case_id) REFERENCES eval_cases ON DELETE CASCADE
);
CREATE INDEX case_traces_case ON case_traces (tenant_id, case_id);

INSERT INTO case_traces (trace_id, tenant_id, case_id)
SELECT trace_id, tenant_id, case_id FROM eval_cases WHERE trace_id IS NOT NULL;
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(POLICY.format(table="case_traces"))
