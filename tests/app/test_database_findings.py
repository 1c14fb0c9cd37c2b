"""What doctor says of the database server, its indexes and its tables."""

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from app import database_findings
from retrieval.db import Database
from tests.app.questions import ask
from tests.conftest import Server


def examine(database: Database, *, ahead_s: float = 0) -> list[str]:
    """Level and text of each finding, on a machine whose clock is that much ahead."""
    database.engine.dispose()  # what is set of a database counts from the next connection on
    with database.unrestricted.transaction() as connection:
        found = database_findings.examine(connection, needed=20, now=lambda: time.time() + ahead_s)
        return [f"{each.level}: {each.text}" for each in found]


def find(told: list[str], words: str) -> str:
    """The one finding that has these words."""
    (found,) = (each for each in told if words in each)
    return found


def name(database: Database) -> str:
    return str(database.engine.url.database)


def test_a_new_database_is_well(database: Database) -> None:
    server, *others = examine(database)
    assert server.startswith("ok: PostgreSQL 1") and server.endswith(" can be written to.")
    assert others == [
        "ok: This machine's clock agrees with the database's.",
        "ok: All indexes of the database are valid.",
    ]


@pytest.mark.parametrize(
    ("ahead_s", "level", "words"),
    [(4, "ok", "agrees"), (-59, "note", "59 seconds behind"), (61, "error", "ahead of")],
)
def test_a_clock_that_is_off_is_told(
    database: Database, ahead_s: float, level: str, words: str
) -> None:
    told = find(examine(database, ahead_s=ahead_s), "clock")
    assert told.startswith(f"{level}: ") and words in told


def test_a_database_that_takes_nothing_is_an_error(server: Server, database: Database) -> None:
    server.execute(f"ALTER DATABASE {name(database)} SET default_transaction_read_only = on")
    told = find(examine(database), "default_transaction_read_only")
    assert told.startswith("error: PostgreSQL ") and "takes nothing" in told


def test_a_timeout_that_cuts_off_who_listens_is_noted(server: Server, database: Database) -> None:
    server.execute(f"ALTER DATABASE {name(database)} SET idle_session_timeout = '5min'")
    told = find(examine(database), "idle_session_timeout")
    assert told.startswith("note: idle_session_timeout is 300,000 ms")
    server.execute(f"ALTER DATABASE {name(database)} SET idle_session_timeout = '1h'")
    assert "timeout" not in " ".join(examine(database))


@pytest.fixture
def limited(server: Server, database: Database) -> Iterator[Database]:
    """A database whose user may open few connections."""
    user = database.engine.url.username
    server.execute(f"ALTER ROLE {user} CONNECTION LIMIT 19")
    yield database
    server.execute(f"ALTER ROLE {user} CONNECTION LIMIT -1")


def test_too_few_connections_are_an_error(limited: Database) -> None:
    told = find(examine(limited), "connections")
    assert told.startswith("error: The database lets us open 19 connections, and one process")


def test_an_older_version_of_an_extension_is_noted(server: Server, database: Database) -> None:
    older = "UPDATE pg_extension SET extversion = '0.8.0-1' WHERE extname = 'vector'"
    server.execute(older, database=name(database))
    told = find(examine(database), "ALTER EXTENSION")
    assert told.startswith("note: ") and "`ALTER EXTENSION vector UPDATE`" in told
    assert "this database 0.8.0-1:" in told


def test_an_index_that_was_not_built_to_its_end_is_an_error(
    server: Server, database: Database
) -> None:
    ask(database), ask(database)
    statement = "CREATE UNIQUE INDEX CONCURRENTLY half_built ON traces (tenant_id)"
    with pytest.raises(IntegrityError):
        server.execute(statement, database=name(database))
    told = find(examine(database), "half_built")
    assert told.startswith("error: The index half_built of traces is not valid")
    assert "`REINDEX INDEX CONCURRENTLY half_built`" in told
    assert not any("All indexes" in each for each in examine(database))


def fill(database: Database, rows: int, *statements: str) -> None:
    """A table that autovacuum leaves alone, and what is done to it, as its statistics have it."""
    create = "CREATE TABLE filled (number int) WITH (autovacuum_enabled = false)"
    insert = f"INSERT INTO filled SELECT generate_series(1, {rows})"
    engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for each in (create, insert, *statements):
            connection.execute(text(each))
            connection.execute(text("SELECT pg_stat_force_next_flush()"))


@pytest.mark.parametrize(("rows", "is_told"), [(999, False), (1_000, True)])
def test_tables_that_were_never_analysed_are_noted(
    database: Database, rows: int, is_told: bool
) -> None:
    fill(database, rows)
    told = [each for each in examine(database) if "Never analysed" in each]
    assert bool(told) == is_told
    assert all("planned blindly: filled. Run `ANALYZE`" in each for each in told)


@pytest.mark.parametrize(("deleted", "is_told"), [(9_999, False), (10_000, True)])
def test_many_dead_rows_are_noted(database: Database, deleted: int, is_told: bool) -> None:
    fill(database, 12_000, "ANALYZE filled", f"DELETE FROM filled WHERE number <= {deleted}")
    told = [each for each in examine(database) if "still take their place" in each]
    assert bool(told) == is_told
    assert all("filled (10,000 of 12,000). Run `VACUUM (ANALYZE)`" in each for each in told)
