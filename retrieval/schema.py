"""The version of the schema: brought up to date, and checked by who opens the database."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

import migrations
from retrieval import db, faults
from retrieval.db import Database
from retrieval.errors import ConfigError

MIN_PGVECTOR = (0, 8)  # the first with iterative scans, without which filtered search loses rows

# Whoever needs a table queues behind a migration that waits for it, so that it waits no longer, and
# tries again once they have had their turn; chosen.
LOCK_WAIT_S = 2
LOCK_TRIES = 15
TURN_S = 0.2  # between two looks whether another process has migrated; chosen

log = logging.getLogger(__name__)


def open_database(url: str, *, tenant_id: str, workers: int = 5) -> Database:
    """A database that answers and whose schema this code works with: its own, or a newer one.

    Raises ConfigError when the server is unreachable, pgvector is missing or too old, or the
    schema is older than the code or too new for it; each says what to do.
    """
    engine = db.build_engine(url)
    try:
        with _connect(engine) as connection:
            _check_pgvector(connection)
            _check_schema(connection)
    finally:
        engine.dispose()
    return Database(url, tenant_id=tenant_id, workers=workers)


def migrate(url: str) -> tuple[str | None, str]:
    """Create the schema or bring it up to date; the revisions before and after.

    A newer schema that this code works with is left alone. Safe to kill and to run again. Raises
    ConfigError as open_database does, and when the role may not create the schema or others do not
    let go of a table.
    """
    engine = db.build_engine(url)
    scripts = _Scripts()
    try:
        with _connect(engine) as connection:
            _check_pgvector(connection)
            _wait_for_turn(connection)
            before = MigrationContext.configure(connection).get_current_revision()
            if before is not None and before not in scripts.revisions:
                _accept_newer(connection, scripts, before)
                return before, before
            connection.execute(text(f"SET lock_timeout = '{LOCK_WAIT_S}s'"))
            connection.execute(text("SET statement_timeout = 0"))
            connection.commit()
            scripts.config.attributes["connection"] = connection
            _upgrade(connection, scripts)
    except DBAPIError as error:
        if faults.find_code(error) != "42501":
            raise
        raise ConfigError(
            "The database user may not create the schema. Let `footnote migrate` run once as the "
            "database's owner with CREATEROLE; afterwards Footnote needs only the role "
            "footnote_app."
        ) from error
    finally:
        engine.dispose()
    return before, scripts.head


def _wait_for_turn(connection: Connection) -> None:
    """Have everybody else who migrates wait until this connection ends.

    Two processes that start at once on an empty database would both create it. Who waits asks
    again and again: CREATE INDEX CONCURRENTLY waits for everybody in the middle of a statement.
    """
    ask = text("SELECT pg_try_advisory_lock(hashtext('footnote migrate'))")
    while not connection.execute(ask).scalar():
        connection.rollback()
        sleep(TURN_S)


def _upgrade(connection: Connection, scripts: "_Scripts") -> None:
    """Do the migrations that are due, each in its transaction."""
    for number in range(1, LOCK_TRIES + 1):
        try:
            command.upgrade(scripts.config, "head")
            return
        except OperationalError as error:
            if faults.find_code(error) not in (faults.LOCKED, faults.DEADLOCK):
                raise
            if number == LOCK_TRIES:
                raise ConfigError(
                    "The upgrade of the schema needs a table that somebody keeps in use. Let what "
                    "runs long end (pg_stat_activity shows it), and run `footnote migrate` again; "
                    "it goes on where this ended."
                ) from error
            connection.rollback()
        log.warning("A table is in use; the migration tries again, %d of %d", number, LOCK_TRIES)
        sleep(LOCK_WAIT_S / 2)


@contextmanager
def _connect(engine: Engine) -> Iterator[Connection]:
    try:
        connection = engine.connect()
    except OperationalError as error:
        # Of the URL only these are told: a password may stand in any other part of it.
        url = engine.url
        host = url.host or url.query.get("host") or "localhost"
        place = f"{host}:{url.port or url.query.get('port', 5432)}/{url.database}"
        raise ConfigError(
            f"The database at {place} cannot be reached, or refuses the login. Check that it "
            "runs, that it exists, and that DATABASE_URL is right."
        ) from error
    with connection:
        yield connection


def _check_pgvector(connection: Connection) -> None:
    version = connection.execute(
        text(
            "SELECT coalesce(installed_version, default_version) FROM pg_available_extensions"
            " WHERE name = 'vector'"
        )
    ).scalar()
    refuse_pgvector(version)


def refuse_pgvector(version: str | None) -> None:
    """Raise ConfigError unless this version of pgvector will do; None: there is none."""
    if version is None:
        raise ConfigError(
            "This PostgreSQL has no pgvector. Install the extension `vector` 0.8 or newer on the "
            "server, or unset DATABASE_URL to use the embedded one."
        )
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_PGVECTOR:
        raise ConfigError(
            f"pgvector {version} is too old: 0.8 or newer is needed. Install it on the server, "
            "then run `ALTER EXTENSION vector UPDATE` in this database."
        )


def _check_schema(connection: Connection) -> None:
    scripts = _Scripts()
    try:
        current = MigrationContext.configure(connection).get_current_revision()
    except ProgrammingError as error:
        raise ConfigError(
            "The database user may not read Footnote's schema. As the database's owner, run "
            "`GRANT footnote_app TO …` for the user of DATABASE_URL."
        ) from error
    if current == scripts.head:
        return
    if current is not None and current not in scripts.revisions:
        _accept_newer(connection, scripts, current)
        return
    raise ConfigError(
        "The database has no Footnote schema yet. Run `footnote migrate`."
        if current is None
        else f"The schema is at {current}, this Footnote needs {scripts.head}. "
        "Run `footnote migrate`."
    )


def _accept_newer(connection: Connection, scripts: "_Scripts", revision: str) -> None:
    """Raise ConfigError unless this code works with the schema of newer code."""
    oldest = connection.execute(text("SELECT oldest_code FROM alembic_version")).scalar()
    if oldest not in scripts.revisions:
        raise ConfigError(
            f"The schema is at {revision}, which is newer than this Footnote knows "
            f"({scripts.head}) and can work with. Upgrade Footnote."
        )
    log.warning(
        "The schema is at %s, newer than this Footnote (%s), which works with it as it is",
        revision,
        scripts.head,
    )


class _Scripts:
    def __init__(self) -> None:
        self.config = Config()
        self.config.set_main_option("script_location", str(Path(migrations.__path__[0])))
        directory = ScriptDirectory.from_config(self.config)
        self.revisions = [script.revision for script in directory.walk_revisions()]
        self.head = self.revisions[0]
