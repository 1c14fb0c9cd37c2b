"""`footnote trace`: the story of one question."""

import click

from app import commands
from app.config import Settings


@click.command("trace")
@click.argument("named", metavar="ID")
@commands.as_json
@click.pass_obj
def trace(settings: Settings, named: str, as_json: bool) -> None:
    """What became of one question, in order of time (UTC).

    ID is the reference that its asker was told, or the first 8 or more characters of it; or the
    link to the question or to its answer in Slack, or the ts of either.
    """
    from app import story, story_text

    with commands.open_database(settings).snapshot() as connection:
        trace_id = story.find(connection, named)
        told = story.load(connection, trace_id, freshness_days=settings.freshness_days)
    click.echo(story_text.to_json(told) if as_json else story_text.build(told))
