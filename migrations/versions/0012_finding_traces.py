"""Indexes that find traces by their answer, for each reaction, and by who asked, for the home tab.

Why the first message of an answer instead of a GIN index over all of them: row-level security lets
only leakproof operators use an index, which `=` and `<=` on text and subscripts of arrays are, and
`@>` is not.

Nobody can write to traces while the indexes are built: about a second for a hundred thousand.
"""

from alembic import op

revision = "0012"
down_revision = "0011"

INDEXES = """
CREATE INDEX traces_answer ON traces (tenant_id, channel_id, (answer_ts[1]));
CREATE INDEX traces_asker ON traces (tenant_id, team_id, user_id, asked_at);
"""


def upgrade() -> None:
    op.execute(INDEXES)
