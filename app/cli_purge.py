"""`footnote purge`: deletes for good what is known of a person, of a page, or for too long."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import click
from sqlalchemy import Connection

from app import commands, posting, purging, retention
from app.config import Settings
from app.counting import count
from app.installations import Installations, find_tenant_id
from app.purging import Purged
from retrieval import purged, source_locks
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.purged import Key

_USER_ID = re.compile(r"[UW][A-Z0-9]+")

Purge = Callable[[Connection], Purged]


@click.command("purge")
@click.option("--user", "user_id", metavar="USER", help="All of a person, by Slack user id.")
@click.option(
    "--page",
    "path",
    metavar="PATH",
    help="All of a page, and of those of the very same text; they then stay out.",
)
@click.option("--source", help="With --page, where several sources have a page of that path.")
@click.option("--readmit", is_flag=True, help="With --page: let it in again at the next sync.")
@click.option("--expired", is_flag=True, help="What is older than RETENTION_DAYS.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@click.pass_obj
def purge(
    settings: Settings,
    user_id: str | None,
    path: str | None,
    source: str | None,
    readmit: bool,
    expired: bool,
    yes: bool,
) -> None:
    """Delete for good what is known of a person or a page, or for longer than it is to be kept.

    It says first what that comes to. Backups of the database still have it; the logs never had.
    """
    if (user_id is not None) + (path is not None) + expired != 1:
        raise click.UsageError("Give --user, --page or --expired, one of the three.")
    if path is None and (source or readmit):
        raise click.UsageError("--source and --readmit go with --page.")
    if user_id is not None and not _USER_ID.fullmatch(user_id):
        raise click.UsageError(
            "--user takes a Slack user id such as U012ABCDEF: in Slack, it is in a person's "
            "profile under ⋮, Copy member ID."
        )
    opened = commands.open_database(settings)
    if user_id is not None:
        _purge(settings, opened, partial(purging.purge_person, user_id=user_id), yes=yes)
    elif path is None:
        _purge(settings, opened, _build_expiry(settings), yes=yes)
    else:
        with opened.transaction() as connection:
            page = purging.find_page(connection, path, source)
        if readmit:
            _readmit(opened, page)
            return
        with source_locks.only_one(opened, page.source):  # an ingest may have read it already
            _purge(settings, opened, partial(purging.purge_page, page=page), yes=yes)


def _build_expiry(settings: Settings) -> Purge:
    if settings.retention_days is None:
        raise ConfigError("RETENTION_DAYS is not set: everything is kept.")
    return partial(retention.purge_expired, days=settings.retention_days, now=datetime.now(UTC))


def _readmit(opened: Database, page: Key) -> None:
    with opened.transaction() as connection:
        if not purged.readmit(connection, page):
            raise ConfigError(f"{page.path!r} of source {page.source!r} was not purged.")
    click.echo("The page comes in again when its source is next read.")


def _purge(settings: Settings, opened: Database, purge: Purge, *, yes: bool) -> None:
    with opened.transaction() as connection:
        found = purge(connection)
        connection.rollback()  # only to tell what would go
    token = _find_token(settings, opened)
    click.echo("\n".join(_tell(found, settings, has_token=token is not None)))
    if not (any(found.counts.values()) or found.messages):
        return
    if not yes:
        click.confirm("Delete for good?", abort=True)
    # First: afterwards nobody knows any more where they are.
    left = _take_back(settings, token, found)
    with opened.transaction() as connection:
        purge(connection)
    click.echo("Deleted.")
    if left:
        click.echo(f"{count(left, 'message')} of ours could not be deleted in Slack.", err=True)


def _find_token(settings: Settings, opened: Database) -> str | None:
    """By which our messages can be deleted: the bot's own, or that of the tenant's installation."""
    if settings.slack_bot_token is not None:
        return settings.slack_bot_token.get_secret_value()
    if settings.slack_client_id is None:
        return None
    bots = Installations(settings.slack_client_id, opened.engine).list_bots()
    return next((bot.bot_token for bot in bots if find_tenant_id(bot) == opened.tenant_id), None)


def _tell(found: Purged, settings: Settings, *, has_token: bool) -> list[str]:
    lines = [f"{what}: {number:,}" for what, number in found.counts.items() if number]
    if found.messages:
        why = (
            f"{settings.tenant_id} has not installed the app"
            if settings.slack_client_id
            else "SLACK_BOT_TOKEN is not set"
        )
        what = "" if has_token else f", which stay, as {why}"
        lines.append(f"messages of ours in Slack: {len(found.messages):,}{what}")
    return lines or ["nothing to delete"]


def _take_back(settings: Settings, token: str | None, found: Purged) -> int:
    """Delete our messages, if there is a token; how many of them may stand yet."""
    if token is None:
        return 0
    client = posting.build_client(token, settings.slack_api_url)
    gone = [posting.take_back(client, channel_id, ts) for channel_id, ts in found.messages]
    return gone.count(False)
