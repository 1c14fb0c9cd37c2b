"""`footnote verify`: pages that are still true, from the terminal."""

import getpass

import click

from app import commands, confirming
from app.config import Settings


@click.command()
@click.argument("pages", metavar="PAGE...", nargs=-1, required=True)
@click.option("--by", metavar="NAME", help="Who says so; default: the user of the system.")
@click.option("--source", help="Of which source the pages are, where others have such pages.")
@click.pass_obj
def verify(settings: Settings, pages: tuple[str, ...], by: str | None, source: str | None) -> None:
    """Say that pages, each given by its path, title or address, are still true.

    They count as verified today, until they are stale again. Either all of them do, or none.
    """
    opened = commands.open_database(settings)
    found = confirming.find_pages(opened, pages, source)
    confirming.confirm(opened, [page.document_id for page in found], by or getpass.getuser())
    for page in found:
        before = f"last verified {page.verified_at}" if page.verified_at else "without a date"
        click.echo(f"{page.path}: “{page.title}” counts as verified today; it was {before}")
