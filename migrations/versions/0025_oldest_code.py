"""From which revision on code works with the schema, so that a process of the version before may
restart while another one is rolled out.

It stands beside the revision, in the one row of alembic_version. Code from before this migration
looks at the revision alone, and refuses a newer one.

One new column, without a default: a short lock.
"""

from alembic import op

revision = "0025"
down_revision = "0024"
oldest_code = "0025"


def upgrade() -> None:
    op.execute("ALTER TABLE alembic_version ADD COLUMN oldest_code text")
