"""Tenants and audiences apart, and errors that say what to do."""

import socket
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from retrieval import audiences
from retrieval.db import Database, migrate, open_database, refuse_pgvector
from retrieval.errors import ConfigError
from tests.conftest import Server

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


def refusal(url: str) -> str:
    with pytest.raises(ConfigError) as raised:
        open_database(url, tenant_id="acme")
    return str(raised.value)


def test_a_current_database_opens(database_url: str) -> None:
    database = open_database(database_url, tenant_id="acme")
    assert paths(database) == []
    database.close()


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # taken, but nobody listens
        port = unused.getsockname()[1]
        message = refusal(f"postgresql://bot:s3cret@127.0.0.1:{port}/footnote")
    assert f"127.0.0.1:{port}/footnote cannot be reached" in message
    assert "s3cret" not in message


def test_a_password_elsewhere_in_the_url_is_not_told_either() -> None:
    message = refusal("postgresql://127.0.0.1:1/footnote?user=bot&password=s3cret")
    assert "127.0.0.1:1/footnote cannot be reached" in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("version", "told"), [(None, "no pgvector"), ("0.7.4", "too old"), ("0.5.1", "too old")]
)
def test_a_missing_or_old_pgvector_is_refused(version: str | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        refuse_pgvector(version)


@pytest.mark.parametrize("version", ["0.8.0", "0.8.5", "0.10.0", "1.0"])
def test_a_recent_pgvector_will_do(version: str) -> None:
    refuse_pgvector(version)


def test_a_user_without_rights_is_told_what_to_grant(server: Server, database_url: str) -> None:
    owner = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"))
    stranger = database_url.replace("//postgres:", "//stranger:")
    try:
        with owner.begin() as connection:
            connection.execute(text("CREATE ROLE stranger LOGIN"))
        assert "GRANT footnote_app" in refusal(stranger)
        with owner.begin() as connection:
            connection.execute(text("GRANT footnote_app TO stranger"))
        open_database(stranger, tenant_id="acme").close()
    finally:
        with owner.begin() as connection:
            connection.execute(text("DROP ROLE stranger"))
        owner.dispose()


def test_a_snapshot_sees_everything_as_it_was_at_its_first_statement(database: Database) -> None:
    insert(database, "before.md", tenant_id="acme")
    with database.snapshot() as connection:
        listed = text("SELECT path FROM documents ORDER BY path")
        assert connection.execute(listed).scalars().all() == ["before.md"]
        insert(database, "meanwhile.md", tenant_id="acme")
        assert connection.execute(listed).scalars().all() == ["before.md"]
    assert paths(database) == ["before.md", "meanwhile.md"]


@pytest.mark.parametrize("url", ["nonsense", "mysql://localhost/x", "sqlite://", "://"])
def test_what_is_no_url_of_postgresql_is_refused(url: str) -> None:
    assert "DATABASE_URL" in refusal(url)


def test_a_missing_schema_is_told(empty_url: str) -> None:
    assert refusal(empty_url).endswith("Run `footnote migrate`.")
    assert "no Footnote schema" in refusal(empty_url)


def set_revision(server: Server, url: str, revision: str) -> None:
    name = url.split("?")[0].rsplit("/", 1)[1]
    server.execute(f"UPDATE alembic_version SET version_num = '{revision}'", database=name)


def test_an_older_schema_is_told(server: Server, database_url: str) -> None:
    set_revision(server, database_url, "0001")
    message = refusal(database_url)
    assert "The schema is at 0001" in message
    assert message.endswith("Run `footnote migrate`.")


def test_a_newer_schema_is_told_and_left_alone(server: Server, database_url: str) -> None:
    set_revision(server, database_url, "9999")
    assert refusal(database_url).endswith("Upgrade Footnote.")
    with pytest.raises(ConfigError, match="9999, which is newer"):
        migrate(database_url)
