"""Which traces count as questions, and of which the words may be shown: many statements ask.

Functions of a row, which PostgreSQL puts into a statement as if they were written there.

New functions only; locks nothing, rewrites nothing.
"""

from alembic import op

revision = "0011"
down_revision = "0010"

FUNCTIONS = """
-- Whether something was asked, and not just a greeting sent.
CREATE FUNCTION is_question(traces) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN $1.question <> '' AND NOT $1.settings ? 'small_talk';

-- Whether its words may be shown and built on: who deleted their question has taken them back.
CREATE FUNCTION is_shown(traces) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN $1.question <> '' AND NOT $1.settings ?| ARRAY['small_talk', 'deleted'];
"""


def upgrade() -> None:
    op.execute(FUNCTIONS)
