"""Changes that meet: one is made while a transaction of the test's own is still open."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from sqlalchemy import text

from retrieval.db import Database


def begin(database: Database, change: Callable[[], object]) -> Future[object]:
    """A change on a thread of its own, once it waits for a lock or is done."""
    pool = ThreadPoolExecutor(1)
    begun = pool.submit(change)
    pool.shutdown(wait=False)  # its thread ends with the change
    while not begun.done() and not is_waiting(database):
        wait([begun], timeout=0.01)
    return begun


def is_waiting(database: Database) -> bool:
    """Whether somebody waits for a lock."""
    with database.engine.connect() as connection:
        waiting = text("""
            SELECT EXISTS (SELECT FROM pg_stat_activity
                           WHERE datname = current_database() AND wait_event_type = 'Lock')
        """)
        return bool(connection.execute(waiting).scalar())
