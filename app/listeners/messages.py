"""Messages: what is written directly, what is overheard, and what becomes of questions later."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from slack_bolt import App, BoltContext

from app import channels, conversations, turns
from app.channels import ChannelMode
from app.jobs import Jobs
from app.listeners.first import before_ack
from app.records import Arrival
from app.turns import Standing
from retrieval.db import Database

log = logging.getLogger(__name__)


def register(
    app: App,
    jobs: Jobs,
    database: Database,
    *,
    allowed: Mapping[str, ChannelMode],
    heard: Callable[[dict[str, Any], BoltContext], None],
) -> None:
    """Listen to messages; of those in channels, to what is allowed there.

    heard is told of each, its whole request, after that.
    """

    def message(body: dict[str, Any], context: BoltContext) -> None:
        standing = note_standing(body, context, database, allowed)
        if find_reason_to_ignore(body["event"], context) == "OVERHEARD":
            overhear(body, context, standing)
        else:
            take(body, context, jobs)

    def acknowledged(body: dict[str, Any], context: BoltContext) -> None:
        heard(body, context)

    def overhear(body: dict[str, Any], context: BoltContext, standing: Standing | None) -> None:
        event, arrival = body["event"], build_arrival(body["event"], body, context)
        mode = channels.find_mode(allowed, event["channel"])
        silence = turns.find_reason_for_silence(event, arrival, mode, standing)
        if silence:
            log.debug("Silent on %s in %s: %s", event["ts"], event["channel"], silence)
            return
        jobs.take(arrival)

    app.event("message", middleware=[before_ack(message)])(acknowledged)


def note_standing(
    body: dict[str, Any],
    context: BoltContext,
    database: Database,
    allowed: Mapping[str, ChannelMode],
) -> Standing | None:
    """How the thread of what somebody says stands, adding whether others join it by this.

    None where there is no such thread, and where only mentions count.
    """
    event, bot_user_id = body["event"], str(context.bot_user_id)
    # The database is not asked of each word that is said anywhere.
    if channels.find_mode(allowed, event["channel"]) == "mentions" or not turns.may_join(
        event, bot_user_id=bot_user_id, bot_id=str(context.bot_id)
    ):
        return None
    standing = conversations.find_standing(database, build_arrival(event, body, context))
    if standing is not None and turns.joins(event, standing, bot_user_id=bot_user_id):
        conversations.save_joined(database, standing.trace_id)
    return standing


def take(body: dict[str, Any], context: BoltContext, jobs: Jobs) -> None:
    """Have a message answered, or leave it with the reason in the log.

    Of a question that is edited or deleted, the answer follows.
    """
    event = body["event"]
    us = {"bot_user_id": str(context.bot_user_id), "bot_id": str(context.bot_id)}
    if deleted_ts := turns.find_deleted(event):
        withdrawn = turns.find_withdrawn(event, **us)
        asked = None if withdrawn is None else build_arrival(withdrawn, body, context)
        jobs.withdraw(find_team_id(context), event["channel"], deleted_ts, asked)
        return
    if edited := turns.find_edited(event, **us):
        jobs.revise(build_arrival(edited, body, context))
        return
    reason = find_reason_to_ignore(event, context)
    if reason:
        log.debug("Ignored %s in %s: %s", event.get("ts"), event.get("channel"), reason)
        return
    jobs.take(build_arrival(event, body, context))


def find_reason_to_ignore(event: dict[str, Any], context: BoltContext) -> turns.Ignored | None:
    """As turns has it, for the bot that hears the event."""
    return turns.find_reason_to_ignore(
        event, bot_user_id=str(context.bot_user_id), bot_id=str(context.bot_id)
    )


def build_arrival(event: turns.Event, body: dict[str, Any], context: BoltContext) -> Arrival:
    """As turns has it, for the bot that hears the event, of whose request it is."""
    arrival = turns.build_arrival(
        event, team_id=find_team_id(context), bot_user_id=str(context.bot_user_id)
    )
    return replace(arrival, is_external=bool(body.get("is_ext_shared_channel")))


def find_team_id(context: BoltContext) -> str:
    """The workspace or organisation in which the app is installed; the same for every delivery.

    A request of an organisation's names one of the workspaces, not always the same.
    """
    token = context.authorize_result
    return (token.team_id or token.enterprise_id or "") if token else ""
