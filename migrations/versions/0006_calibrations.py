"""Each tenant's own relevance models, so that the floor is that of its cases and its index.

New table only; locks nothing, rewrites nothing.
"""

from alembic import op

from migrations.versions import POLICY

revision = "0006"
down_revision = "0005"

TABLE = """
CREATE TABLE calibrations (
    tenant_id text NOT NULL,
    reranker text NOT NULL,
    embedder text NOT NULL,
    chunker text NOT NULL,
    model jsonb NOT NULL,  -- weights and floor, with what they were fitted on
    calibrated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, reranker, embedder, chunker)
);
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute(POLICY.format(table="calibrations"))
