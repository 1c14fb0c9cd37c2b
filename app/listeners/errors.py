"""What a listener lets through."""

import logging
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from slack_bolt import App, BoltContext, BoltResponse, Respond

from app import posting, turns
from app.jobs import Jobs
from app.listeners import messages

log = logging.getLogger(__name__)


def register(app: App, jobs: Jobs) -> None:
    """Have every error logged, and told to whoever waits for what did not come."""

    def failed(
        error: Exception, body: dict[str, Any], context: BoltContext, respond: Respond
    ) -> BoltResponse | None:
        event = body.get("event", {})
        is_message = event.get("type") in ("app_mention", "message")
        if is_message and event.get("subtype") in turns.QUESTION_SUBTYPES:
            arrival = turns.build_arrival(
                event,
                team_id=messages.find_team_id(context),
                bot_user_id=str(context.bot_user_id),
            )
            jobs.fail(error, arrival)
            return None
        reference = uuid4()
        log.error("%s failed", reference, exc_info=error)
        sentence = posting.NOT_DONE.format(reference=reference)
        kind = "command" if "command" in body else body.get("type")
        if kind == "view_submission":
            # Below the last field of the form, which stays open with all that was written.
            told = {"response_action": "errors", "errors": {_find_field(body["view"]): sentence}}
            return BoltResponse(status=200, body=told)
        if kind == "block_suggestion":
            return BoltResponse(status=200, body={"options": []})
        if kind == "command":
            sentence = posting.FAILURE.format(reference=reference)
        if respond.response_url:
            posting.reply_privately(respond, sentence)
        return None

    app.error(failed)


def _find_field(view: Mapping[str, Any]) -> str:
    """The last field of a form."""
    *_, last = (block["block_id"] for block in view["blocks"] if block["type"] == "input")
    return str(last)
