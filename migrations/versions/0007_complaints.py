"""What is wrong with an answer, beside the 👎: the case that it becomes needs the right page.

The page is kept by source and path, its key for good; a document_id may be gone when the case is
made.

New columns without defaults: a short lock, in which the votes are read once for the constraints;
nothing is rewritten.
"""

from alembic import op

revision = "0007"
down_revision = "0006"

COLUMNS = """
ALTER TABLE feedback
    ADD COLUMN reason text CHECK (reason IN ('wrong', 'outdated', 'missing', 'not_asked')),
    ADD COLUMN right_source text,  -- with right_path: the document that holds the right answer
    ADD COLUMN right_path text,
    ADD COLUMN note text,
    ADD CONSTRAINT feedback_right_document CHECK ((right_source IS NULL) = (right_path IS NULL));
"""


def upgrade() -> None:
    op.execute(COLUMNS)
