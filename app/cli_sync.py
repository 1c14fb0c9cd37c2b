"""`footnote sync`: the sources of sources.yml brought up to date."""

import sys
from typing import TYPE_CHECKING

import click

from app import commands, rendering, syncing
from app.config import Settings
from retrieval.errors import ConfigError, FootnoteError
from retrieval.sources.catalog import Source

if TYPE_CHECKING:  # takes seconds to import
    from retrieval.sync import Syncer


@click.command("sync")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@click.option("--prune", is_flag=True, help="Remove at once what the sources named have no more.")
@click.pass_obj
def sync_sources(settings: Settings, names: tuple[str, ...], prune: bool) -> None:
    """Bring the sources of SOURCES, or those named, up to date; only what changed is done again.

    What a source has no more is removed when it is missed again, some hours later. Sources that
    cannot be read are told of at the end of the others, and the status is 1.
    """
    if prune and not names:
        raise click.UsageError("Name the sources that --prune is for.")
    sources = syncing.find_sources(settings, names)
    syncer = syncing.build_syncer(settings, commands.open_database(settings))
    failures = [failure for source in sources if (failure := _sync(syncer, source, prune=prune))]
    for failure in failures:
        click.echo(f"Error: {failure}", err=True)
    if failures:
        sys.exit(1)


def run(syncer: "Syncer", source: Source, *, prune: bool) -> None:
    """Bring a source up to date, with a bar, and print what that did.

    Raises as sync.sync does, and ConfigError where so much was gone that nothing was removed.
    """
    from retrieval import sync

    with rendering.progress_bar("document") as progress:
        summary = sync.sync(syncer, source, prune=prune, progress=progress)
    click.echo(rendering.build_summary(summary))
    if summary.doubt:
        raise ConfigError(summary.doubt)


def _sync(syncer: "Syncer", source: Source, *, prune: bool) -> str | None:
    """What went wrong with a source, whatever it was: the others go on."""
    click.echo(f"[{source.name}]")
    try:
        run(syncer, source, prune=prune)
    except FootnoteError as error:
        return f"{source.name}: {error}"
    except Exception as error:
        return f"{source.name}: it failed with {type(error).__name__}; the others went on."
    return None
