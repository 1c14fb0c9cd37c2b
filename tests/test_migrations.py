"""The migrations, from nothing to now."""

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import IntegrityError

import migrations
from retrieval.db import Database, migrate, open_database

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


def migrate_to(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__path__[0])))
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
