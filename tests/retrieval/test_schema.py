"""Databases that cannot be used as they are: errors that say what to do."""

import logging
import socket

import pytest
from sqlalchemy import create_engine, make_url, text

from retrieval.errors import ConfigError
from retrieval.schema import migrate, open_database, refuse_pgvector
from tests.conftest import Server


def refusal(url: str) -> str:
    with pytest.raises(ConfigError) as raised:
        open_database(url, tenant_id="acme")
    return str(raised.value)


def test_a_current_database_opens(database_url: str) -> None:
    database = open_database(database_url, tenant_id="acme")
    with database.transaction() as connection:
        assert connection.execute(text("SELECT count(*) FROM documents")).scalar() == 0
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


@pytest.mark.parametrize("url", ["nonsense", "mysql://localhost/x", "sqlite://", "://"])
def test_what_is_no_url_of_postgresql_is_refused(url: str) -> None:
    assert "DATABASE_URL" in refusal(url)


def test_a_missing_schema_is_told(empty_url: str) -> None:
    assert refusal(empty_url).endswith("Run `footnote migrate`.")
    assert "no Footnote schema" in refusal(empty_url)


def set_schema(server: Server, url: str, revision: str, *, oldest_code: str = "0024") -> None:
    server.execute(
        f"UPDATE alembic_version SET version_num = '{revision}', oldest_code = '{oldest_code}'",
        database=str(make_url(url).database),
    )


def test_an_older_schema_is_told(server: Server, database_url: str) -> None:
    set_schema(server, database_url, "0001")
    message = refusal(database_url)
    assert "The schema is at 0001" in message
    assert message.endswith("Run `footnote migrate`.")


def test_a_newer_schema_that_this_code_breaks_on_is_told_and_left_alone(
    server: Server, database_url: str
) -> None:
    set_schema(server, database_url, "9999", oldest_code="9998")
    assert refusal(database_url).endswith("Upgrade Footnote.")
    with pytest.raises(ConfigError, match="9999, which is newer"):
        migrate(database_url)


def test_a_process_restarts_while_newer_ones_are_rolled_out(
    server: Server, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    set_schema(server, database_url, "9999")
    open_database(database_url, tenant_id="acme").close()
    (note,) = caplog.records
    assert (note.levelno, note.name) == (logging.WARNING, "retrieval.schema")
    assert note.getMessage().startswith("The schema is at 9999, newer than this Footnote (")


def test_migrate_leaves_a_newer_schema_as_it_is_and_says_so(
    server: Server, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    set_schema(server, database_url, "9999")
    assert migrate(database_url) == ("9999", "9999")
    assert "works with it as it is" in caplog.text
