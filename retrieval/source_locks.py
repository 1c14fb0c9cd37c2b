"""That one process at a time brings a source up to date: by a lock of the server's.

It ends with the connection that holds it, so that who was killed holds none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from retrieval.db import Database
from retrieval.errors import Busy, ConfigError


@contextmanager
def only_one(database: Database, source: str) -> Iterator[Callable[[], None]]:
    """Hold the source's lock; what comes back raises ConfigError once that is lost.

    Raises Busy when another process holds it.
    """
    key = _build_key(database.tenant_id, source)
    with database.engine.connect() as connection:
        if not connection.execute(
            text("SELECT pg_try_advisory_lock(hashtext(:key))"), key
        ).scalar():
            raise Busy(f"Another ingest of source {source!r} is running; let it finish.")
        connection.commit()

        def check() -> None:
            try:
                connection.execute(text("SELECT 1"))
                connection.commit()
            except SQLAlchemyError as error:
                raise ConfigError(
                    f"The connection that kept others from source {source!r} was cut. Run the "
                    "same again; it goes on where this ended."
                ) from error

        try:
            yield check
        finally:
            with suppress(SQLAlchemyError):  # the lock has gone with the connection
                connection.execute(text("SELECT pg_advisory_unlock(hashtext(:key))"), key)


def is_held(connection: Connection, source: str) -> bool:
    """Whether a process is bringing the source up to date now."""
    tenant_id: str = connection.execute(
        text("SELECT current_setting('footnote.tenant_id')")
    ).scalar_one()
    is_free: bool = connection.execute(
        text("""
            SELECT pg_try_advisory_lock(hashtext(:key)) AND pg_advisory_unlock(hashtext(:key))
        """),
        _build_key(tenant_id, source),
    ).scalar_one()
    return not is_free


def _build_key(tenant_id: str, source: str) -> dict[str, str]:
    return {"key": f"footnote ingest {tenant_id} {source}"}
