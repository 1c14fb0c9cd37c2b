"""The one place that writes to Slack."""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from uuid import UUID

import httpx2
from slack_bolt import Respond
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry import HttpRequest, HttpResponse, RetryHandler, RetryState
from slack_sdk.web import SlackResponse
from slack_sdk.webhook import WebhookResponse

from app.blocks import Block, Message
from app.records import Arrival
from retrieval.errors import FootnoteError

RATE_LIMIT_RETRIES = 3  # each waits for as long as Slack says,
LONGEST_WAIT_S = 60  # unless that is longer: who asked has given up by then; chosen
MOST_TOLD_S = 3_600  # of waiting that is believed; chosen
UNTOLD_WAIT_S = 1  # where it does not say, or not in seconds
RATE_LIMITED = 429  # the HTTP status with which Slack asks to wait
PAGE = 200  # messages of a thread that Slack tells at once; it advises no more
HASTE_S = 3  # a sign or a form that comes later than this is not worth waiting for
WORKING_SIGN = "eyes"

FAILURE = (
    "Sorry, something broke while I was looking for an answer, so I have none. Please ask again; "
    "if that does not help, tell whoever looks after Footnote this reference: {reference}"
)
BUSY = (
    "Sorry, more is asked of me just now than I can answer soon. Please ask again in a few minutes."
)
LATE = (
    "Sorry, I could not answer this in time, though I tried again and again. Please ask once more; "
    "if that does not help, tell whoever looks after Footnote this reference: {reference}"
)
NARROWED = "The pages that this rests on have changed meanwhile: please ask again."
NOT_DONE = (
    "Sorry, something broke, so that did not work. Please try again; if that does not help, tell "
    "whoever looks after Footnote this reference: {reference}"
)

# What slack_sdk lets through when the connection and not Slack's answer is at fault.
CONNECTION_FAULTS = (OSError, HTTPException)
# With these, Slack may have done what it was asked to: "some aspect of the operation succeeded".
UNSURE = ("fatal_error", "internal_error")
PASSING = (*UNSURE, "ratelimited", "request_timeout", "service_unavailable")
GONE = ("channel_not_found", "message_not_found")  # what is there no more needs no deleting

log = logging.getLogger(__name__)


class PostLost(FootnoteError):
    """Slack did not say whether it took a message; it may stand there, so none is sent again."""


class FormRefused(FootnoteError):
    """Slack did not open a form; pressing again helps, as what allows it lives 3 s."""


class StoppedByAsker(FootnoteError):
    """Whoever asked has seen enough of an answer; no more of it is to be shown."""


class StreamLost(FootnoteError):
    """A message does not grow, or nobody knows whether it does; posting it whole helps."""


class StreamLimited(FootnoteError):
    """Slack asks to wait before a message goes on growing."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("Slack asks to wait.")
        self.retry_after_s = retry_after_s


class FileRefused(FootnoteError):
    """Slack did not take a file, and posted nothing; posting what belongs to it alone helps."""


class NotInChannel(FootnoteError):
    """Footnote is not where it is asked; inviting it helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who alone sees a message, and where."""

    user_id: str
    channel_id: str
    thread_ts: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file, and what who does not see it is told of it."""

    name: str
    content: bytes
    alt_text: str  # at most 1,000 characters


def build_client(token: str, base_url: str, *noting: RetryHandler) -> WebClient:
    """A client that waits when told to, and sends nothing twice; noting are told of each call.

    slack_sdk's default repeats any call whose answer got lost, a post that arrived included.
    """
    retry = _WaitAsTold(max_retry_count=RATE_LIMIT_RETRIES)
    return WebClient(token, base_url=base_url, retry_handlers=[*noting, retry])


