"""What the commands share."""

from collections.abc import Sequence
from pathlib import Path

import click

from app import database
from app.config import Settings
from retrieval import audiences
from retrieval.db import Database
from retrieval.errors import ConfigError

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
of_generation = click.option(
    "--generation",
    "generation_id",
    type=int,
    help="Search this one of `footnote index list`; default: what questions are answered from.",
)

by_audience = click.option(
    "--audience",
    "audience",
    metavar="NAME",
    multiple=True,
    help="Read what those may who have this name, as `everyone` or `group:S123`, or any of several;"
    " default: everything.",
)


def open_database(settings: Settings) -> Database:
    """The database, all of it, until the command ends: who is at a terminal looks after it."""
    opened = database.open_database(settings)
    click.get_current_context().call_on_close(opened.close)
    return opened.unrestricted.unhurried


def open_reading(settings: Settings, audience: Sequence[str]) -> Database:
    """The same, of which is read what one of these may; all of it where none is named.

    Raises ConfigError for what is no name of an audience.
    """
    names = [name for each in audience for name in audiences.parse([each])]
    opened = open_database(settings)
    return opened.reading_as(names) if names else opened


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
