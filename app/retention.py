"""What is kept no longer than RETENTION_DAYS."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, text

from app.purging import Purged
from retrieval.db import Database

SCHEDULE = "30 2 * * *"  # UTC; before the usual night's run
JOB = "retention"

# SQL: what goes, under the name by which it is counted; in this order.
_DELETE = {
    # Votes and what was passed on go with their question.
    "questions": "DELETE FROM traces WHERE asked_at < :until",
    # An approved case stays, and nothing leads from it to who asked; one from a file stays, too.
    "cases": """
        DELETE FROM eval_cases
        WHERE state <> 'approved' AND origin <> 'import'
        AND greatest(created_at, reviewed_at) < :until
        AND NOT EXISTS (SELECT FROM case_traces WHERE case_traces.case_id = eval_cases.case_id)
    """,
    "notes on pages": "DELETE FROM page_changes WHERE changed_at < :until",
}

log = logging.getLogger(__name__)


def purge_expired(connection: Connection, days: int, now: datetime) -> Purged:
    """Delete questions with all that was made of them, undecided cases and notes on pages.

    Eval runs stay: they hold ids, paths and figures, no texts. So do messages in Slack, for which
    Slack has a retention of its own.
    """
    values = {"until": now - timedelta(days=days)}
    counts = {
        noun: connection.execute(text(statement), values).rowcount
        for noun, statement in _DELETE.items()
    }
    return Purged(counts=counts, messages=())


def list_workspaces(database: Database) -> list[str]:
    """Those of which anything is kept, be they there or not: who is gone does not ask for it."""
    with database.transaction() as connection:
        return list(connection.execute(text("SELECT list_workspaces()")).scalars())


def run(
    database: Database,
    days: int,
    *,
    progress: Callable[[int, int], None],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """The work of a day, as the schedule has it done."""
    with database.unrestricted.transaction() as connection:
        purged = purge_expired(connection, days, now())
    log.info("Deleted as older than %d days: %s", days, dict(purged.counts))
    progress(1, 1)
