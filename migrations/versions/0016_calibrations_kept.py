"""Calibrations are kept, so that the last one can be undone: the latest that was not is used.

A key of its own is added to a table of few rows, which is rewritten and locked for that moment.
"""

from alembic import op

revision = "0016"
down_revision = "0015"

COLUMNS = """
ALTER TABLE calibrations
    DROP CONSTRAINT calibrations_pkey,
    ADD COLUMN calibration_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ADD COLUMN reverted_at timestamptz;
CREATE INDEX calibrations_basis ON calibrations (tenant_id, reranker, embedder, chunker);
"""


def upgrade() -> None:
    op.execute(COLUMNS)
