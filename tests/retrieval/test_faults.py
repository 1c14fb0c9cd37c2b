"""Faults that pass, and those that somebody has to do something about."""

from collections.abc import Iterator

import pytest
from procrastinate import App, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from retrieval import faults
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.schema import open_database
from tests.conftest import Server

UNREACHABLE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture(scope="module")
def connection(server: Server) -> Iterator[Connection]:
    engine = create_engine(make_url(server.url("postgres")).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def fail(connection: Connection, code: str) -> DBAPIError:
    """What comes of an error of the server with a code."""
    with pytest.raises(DBAPIError) as raised:
        connection.execute(text(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$"))
    connection.rollback()
    assert faults.find_code(raised.value) == code
    return raised.value


@pytest.mark.parametrize(
    "code",
    [
        *("08006", "25006", "25P03", "40001", "40P01", "53100", "53200", "53300"),
        *("55P03", "57014", "57P01", "57P02", "57P03"),
    ],
)
def test_what_helps_itself_passes(connection: Connection, code: str) -> None:
    assert faults.is_passing(fail(connection, code))


@pytest.mark.parametrize("code", ["22012", "23505", "23514", "42501", "42601", "42P01", "53400"])
def test_what_is_wrong_stays_wrong(connection: Connection, code: str) -> None:
    assert not faults.is_passing(fail(connection, code))


def test_a_server_that_is_not_there_may_come_back() -> None:
    with pytest.raises(DBAPIError) as raised, Database(UNREACHABLE, tenant_id="a").transaction():
        pass
    assert faults.is_passing(raised.value)
    assert faults.find_code(raised.value) is None


def test_what_stems_from_a_fault_that_passes_does_so_too() -> None:
    with pytest.raises(ConfigError) as raised:
        open_database(UNREACHABLE, tenant_id="acme")
    assert faults.is_passing(raised.value)


def test_a_job_that_cannot_be_deferred_now_can_be_later(database: Database) -> None:
    queue = App(connector=SyncPsycopgConnector())
    with (
        pytest.raises(ConnectorException) as raised,
        database.engine.connect() as connection,
    ):
        own = connection.connection.driver_connection
        with pytest.raises(DBAPIError):
            connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        queue.configure_task("answer", connection=own, allow_unknown=True).defer()
    assert faults.is_passing(raised.value)


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError(), ConfigError("Set HOST.")])
def test_what_is_not_of_the_database_is_not_judged(error: Exception) -> None:
    assert not faults.is_passing(error)
    assert faults.find_code(error) is None
