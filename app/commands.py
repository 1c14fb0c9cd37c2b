"""What the commands share."""

from pathlib import Path

import click

from app import database
from app.config import Settings
from retrieval.db import Database
from retrieval.errors import ConfigError

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def open_database(settings: Settings) -> Database:
    """The database, until the command ends."""
    opened = database.open_database(settings)
    click.get_current_context().call_on_close(opened.close)
    return opened


def check_writable(path: Path) -> None:
    """Raise ConfigError now rather than after minutes of work; leaves the file as it is."""
    try:
        path.open("a").close()
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def write(path: Path, text: str) -> None:
    """Write a file; raises ConfigError where that cannot be."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
