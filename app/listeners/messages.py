"""Direct messages: each one is a question. Also what becomes of questions afterwards."""

import logging
from typing import Any

from slack_bolt import App, BoltContext

from app import turns
from app.jobs import Jobs

log = logging.getLogger(__name__)


def register(app: App, jobs: Jobs) -> None:
    """Listen to messages; those in channels and those that say nothing new are let pass."""

    def message(event: dict[str, Any], context: BoltContext) -> None:
        take(event, context, jobs)

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
    reason = turns.find_reason_to_ignore(event, bot_user_id=bot_user_id, bot_id=bot_id)
    if reason:
        log.debug("Ignored %s in %s: %s", event.get("ts"), event.get("channel"), reason)
        return
    jobs.take(turns.build_arrival(event, team_id=team_id, bot_user_id=bot_user_id))


def find_team_id(context: BoltContext) -> str:
    """The workspace or organisation in which the app is installed; the same for every delivery."""
    return context.team_id or context.enterprise_id or ""
