"""`footnote sync`: the sources of sources.yml brought up to date."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from app import commands, rendering, syncing
from app.config import Settings
from retrieval.db import Database
from retrieval.errors import ConfigError, FootnoteError
from retrieval.sources.catalog import Source

if TYPE_CHECKING:  # takes seconds to import
    from retrieval.indexing import Summary
    from retrieval.sync import Syncer


@click.command("sync")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@click.option(
    "--prune",
    is_flag=True,
    help="Remove at once what those named have no more, or one that SOURCES has no more.",
)
@click.pass_obj
def sync_sources(settings: Settings, names: tuple[str, ...], prune: bool) -> None:
    """Bring the sources of SOURCES, or those named, up to date; only what changed is done again.

    What a source has no more is removed when it is missed again, some hours later; a source that
    SOURCES has no more stays until it is named with --prune. Sources that cannot be read are told
    of at the end of the others, and the status is 1.
    """
    from retrieval import sync

    if prune and not names:
        raise click.UsageError("Name the sources that --prune is for.")
    opened = commands.open_database(settings)
    if prune and not (names := _remove_retired(settings, opened, names)):
        return
    sources = syncing.find_sources(settings, names)
    for name, source in sync.narrow_renamed(opened, syncing.find_sources(settings)).items():
        click.echo(syncing.build_renamed(name, source), err=True)
    syncer = syncing.build_syncer(settings, opened)
    failures = [failure for source in sources if (failure := _sync(syncer, source, prune=prune))]
    for failure in failures:
        click.echo(f"Error: {failure}", err=True)
    if failures:
        sys.exit(1)


def run(bring: "Callable[..., Summary]", syncer: "Syncer", source: Source, *, prune: bool) -> None:
    """Bring a source up to date by sync.sync or sync.ingest, with a bar, and print what that did.

    Raises as that does, and ConfigError where so much was gone that nothing was removed.
    """
    with rendering.progress_bar("document") as progress:
        summary = bring(syncer, source, prune=prune, progress=progress)
    click.echo(rendering.build_summary(summary))
    if summary.doubt:
        raise ConfigError(summary.doubt)


def _remove_retired(
    settings: Settings, opened: Database, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Remove those sources that SOURCES does not name any more; the names that are left."""
    from retrieval import sync

    checkouts = settings.footnote_home / syncing.CHECKOUTS
    named = {source.name for source in syncing.find_sources(settings)}
    left = []
    for name in names:
        count = None if name in named else sync.remove(opened, checkouts, name)
        if count is None:
            left.append(name)
        else:
            click.echo(f"[{name}]\n{count} removed, all: {settings.sources} does not name it")
    return tuple(left)


def _sync(syncer: "Syncer", source: Source, *, prune: bool) -> str | None:
    """What went wrong with a source, whatever it was: the others go on."""
    from retrieval import sync

    click.echo(f"[{source.name}]")
    try:
        run(sync.sync, syncer, source, prune=prune)
    except FootnoteError as error:
        return f"{source.name}: {error}"
    except Exception as error:
        return f"{source.name}: it failed with {type(error).__name__}; the others went on."
    return None
