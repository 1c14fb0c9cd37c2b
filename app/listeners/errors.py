"""What a listener lets through."""

import logging
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from slack_bolt import App, BoltContext, BoltRequest, BoltResponse, Respond

from app import posting, turns
from app.jobs import Jobs
from app.listeners import first, messages

log = logging.getLogger(__name__)


def register(app: App, jobs: Jobs) -> None:
    """Have every error logged, and told to whoever waits for what did not come.

    Of what passes by itself nobody is told while Slack is to send an event again.
    """

    def failed(
        error: Exception,
        body: dict[str, Any],
        context: BoltContext,
        request: BoltRequest,
        respond: Respond,
    ) -> BoltResponse | None:
        is_acknowledged = "event" not in body or context.ack.response is not None
        if is_acknowledged:
            return tell(error, body, context, respond)
        if first.is_passing(error) and not first.is_last(request):
            log.warning("Slack is to send an event again: %s", type(error).__name__)
            return BoltResponse(status=503)
        # To tell may take longer than Slack waits.
        app.listener_runner.listener_executor.submit(tell, error, body, context, respond)
        return BoltResponse(status=200)

    def tell(
        error: Exception, body: dict[str, Any], context: BoltContext, respond: Respond
    ) -> BoltResponse | None:
        event = body.get("event", {})
        is_message = event.get("type") in ("app_mention", "message")
        # A mention comes as a message, too, of which nobody waits for anything.
        is_message = is_message and messages.find_reason_to_ignore(event, context) in (
            None,
            "OVERHEARD",
        )
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
