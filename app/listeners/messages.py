"""Messages: what is written directly, what is overheard, and what becomes of questions later."""

import logging
from collections.abc import Mapping
from typing import Any

from slack_bolt import App, BoltContext

from app import channels, traces, turns
from app.channels import ChannelMode
from app.jobs import Jobs
from retrieval.db import Database

log = logging.getLogger(__name__)


def register(
    app: App, jobs: Jobs, database: Database, *, allowed: Mapping[str, ChannelMode]
) -> None:
    """Listen to messages; of those in channels, to what is allowed there."""

    def message(event: dict[str, Any], context: BoltContext) -> None:
        if find_reason_to_ignore(event, context) == "OVERHEARD":
            overhear(event, context)
        else:
            take(event, context, jobs)

    def overhear(event: dict[str, Any], context: BoltContext) -> None:
        mode = channels.find_mode(allowed, event["channel"])
        if mode == "mentions":  # the database is not asked of each word that is said anywhere
            return
        arrival = turns.build_arrival(
            event, team_id=find_team_id(context), bot_user_id=str(context.bot_user_id)
        )
        is_in_thread = arrival.thread_ts != arrival.message_ts
        standing = traces.find_standing(database, arrival) if is_in_thread else None
        if standing is not None and turns.joins(event, standing):
            traces.save_joined(database, standing.trace_id, event["ts"])
        silence = turns.find_reason_for_silence(event, arrival, mode, standing)
        if silence:
            log.debug("Silent on %s in %s: %s", event["ts"], event["channel"], silence)
            return
        jobs.take(arrival)

    app.event("message")(message)


def take(event: dict[str, Any], context: BoltContext, jobs: Jobs) -> None:
    """Have a message answered, or leave it with the reason in the log.

    Of a question that is edited or deleted, the answer follows.
    """
    bot_user_id, bot_id = str(context.bot_user_id), str(context.bot_id)
    team_id = find_team_id(context)
    if deleted_ts := turns.find_deleted(event):
        jobs.withdraw(team_id, event["channel"], deleted_ts)
        return
    if edited := turns.find_edited(event, bot_user_id=bot_user_id, bot_id=bot_id):
        jobs.revise(turns.build_arrival(edited, team_id=team_id, bot_user_id=bot_user_id))
        return
    reason = find_reason_to_ignore(event, context)
    if reason:
        log.debug("Ignored %s in %s: %s", event.get("ts"), event.get("channel"), reason)
        return
    jobs.take(turns.build_arrival(event, team_id=team_id, bot_user_id=bot_user_id))


def find_reason_to_ignore(event: dict[str, Any], context: BoltContext) -> turns.Ignored | None:
    """As turns has it, for the bot that hears the event."""
    return turns.find_reason_to_ignore(
        event, bot_user_id=str(context.bot_user_id), bot_id=str(context.bot_id)
    )


def find_team_id(context: BoltContext) -> str:
    """The workspace or organisation in which the app is installed; the same for every delivery."""
    return context.team_id or context.enterprise_id or ""
