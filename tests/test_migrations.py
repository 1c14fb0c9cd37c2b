"""The migrations, from nothing to now."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import IntegrityError

import migrations
from retrieval.db import Database
from retrieval.schema import migrate, open_database
from tests.noticing import watching

TABLES = {
    *("sources", "documents", "generations", "sections", "chunks", "lexical_postings"),
    *("identifier_postings", "traces", "feedback", "eval_cases", "eval_runs", "calibrations"),
    *("synonyms", "escalations", "case_traces", "page_changes", "scheduled_runs", "tickets"),
    *("audiences", "generation_parts", "dead_letters", "copies", "signatures", "purged_pages"),
    *("slack_installations", "slack_bots", "slack_oauth_states"),
}


def find_tables(url: str) -> set[str]:
    database = Database(url, tenant_id="acme")
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ).all()
    database.close()
    return {str(row.tablename) for row in rows} - {"alembic_version"}


def test_an_empty_database_becomes_a_current_one(empty_url: str) -> None:
    before, after = migrate(empty_url)
    assert before is None
    assert find_tables(empty_url) == TABLES
    open_database(empty_url, tenant_id="acme").close()
    assert migrate(empty_url) == (after, after)


def test_migrating_again_keeps_the_rows(database: Database, database_url: str) -> None:
    with database.transaction() as connection:
        connection.execute(
            text(
                "INSERT INTO traces (tenant_id, surface, question) VALUES ('acme', 'terminal', 'q')"
            )
        )
    migrate(database_url)
    with database.transaction() as connection:
        assert connection.execute(text("SELECT question FROM traces")).scalars().all() == ["q"]


def migrate_to(url: str, revision: str, folder: Path = Path(migrations.__path__[0])) -> None:
    config = Config()
    config.set_main_option("script_location", str(folder))
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()
    engine.dispose()


def test_votes_from_before_there_were_complaints_stay(empty_url: str) -> None:
    migrate_to(empty_url, "0006")
    database = Database(empty_url, tenant_id="acme")
    with database.transaction() as connection:
        connection.execute(
            text("""
                WITH asked AS (
                    INSERT INTO traces (tenant_id, surface, question)
                    VALUES ('acme', 'slack', 'q') RETURNING trace_id
                )
                INSERT INTO feedback (trace_id, tenant_id, user_id, vote)
                SELECT trace_id, 'acme', 'U1', -1 FROM asked
            """)
        )
    migrate(empty_url)
    with database.transaction() as connection:
        row = connection.execute(text("SELECT * FROM feedback")).one()
    assert (row.user_id, row.vote, row.reason, row.right_path, row.note) == (
        *("U1", -1),
        *(None, None, None),
    )
    for change in ("reason = 'boring'", "right_path = 'a.md'"):
        with pytest.raises(IntegrityError), database.transaction() as connection:
            connection.execute(text(f"UPDATE feedback SET {change}"))
    database.close()


def test_every_table_has_row_level_security(database: Database) -> None:
    with database.transaction() as connection:
        rows = connection.execute(
            text(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relrowsecurity"
                " AND relnamespace = 'public'::regnamespace"
            )
        ).all()
    assert {row.relname for row in rows} == TABLES


def find_oldest_code(url: str) -> str | None:
    database = Database(url, tenant_id="acme")
    with database.transaction() as connection:
        oldest = connection.execute(text("SELECT oldest_code FROM alembic_version")).scalar()
    database.close()
    return oldest


MIGRATION = """
from alembic import op

revision, down_revision, {oldest_code} = {values!r}

def upgrade():
    op.execute({statement!r})
"""


def test_code_works_with_what_follows_until_a_migration_says_otherwise(
    database_url: str, tmp_path: Path
) -> None:
    before = find_oldest_code(database_url)
    assert before is not None
    shutil.copytree(Path(migrations.__path__[0]), tmp_path / "migrations")
    files = sorted((tmp_path / "migrations" / "versions").glob("[0-9]*.py"))
    head = files[-1].name[:4]
    for name, oldest_code, values in (
        ("9001", "other", ("9001", head, "9001")),
        ("9002", "oldest_code", ("9002", "9001", "9002")),
        ("9003", "other", ("9003", "9002", "9003")),
    ):
        migration = MIGRATION.format(oldest_code=oldest_code, values=values, statement="SELECT 1")
        (tmp_path / "migrations" / "versions" / f"{name}_new.py").write_text(migration)
    for revision, oldest in (("9001", before), ("9002", "9002"), ("9003", "9002")):
        migrate_to(database_url, revision, tmp_path / "migrations")
        assert find_oldest_code(database_url) == oldest


def test_a_migration_does_not_keep_others_waiting_behind_a_long_query(empty_url: str) -> None:
    migrate_to(empty_url, "0021")  # the next changes documents
    database = Database(empty_url, tenant_id="acme")
    count = text("SELECT count(*) FROM documents")
    with ThreadPoolExecutor() as threads, watching("retrieval.schema", "in use") as gave_way:
        with database.transaction() as long:
            assert long.execute(count).scalar() == 0
            migrated = threads.submit(migrate, empty_url)
            assert gave_way.wait(20)
            with database.transaction() as connection:  # queues behind nobody
                assert connection.execute(count).scalar() == 0
            assert not migrated.done()
        assert migrated.result(20)[0] == "0021"
    database.close()
    open_database(empty_url, tenant_id="acme").close()


def test_of_two_that_migrate_at_once_one_does(empty_url: str) -> None:
    with ThreadPoolExecutor() as threads:
        both = [threads.submit(migrate, empty_url) for _ in range(2)]
    befores = {each.result()[0] for each in both}
    assert befores == {None, both[0].result()[1]}
