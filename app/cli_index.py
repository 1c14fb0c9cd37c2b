"""The commands of the index's generations: parse, call one function, print."""

import click

from app import commands, rendering
from app.commands import as_json
from app.config import Settings

generation_id = click.argument("generation_id", metavar="[ID]", type=int, required=False)


@click.group("index")
def index_group() -> None:
    """What one embedding model and one chunker made of the documents, each by its number."""


@index_group.command("list")
@as_json
@click.pass_obj
def list_generations(settings: Settings, as_json: bool) -> None:
    """All generations: the active one is searched, those kept were, those ready may be."""
    from app import indexes  # loading PyTorch takes seconds

    opened = commands.open_database(settings)
    with opened.transaction() as connection:
        listed = indexes.load(connection)
    if as_json:
        for each in listed:
            click.echo(each.to_json())
    else:
        click.echo(indexes.build_text(listed))


@index_group.command("switch")
@generation_id
@click.pass_obj
def switch(settings: Settings, generation_id: int | None) -> None:
    """Search another generation, which gets what it lacks first; the one before is kept.

    Without ID the one that is ready, else the one before.
    """
    from app import parts
    from retrieval import switching

    opened = commands.open_database(settings)
    with rendering.progress_bar("document") as progress:
        searched = switching.switch(
            opened,
            parts.load_reranker(settings),
            parts.find_tuning(settings),
            generation_id=generation_id,
            progress=progress,
        )
    click.echo(f"Generation {searched.generation_id}, by {searched.embedder}, is searched now.")


@index_group.command("drop")
@generation_id
@click.pass_obj
def drop(settings: Settings, generation_id: int | None) -> None:
    """Delete a generation that is not searched; PostgreSQL uses its space again.

    ID may be left out where there is one.
    """
    from retrieval import switching

    dropped = switching.drop(commands.open_database(settings), generation_id=generation_id)
    click.echo(
        f"Generation {dropped.generation_id} ({dropped.state}), by {dropped.embedder}, is dropped: "
        f"{dropped.chunk_count:,} chunks."
    )
