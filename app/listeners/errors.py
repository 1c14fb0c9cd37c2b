"""What a listener lets through."""

import logging
from typing import Any
from uuid import uuid4

from slack_bolt import App, BoltContext, Respond

from app import posting, turns
from app.jobs import Jobs
from app.listeners import messages

log = logging.getLogger(__name__)


def register(app: App, jobs: Jobs) -> None:
    """Have every error logged, and told to whoever waits for an answer."""

    def failed(
        error: Exception, body: dict[str, Any], context: BoltContext, respond: Respond
    ) -> None:
        event = body.get("event", {})
        if event.get("type") in ("app_mention", "message"):
            arrival = turns.build_arrival(
                event,
                team_id=messages.find_team_id(context),
                bot_user_id=str(context.bot_user_id),
            )
            jobs.fail(error, arrival, None)
            return
        reference = uuid4()
        log.error("%s failed", reference, exc_info=error)
        if "command" in body:
            posting.reply_privately(respond, posting.FAILURE.format(reference=reference))

    app.error(failed)
