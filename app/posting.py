"""The one place that writes to Slack."""

import logging
from http.client import HTTPException
from uuid import UUID

from slack_bolt import Respond
from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError
from slack_sdk.http_retry import RateLimitErrorRetryHandler

from app.blocks import Message
from app.records import Arrival
from retrieval.errors import FootnoteError

RATE_LIMIT_RETRIES = 3  # each waits for as long as Slack says
SIGN_TIMEOUT_S = 3  # a sign that comes later than this is not worth waiting for
WORKING_SIGN = "eyes"

FAILURE = (
    "Sorry, something broke while I was looking for an answer, so I have none. Please ask again; "
    "if that does not help, tell whoever looks after Footnote this reference: {reference}"
)

# What slack_sdk lets through when the connection and not Slack's answer is at fault.
CONNECTION_FAULTS = (OSError, HTTPException)

log = logging.getLogger(__name__)


class PostLost(FootnoteError):
    """Slack did not say whether it took a message; it may stand there, so none is sent again."""


def build_client(token: str, base_url: str) -> WebClient:
    """A client that waits when told to, and sends nothing twice.

    slack_sdk's default repeats any call whose answer got lost, a post that arrived included.
    """
    retry = RateLimitErrorRetryHandler(max_retry_count=RATE_LIMIT_RETRIES)
    return WebClient(token, base_url=base_url, retry_handlers=[retry])


def post(client: WebClient, arrival: Arrival, message: Message, trace_id: UUID) -> str:
    """Put a message of the answer into the thread of its question; its ts.

    Raises SlackApiError when Slack refuses it, PostLost when nobody knows.
    """
    try:
        response = client.chat_postMessage(
            channel=str(arrival.channel_id),
            thread_ts=arrival.thread_ts,
            text=message.text,
            blocks=list(message.blocks),
            metadata={
                "event_type": "footnote_answer",
                "event_payload": {"trace_id": str(trace_id)},
            },
            parse="none",
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
        )
    except CONNECTION_FAULTS as error:
        raise PostLost("Slack's answer to a post got lost.") from error
    return str(response["ts"])


def post_failure(client: WebClient, arrival: Arrival, reference: UUID) -> None:
    """Tell the asker that there is no answer, and by what to find out why."""
    client.chat_postMessage(
        channel=str(arrival.channel_id),
        thread_ts=arrival.thread_ts,
        text=FAILURE.format(reference=reference),
    )


def reply_privately(respond: Respond, text: str) -> None:
    """Answer a command so that only who typed it sees the answer."""
    respond(text=text, response_type="ephemeral")


def show_working(client: WebClient, arrival: Arrival) -> None:
    """Let the asker see that the question is being worked on, if Slack takes that at once."""
    hasty = WebClient(
        client.token, base_url=client.base_url, timeout=SIGN_TIMEOUT_S, retry_handlers=[]
    )
    _sign(hasty, "reactions.add", arrival)


def clear_working(client: WebClient, arrival: Arrival) -> None:
    """Take the sign away again."""
    _sign(client, "reactions.remove", arrival)


def _sign(client: WebClient, method: str, arrival: Arrival) -> None:
    sign = {"name": WORKING_SIGN, "channel": arrival.channel_id, "timestamp": arrival.message_ts}
    try:
        client.api_call(method, params=sign)
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        # Without the scope, in a locked channel, on a deleted message: the answer matters more.
        log.info("%s in %s did not work: %s", method, arrival.channel_id, type(error).__name__)
