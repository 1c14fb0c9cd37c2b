"""How the processes of Footnote open their database."""

import click
from sqlalchemy import text

from app import commands
from app.cli import main
from app.config import Settings
from app.database import open_database


def test_each_worker_keeps_its_connection(database_url: str) -> None:
    opened = open_database(Settings(database_url=database_url, answer_workers=3))
    assert opened.engine.pool.status().startswith("Pool size: 3 ")
    opened.close()


def test_a_command_takes_as_long_as_it_takes(database_url: str) -> None:
    with click.Context(main):
        opened = commands.open_database(Settings(database_url=database_url))
        with opened.transaction() as connection:
            bound = connection.execute(text("SELECT current_setting('statement_timeout')")).scalar()
    assert bound == "0"