class _WaitAsTold(RetryHandler):
    """Repeats a call that Slack has put off. slack_sdk's own handler raises ValueError where it is
    not told seconds, and waits for as long as it is told (3.48)."""

    def _can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        is_limited = response is not None and response.status_code == RATE_LIMITED
        return is_limited and _find_wait_s(response) <= LONGEST_WAIT_S

    def prepare_for_next_attempt(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> None:
        time.sleep(_find_wait_s(response))
        state.next_attempt_requested = True
        state.increment_current_attempt()


def _find_wait_s(response: HttpResponse | SlackResponse | None) -> float:
    """How long Slack asks to wait."""
    headers = response.headers if response is not None else {}
    for name, value in headers.items():
        told = value[0] if isinstance(value, list) and value else value
        if name.lower() == "retry-after" and str(told).isdecimal():
            return min(float(str(told)), MOST_TOLD_S)
    return UNTOLD_WAIT_S


def find_wait(error: SlackApiError, backoff_s: float) -> float | None:
    """How long to wait before Slack is asked the same again; None where it would say the same.

    That is as long as it tells, or backoff_s.
    """
    if error.response.status_code == RATE_LIMITED:
        return _find_wait_s(error.response)
    is_passing = error.response.status_code >= 500 or error.response.get("error") in PASSING
    return backoff_s if is_passing else None


def build_asker(arrival: Arrival) -> Reader:
    """Who has asked, in the place where that was."""
    return Reader(
        user_id=str(arrival.user_id),
        channel_id=str(arrival.channel_id),
        thread_ts=arrival.thread_ts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which message of which answer one is; Slack keeps it with the message."""

    trace_id: UUID
    key: str  # of the answer: there may be several, one after the other, to a question
    number: int  # from 0
    count: int  # of all messages of the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A message of ours in a thread."""

    ts: str
    part: Part | None  # None: it carries no answer
    is_empty: bool  # as one is that was to grow


def post(client: WebClient, arrival: Arrival, message: Message, part: Part) -> str:
    """Put a message of the answer into the thread of its question; its ts.

    Raises SlackApiError when Slack refuses it, PostLost when nobody knows.
    """
    return tell(
        client,
        str(arrival.channel_id),
        message,
        thread_ts=arrival.thread_ts,
        metadata=_build_metadata(part),
    )


def find_own(client: WebClient, arrival: Arrival, bot_id: str) -> Iterator[Own]:
    """Our messages since a question in its thread, oldest first; raises as Slack's client does.

    Whoever may write there can give a message the same metadata, so whose it is counts.
    """
    cursor = ""
    while True:
        found = client.conversations_replies(
            channel=str(arrival.channel_id),
            ts=str(arrival.thread_ts),
            oldest=str(arrival.message_ts),
            include_all_metadata=True,
            limit=PAGE,
            cursor=cursor or None,
        )
        for message in found.get("messages") or []:
            if message.get("bot_id") == bot_id and message["ts"] > str(arrival.message_ts):
                yield Own(
                    ts=message["ts"],
                    part=_parse_metadata(message.get("metadata") or {}),
                    is_empty=not message.get("text") and not message.get("blocks"),
                )
        cursor = (found.get("response_metadata") or {}).get("next_cursor") or ""
        if not cursor:
            return


def replace(client: WebClient, arrival: Arrival, ts: str, message: Message, part: Part) -> str:
    """Put a message of the answer into the place of an earlier one; its ts.

    Where Slack does not let it, because somebody has deleted that say, it is posted, and the
    earlier one goes. Raises as post does.
    """
    try:
        change(client, str(arrival.channel_id), ts, message, metadata=_build_metadata(part))
    except SlackApiError as error:
        if find_wait(error, 0) is not None:
            raise
        log.info("Nothing changed in %s: %s", arrival.channel_id, type(error).__name__)
        take_back(client, str(arrival.channel_id), ts)
        return post(client, arrival, message, part)
    except CONNECTION_FAULTS as error:
        raise PostLost("Slack's answer to a change got lost.") from error
    return ts


def can_stream(arrival: Arrival) -> bool:
    """Whether Slack lets the answer to a question grow: in a channel it must know for whom."""
    is_direct = str(arrival.channel_id).startswith("D")
    return is_direct or bool(arrival.user_id and arrival.user_team_id)


def start_stream(client: WebClient, arrival: Arrival) -> str:
    """Open a message that grows in the thread of a question; its ts.

    It has no words yet, so that none is read twice should Slack's answer get lost. Raises
    StreamLimited and StreamLost. slack_sdk's chat_stream is not used: what it holds back in its
    buffer is lost with the stream.
    """
    with _streaming(arrival):
        response = hasten(client).chat_startStream(
            channel=str(arrival.channel_id),
            thread_ts=str(arrival.thread_ts),
            recipient_user_id=arrival.user_id,
            recipient_team_id=arrival.user_team_id,
        )
    return str(response["ts"])


def append_to_stream(client: WebClient, arrival: Arrival, ts: str, more: str) -> None:
    """Add Markdown to a message that grows; raises StreamLimited, StreamLost and StoppedByAsker."""
    with _streaming(arrival):
        hasten(client).chat_appendStream(channel=str(arrival.channel_id), ts=ts, markdown_text=more)


def stop_stream(
    client: WebClient, arrival: Arrival, ts: str, rest: str, below: Sequence[Block], part: Part
) -> None:
    """Add the rest of the Markdown to a message, with blocks below; then it grows no more.

    Waits when told to. Raises StreamLimited, StreamLost and StoppedByAsker.
    """
    with _streaming(arrival):
        client.chat_stopStream(
            channel=str(arrival.channel_id),
            ts=ts,
            markdown_text=rest or None,
            blocks=list(below),
            metadata=_build_metadata(part),
        )


def abandon_stream(client: WebClient, arrival: Arrival, ts: str) -> None:
    """Let a message grow no more, if it still does: until then it can't be replaced."""
    try:
        hasten(client).chat_stopStream(channel=str(arrival.channel_id), ts=ts)
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        log.info("No stream ended in %s: %s", arrival.channel_id, type(error).__name__)


@contextmanager
def _streaming(arrival: Arrival) -> Iterator[None]:
    try:
        yield
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        response = error.response if isinstance(error, SlackApiError) else {}
        if response.get("error") == "stopped_by_user":
            raise StoppedByAsker("The asker has stopped the answer.") from error
        if isinstance(error, SlackApiError) and error.response.status_code == RATE_LIMITED:
            raise StreamLimited(_find_wait_s(error.response)) from error
        reason = response.get("error", type(error).__name__)
        log.info("No stream in %s: %s", arrival.channel_id, reason)
        raise StreamLost("Slack does not let a message grow.") from error


def delete(client: WebClient, channel_id: str, ts: str) -> None:
    """Delete a message of ours, if it is still there; raises as Slack's client does."""
    try:
        client.chat_delete(channel=channel_id, ts=ts)
    except SlackApiError as error:
        if error.response.get("error") not in GONE:
            raise


def take_back(client: WebClient, channel_id: str, ts: str) -> bool:
    """Delete a message of ours, if it is still there and Slack lets us; whether it is gone."""
    try:
        delete(client, channel_id, ts)
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        log.warning("Nothing deleted in %s: %s", channel_id, type(error).__name__)
        return False
    return True


def reply_privately(respond: Respond, text: str) -> None:
    """Answer a command or a button so that only who used it sees the answer."""
    response = respond(
        text=text,
        response_type="ephemeral",
        replace_original=False,
        unfurl_links=False,
        unfurl_media=False,
    )
    _note_refusal(response)


def answer_command(respond: Respond, message: Message) -> None:
    """Answer a command with blocks that only who typed it sees."""
    blocks = list(message.blocks)
    response = respond(
        text=message.text,
        blocks=blocks,
        response_type="ephemeral",
        unfurl_links=False,
        unfurl_media=False,
    )
    _note_refusal(response)


def _note_refusal(response: WebhookResponse) -> None:
    """Log that a reply came too late, or once too often: slack_sdk raises nothing."""
    if response.status_code != 200:
        log.warning("A reply was refused: %s", response.status_code)


def publish_home(client: WebClient, user_id: str, blocks: Sequence[Block]) -> None:
    """Put these blocks into a person's App Home; where that fails, what stood there stays."""
    try:
        hasten(client).views_publish(user_id=user_id, view={"type": "home", "blocks": list(blocks)})
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        log.warning("views.publish did not work: %s", type(error).__name__)


def show_privately(client: WebClient, reader: Reader, message: Message) -> None:
    """Let one person see a message, if Slack takes that at once."""
    try:
        tell_privately(hasten(client), reader, message)
    except (SlackClientError, PostLost) as error:
        # To who has left the channel, or is only passing: what they did counts without it.
        log.info("Nothing shown in %s: %s", reader.channel_id, type(error).__name__)


def open_form(client: WebClient, trigger_id: str, view: Mapping[str, Any]) -> str:
    """Open a form for who has just pressed a button; its id. Raises FormRefused."""
    try:
        opened = hasten(client).views_open(trigger_id=trigger_id, view=dict(view))
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        raise FormRefused("Slack did not open a form.") from error
    return str((opened.get("view") or {}).get("id"))


def change_form(client: WebClient, view_id: str, view: Mapping[str, Any]) -> None:
    """Put a form into the place of one that is open; where that fails, the other one stays."""
    try:
        hasten(client).views_update(view_id=view_id, view=dict(view))
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        log.info("No form changed: %s", type(error).__name__)  # it was closed meanwhile, say


def set_status(client: WebClient, arrival: Arrival, status: str) -> bool:
    """Show beside our name how far the question has come, or with "" no more; whether that goes.

    It does where Slack only asks for patience: what is shown then is the status before.
    """
    try:
        hasten(client).assistant_threads_setStatus(
            channel_id=str(arrival.channel_id), thread_ts=str(arrival.thread_ts), status=status
        )
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        log.info("No status in %s: %s", arrival.channel_id, type(error).__name__)
        return isinstance(error, SlackApiError) and error.response.status_code == RATE_LIMITED
    return True


def show_working(client: WebClient, arrival: Arrival) -> None:
    """Let the asker see that the question is being worked on, if Slack takes that at once."""
    try:
        _sign(hasten(client), "reactions.add", arrival)
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        # Without the scope, in a locked channel: the answer matters more.
        log.info("No sign in %s: %s", arrival.channel_id, type(error).__name__)


def clear_working(client: WebClient, arrival: Arrival) -> None:
    """Take the sign away again, if it is there; raises as Slack's client does where trying again
    helps: it would stay for good."""
    try:
        _sign(client, "reactions.remove", arrival)
    except SlackApiError as error:
        if find_wait(error, 0) is not None:
            raise


def hasten(client: WebClient, timeout_s: int = HASTE_S) -> WebClient:
    """The client, but waiting neither long nor again."""
    noting = [each for each in client.retry_handlers if not isinstance(each, _WaitAsTold)]
    return WebClient(
        client.token, base_url=client.base_url, timeout=timeout_s, retry_handlers=noting
    )


def _sign(client: WebClient, method: str, arrival: Arrival) -> None:
    sign = {"name": WORKING_SIGN, "channel": arrival.channel_id, "timestamp": arrival.message_ts}
    client.api_call(method, params=sign)


def _build_metadata(part: Part) -> dict[str, Any]:
    payload = {**asdict(part), "trace_id": str(part.trace_id)}
    return {"event_type": "footnote_answer", "event_payload": payload}


def _parse_metadata(metadata: Mapping[str, Any]) -> Part | None:
    if metadata.get("event_type") != "footnote_answer":
        return None
    try:
        payload = metadata["event_payload"]
        return Part(
            trace_id=UUID(payload["trace_id"]),
            key=str(payload["key"]),
            number=int(payload["number"]),
            count=int(payload["count"]),
        )
    except (KeyError, TypeError, ValueError):  # of a version that told less
        return None


def tell(
    client: WebClient,
    channel_id: str,
    message: Message,
    *,
    thread_ts: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """Put a message into a channel or a thread of it; its ts.

    Raises as post does.
    """
    try:
        response = client.chat_postMessage(
            channel=channel_id,
            thread_ts=thread_ts,
            text=message.text,
            blocks=list(message.blocks),
            metadata=dict(metadata) if metadata else None,
            parse="none",
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
        )
    except CONNECTION_FAULTS as error:
        raise PostLost("Slack's answer to a post got lost.") from error
    return str(response["ts"])


def share(client: WebClient, channel_id: str, message: Message, file: File) -> None:
    """Put a message with a file into a channel.

    Raises FileRefused, with what Slack says, where nothing is posted, and PostLost when nobody
    knows. slack_sdk's files_upload_v2 takes the same steps, but does not tell which one failed.
    """
    try:
        place = client.files_getUploadURLExternal(
            filename=file.name, length=len(file.content), alt_txt=file.alt_text
        )
        sent = httpx2.post(str(place["upload_url"]), content=file.content, timeout=client.timeout)
        sent.raise_for_status()
    except SlackApiError as error:
        raise FileRefused(str(error.response.get("error"))) from error
    except (SlackClientError, httpx2.HTTPError, httpx2.InvalidURL, *CONNECTION_FAULTS) as error:
        raise FileRefused(type(error).__name__) from error
    try:
        client.files_completeUploadExternal(
            files=[{"id": str(place["file_id"]), "title": file.name}],
            channel_id=channel_id,
            # And no initial_comment, in which Slack would make links of people's words.
            blocks=json.dumps(list(message.blocks)),
        )
    except SlackApiError as error:
        if has_surely_posted_nothing(error):
            raise FileRefused(str(error.response.get("error"))) from error
        raise PostLost("Slack's answer to a file got lost.") from error
    except CONNECTION_FAULTS as error:
        if isinstance(error, URLError):  # see has_surely_posted_nothing
            raise FileRefused(type(error).__name__) from error
        raise PostLost("Slack's answer to a file got lost.") from error


def change(
    client: WebClient,
    channel_id: str,
    ts: str,
    message: Message,
    *,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Put a message into the place of an earlier one of ours."""
    client.chat_update(
        channel=channel_id,
        ts=ts,
        text=message.text,
        blocks=list(message.blocks),
        metadata=dict(metadata) if metadata else None,
        parse="none",  # its default is another one than of a post
        link_names=False,
    )


def has_surely_posted_nothing(error: SlackApiError | PostLost) -> bool:
    """Whether a post that failed cannot stand there.

    urllib raises URLError for what fails until a request is sent, and for nothing after that.
    """
    if isinstance(error, SlackApiError):
        response = error.response
        return response.status_code < 500 and response.get("error") not in UNSURE
    return isinstance(error.__cause__, URLError)


def promise(client: WebClient, reader: Reader, message: Message) -> None:
    """Let one person see that an answer comes; raises NotInChannel where none can be posted."""
    try:
        tell_privately(hasten(client), reader, message)
    except (SlackClientError, PostLost) as error:
        reason = error.response.get("error") if isinstance(error, SlackApiError) else None
        if reason in ("not_in_channel", "channel_not_found"):
            raise NotInChannel("Footnote is not in a channel.") from error
        log.info("Nothing promised in %s: %s", reader.channel_id, type(error).__name__)


def tell_privately(client: WebClient, reader: Reader, message: Message) -> None:
    """Let one person see a message; raises as post does."""
    try:
        client.chat_postEphemeral(
            channel=reader.channel_id,
            user=reader.user_id,
            thread_ts=reader.thread_ts,
            text=message.text,
            blocks=list(message.blocks),
            parse="none",
            link_names=False,
        )
    except CONNECTION_FAULTS as error:
        raise PostLost("Slack's answer got lost.") from error


def suggest(
    client: WebClient,
    channel_id: str,
    prompts: Sequence[Mapping[str, str]],
    *,
    thread_ts: str | None = None,
) -> None:
    """Offer somebody questions to ask us directly, each with title and message.

    thread_ts is for an app with assistant_view alone: one with agent_view shows none with it.
    """
    try:
        hasten(client).assistant_threads_setSuggestedPrompts(
            channel_id=channel_id, thread_ts=thread_ts, prompts=[dict(each) for each in prompts]
        )
    except (SlackClientError, *CONNECTION_FAULTS) as error:
        log.info("No prompts in %s: %s", channel_id, type(error).__name__)
