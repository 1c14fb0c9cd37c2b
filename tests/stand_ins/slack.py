"""Slack, played on localhost for the real clients: Web API, response URLs and Socket Mode."""

import json
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from types import TracebackType
from typing import Any, Self

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler

from . import slack_payloads
from .local_http import HttpAnswer, HttpRequest, LocalHttp, json_answer
from .recording import Recording, anything
from .slack_calls import Call, Fault, check_token, decode_params, find_token
from .slack_limits import POST_TEXT
from .slack_oauth import OAuth
from .slack_socket import Ack, SocketMode
from .slack_workspace import Refused, Workspace, check_message

Json = dict[str, Any]
RETRIES = 3
SPOKEN = (None, "file_share", "thread_broadcast", "bot_message")  # subtypes that add a message


class SlackStandIn:
    """Slack with one workspace and one installed app, while its with-block runs.

    Nothing is kept between two of them, and every id and ts is the same each time.
    """

    bot_token = "xoxb-stand-in"
    app_token = "xapp-stand-in"

    def __init__(self) -> None:
        self.workspace = Workspace()
        self._calls: Recording[Call] = Recording()
        self._http = LocalHttp(self._answer)
        self.workspace.upload_url = f"{self._http.url}/upload"
        self.oauth = OAuth()
        self._socket = SocketMode()
        self._lock = threading.Lock()  # over the workspace, the faults and the counts
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._delays: dict[str, threading.Event] = {}
        self._canned: dict[str, Mapping[str, Any]] = {}
        self._counts: Counter[str] = Counter()
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._running.enter_context(self._http)
        self._running.enter_context(self._socket)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for until in self._delays.values():
            until.set()
        self._running.close()

    @property
    def api_url(self) -> str:
        """The base_url of a WebClient."""
        return f"{self._http.url}/api/"

    @contextmanager
    def connected(self, app: App, *, ping_interval_s: float = 10) -> Iterator[SocketModeHandler]:
        """app, listening over Socket Mode as in production, where a ping is sent every 10 s."""
        handler = SocketModeHandler(app, self.app_token, ping_interval=ping_interval_s)
        handler.client.connect()
        try:
            yield handler
        finally:
            # Left to itself, close() waits up to 3 s for a frame and 1 s for a message
            # (slack_sdk 3.48); the end of the connection and an empty message end both waits.
            handler.client.auto_reconnect_enabled = False
            with handler.client.connect_operation_lock:  # let a refresh end first
                session = handler.client.current_session
            if session is not None and session.sock is not None:
                self._socket.close_connections(session.sock.getsockname())
            handler.client.closed = True
            handler.client.enqueue_message("")
            handler.client.close()

    def calls(self, method: str) -> tuple[Call, ...]:
        """The calls of one method so far, oldest first."""
        return self._calls.having(lambda call: call.method == method)

    def wait_for_call(
        self,
        method: str,
        *,
        count: int = 1,
        timeout_s: float = 10,
        where: Callable[[Call], bool] = anything,
    ) -> tuple[Call, ...]:
        """The calls of one method that where accepts, once there are count of them.

        Raises AssertionError after timeout_s. A call counts once it has taken effect, which is
        before a delay holds back its answer.
        """
        return self._calls.wait_for(
            lambda call: call.method == method and where(call), count=count, timeout_s=timeout_s
        )

    def wait_for_message(
        self, channel_id: str, where: Callable[[Json], bool], *, timeout_s: float = 10
    ) -> Json:
        """The last message in a channel that where accepts, once there is one.

        Raises AssertionError after timeout_s.
        """

        def find() -> list[Json]:
            return [each for each in self.messages(channel_id) if where(each)]

        self._calls.wait_for(lambda _: bool(find()), timeout_s=timeout_s)
        return find()[-1]

    def wait_for_ack(self, envelope_id: str, *, timeout_s: float = 10) -> Ack:
        """The app's answer to one envelope. Raises AssertionError after timeout_s."""
        return self._socket.acks.wait_for(
            lambda ack: ack.envelope_id == envelope_id, timeout_s=timeout_s
        )[0]

    def acks(self) -> tuple[Ack, ...]:
        return self._socket.acks.having()

    def messages(self, channel_id: str, thread_ts: str | None = None) -> list[Json]:
        """What stands in a channel, or in one thread of it with its root, oldest first."""
        with self._lock:
            return deepcopy(self.workspace.messages(channel_id, thread_ts))

    def assert_no_unknown_calls(self) -> None:
        """For the end of a test: everything that was called is something Slack offers."""
        unknown = self._calls.having(
            lambda call: call.answer is not None and call.answer.get("error") == "unknown_method"
        )
        assert not unknown, f"the Slack stand-in does not know {[call.method for call in unknown]}"

    def write(
        self, text: str, *, channel_id: str, user_id: str = "U1", thread_ts: str | None = None
    ) -> Json:
        """A message that a person has just written: stored, and returned as Slack's event."""
        with self._lock:
            event = slack_payloads.message(
                channel_id=channel_id,
                user_id=user_id,
                text=text,
                ts=self.workspace.next_ts(),
                thread_ts=thread_ts,
                team_id=self.workspace.find_team_id(user_id),
            )
            self.workspace.keep(channel_id, event)
        return event

    def open_pane(self, *, channel_id: str, user_id: str = "U1") -> Json:
        """A person has opened the pane of an app with assistant_view; Slack's event for it."""
        with self._lock:
            thread_ts = self.workspace.open_pane(channel_id)
        return slack_payloads.assistant_thread_started(
            channel_id=channel_id, user_id=user_id, thread_ts=thread_ts
        )

    def edit(self, message: Mapping[str, Any], text: str, *, after_s: float = 5) -> Json:
        """A person has changed the text of a message after so long; Slack's event for it."""
        edited = {"user": message["user"], "ts": f"{float(message['ts']) + after_s:.6f}"}
        return self._change(message, {"text": text, "edited": edited})

    def unfurl(self, message: Mapping[str, Any]) -> Json:
        """Slack has put a preview of a link below a message; its event for it."""
        return self._change(message, {"attachments": [{"title": "Wiki", "id": 1}]})

    def delete(self, message: Mapping[str, Any]) -> Json:
        """A person has deleted a message; Slack's event for it."""
        channel_id = message["channel"]
        with self._lock:
            before, tombstone = self.workspace.remove(channel_id, message["ts"])
            ts = self.workspace.next_ts()
        if tombstone is None:
            return slack_payloads.message_deleted(before, channel_id=channel_id, ts=ts)
        return slack_payloads.message_changed(tombstone, before, channel_id=channel_id, ts=ts)

    def _change(self, message: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
        channel_id = message["channel"]
        with self._lock:
            before, after = self.workspace.change(channel_id, message["ts"], changes)
            ts = self.workspace.next_ts()
        return slack_payloads.message_changed(after, before, channel_id=channel_id, ts=ts)

    def send_event(
        self,
        event: Mapping[str, Any],
        *,
        event_id: str | None = None,
        retry_attempt: int | None = None,
    ) -> str:
        """Deliver an event; returns its envelope_id. The message it tells of is stored."""
        spoken = event["type"] in ("message", "app_mention") and event.get("subtype") in SPOKEN
        with self._lock:
            if spoken:
                self.workspace.keep(event["channel"], {**event, "type": "message"})
        channel = event.get("channel") or event.get("item", {}).get("channel")
        payload = slack_payloads.event_callback(
            event,
            event_id or self._next_id("Ev"),
            is_ext_shared=self.workspace.is_ext_shared(channel),
        )
        reason = "timeout" if retry_attempt else ""
        return self._send(
            "events_api", payload, retry_attempt=retry_attempt or 0, retry_reason=reason
        )

    def send_slash_command(self, command: str, text: str, user_id: str, channel_id: str) -> str:
        """Type a slash command; returns its envelope_id."""
        payload = slack_payloads.slash_command(
            command=command,
            text=text,
            user_id=user_id,
            channel_id=channel_id,
            trigger_id=self._trigger_id(),
            response_url=self._response_url(),
        )
        payload["team_id"] = self.workspace.find_team_id(user_id)
        return self._send("slash_commands", payload)

    def send_block_action(
        self, action: Mapping[str, Any], *, user_id: str, channel_id: str, message_ts: str
    ) -> str:
        """Use a button of a message; returns the envelope_id.

        action is what Slack puts into actions[0]: type, action_id, value. Of an ephemeral message,
        known by the message_ts that its call was answered with, Slack does not show the content.
        """
        with self._lock:
            message = self.workspace.find_shown(channel_id, message_ts, user_id)
            action_ts = self.workspace.next_ts()
        payload = slack_payloads.block_actions(
            action,
            user_id=user_id,
            channel_id=channel_id,
            message_ts=message_ts,
            message=message,
            action_ts=action_ts,
            trigger_id=self._trigger_id(),
            response_url=self._response_url(),
        )
        return self._send_interaction(payload)

    def send_message_shortcut(
        self, callback_id: str, message: Mapping[str, Any], *, user_id: str, channel_id: str
    ) -> str:
        """Use a shortcut of a message; returns its envelope_id."""
        with self._lock:
            action_ts = self.workspace.next_ts()
        payload = slack_payloads.message_action(
            callback_id,
            user_id=user_id,
            channel_id=channel_id,
            message=slack_payloads.stored(message),
            trigger_id=self._trigger_id(),
            action_ts=action_ts,
            response_url=self._response_url(),
        )
        return self._send_interaction(payload)

    def send_view_submission(
        self, view: Mapping[str, Any], *, user_id: str, values: Mapping[str, Any]
    ) -> str:
        """Submit a view that was opened, as its call's params["view"]; returns the envelope_id."""
        payload = slack_payloads.view_submission(
            view, user_id=user_id, values=values, trigger_id=self._trigger_id()
        )
        return self._send_interaction(payload)

    def send_block_suggestion(
        self, view: Mapping[str, Any], *, user_id: str, action_id: str, value: str
    ) -> str:
        """Type into an external_select of an opened view; returns the envelope_id.

        The payload of its ack holds the options.
        """
        (block,) = (
            block
            for block in view["blocks"]
            if block.get("element", {}).get("action_id") == action_id
        )
        assert len(value) >= block["element"].get("min_query_length", 3)
        payload = slack_payloads.block_suggestion(
            view, user_id=user_id, block_id=block["block_id"], action_id=action_id, value=value
        )
        return self._send_interaction(payload)

    def allow(self, method: str, answer: Mapping[str, Any]) -> None:
        """Answer a method that the stand-in does not play, always with the same."""
        self._canned[method] = answer

    def fail_next(
        self,
        method: str,
        *,
        status: int = 200,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        drop_connection: bool = False,
        after_storing: bool = False,
        times: int = 1,
    ) -> None:
        """Answer the next calls of one method with a fault.

        body: {"ok": False, "error": "internal_error"} unless given, "ratelimited" for status 429.
        drop_connection hangs up without an answer. With after_storing the call takes effect.
        """
        error = "ratelimited" if status == 429 else "internal_error"
        fault = Fault(
            status=status,
            body={"ok": False, "error": error} if body is None else body,
            headers=headers or {},
            drop_connection=drop_connection,
            after_storing=after_storing,
        )
        with self._lock:
            self._faults[method].extend([fault] * times)

    def delay(self, method: str, until: threading.Event) -> None:
        """Hold back the answers of a method until the event is set; the calls take effect."""
        self._delays[method] = until

    def wait_for_connections(self, count: int, *, timeout_s: float = 10) -> None:
        """Return once exactly count WebSockets are open; AssertionError after timeout_s."""
        self._socket.wait_for_connections(count, timeout_s)

    def refresh_connections(
        self, *, reason: str = "refresh_requested", timeout_s: float = 10
    ) -> None:
        """Have every open WebSocket replaced, as Slack does every few hours.

        Returns once the new ones are open; AssertionError after timeout_s.
        """
        self._socket.refresh_connections(reason, timeout_s)

    def warn_connections(self, *, reason: str = "warning") -> None:
        """Say on every open WebSocket that it ends soon, and go on using it."""
        self._socket.warn_connections(reason)

    def forget_connections(self) -> None:
        """Deliver nothing more on the open WebSockets, though they answer pings."""
        self._socket.forget_connections()

    def close_connections(self) -> None:
        """Close the open WebSockets without a word before."""
        self._socket.close_connections()

    def mute_connections(self, *, and_new_ones: bool = False) -> None:
        """Say nothing more on the open WebSockets, not even pong, and leave them open.

        With and_new_ones, neither on those that are opened until hear_connections.
        """
        self._socket.mute_connections(and_new_ones=and_new_ones)

    def drop_connections(self, *, and_new_ones: bool = False) -> None:
        """Hang up on the open WebSockets, not even closing them.

        With and_new_ones, refuse those that are to be opened until hear_connections.
        """
        self._socket.drop_connections(and_new_ones=and_new_ones)

    def hear_connections(self) -> None:
        """Have new WebSockets work again."""
        self._socket.hear_connections()

    def find_unacknowledged(self) -> tuple[str, ...]:
        """The envelope_ids of what was sent and is not acknowledged, oldest first.

        What is sent again is another envelope.
        """
        return tuple(self._socket.find_unacknowledged())

    def send_again(self, envelope_id: str) -> str:
        """Deliver what was not acknowledged once more, as Slack does; the envelope_id of that."""
        before = self._socket.find_unacknowledged()[envelope_id]
        attempt = before["retry_attempt"] + 1
        assert attempt <= RETRIES, "Slack does not send it again"
        return self._send(
            before["type"], before["payload"], retry_attempt=attempt, retry_reason="timeout"
        )

    def _send_interaction(self, payload: Json) -> str:
        team_id = self.workspace.find_team_id(payload["user"]["id"])
        payload["user"]["team_id"] = payload["team"]["id"] = team_id
        return self._send("interactive", payload)

    def _send(self, kind: str, payload: Json, **more: object) -> str:
        envelope_id = self._next_id("envelope-")
        envelope = {"envelope_id": envelope_id, "type": kind, "payload": payload, **more}
        self._socket.send({**envelope, "accepts_response_payload": kind != "events_api"})
        return envelope_id

    def _next_id(self, prefix: str) -> str:
        with self._lock:
            self._counts[prefix] += 1
            return f"{prefix}{self._counts[prefix]:04d}"

    def _trigger_id(self) -> str:
        with self._lock:
            return self.workspace.next_trigger_id()

    def _response_url(self) -> str:
        return f"{self._http.url}/response/{self._next_id('R')}"

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        method = _name_method(request.path)
        if method == "upload_url":
            params = {"file_id": request.path.rpartition("/")[2], "content": request.body}
        else:
            params = decode_params(request)
        with self._lock:
            fault = self._faults[method].popleft() if self._faults[method] else None
            if fault is None or fault.after_storing:
                answer = json_answer(
                    self._reply(method, params, find_token(request, params)),
                    headers=self._find_headers(method),
                )
        if fault is not None:
            answer = fault.answer()
        self._calls.add(
            Call(
                method=method,
                params=params,
                headers=request.headers,
                path=request.path,
                status=answer.status,
                answer=json.loads(answer.body) if isinstance(answer.body, bytes) else None,
            )
        )
        if method in self._delays:
            self._delays[method].wait()
        return answer

    def _find_headers(self, method: str) -> Mapping[str, str]:
        scopes = self.workspace.scopes
        told = method == "auth.test" and scopes is not None
        return {"x-oauth-scopes": ",".join(scopes or [])} if told else {}

    def _reply(self, method: str, params: Json, token: str | None) -> Json:
        try:
            if method == "upload_url":
                self.workspace.take_upload(params["file_id"], params["content"])
                return {"ok": True}
            if method == "response_url":
                if not params.get("delete_original"):
                    check_message(params, POST_TEXT)
                return {"ok": True}
            if method == "oauth.v2.access":
                return self.oauth.access(params)
            if method == "apps.connections.open":
                check_token(token, self.app_token, self.bot_token)
                return {"ok": True, "url": self._socket.url}
            if method not in self.workspace.methods and method not in self._canned:
                raise Refused("unknown_method")
            if token not in self.oauth.tokens:
                check_token(token, self.bot_token, self.app_token)
            elif method == "auth.test":
                return {**self.workspace.methods[method](params), **self.oauth.tokens[token]}
            if method in self._canned:
                return {"ok": True, **self._canned[method]}
            return self.workspace.methods[method](params)
        except Refused as refused:
            return refused.body


def _name_method(path: str) -> str:
    """What a call is called: "response_url" and "upload_url" beside the methods of the Web API."""
    for prefix, name in (("/response/", "response_url"), ("/upload/", "upload_url")):
        if path.startswith(prefix):
            return name
    return path.removeprefix("/api/")
