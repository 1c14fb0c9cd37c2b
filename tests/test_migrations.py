"""The migrations, from nothing to now."""

from sqlalchemy import text

from retrieval.db import Database, migrate, open_database

TABLES = {
    *("sources", "documents", "generations", "sections", "chunks", "lexical_postings"),
    *("identifier_postings", "traces", "feedback", "eval_cases", "eval_runs", "calibrations"),
    "synonyms",
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


def test_every_table_has_row_level_security(database: Database) -> None:
    with database.transaction() as connection:
        rows = connection.execute(
            text(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relrowsecurity"
                " AND relnamespace = 'public'::regnamespace"
            )
        ).all()
    assert {row.relname for row in rows} == TABLES
