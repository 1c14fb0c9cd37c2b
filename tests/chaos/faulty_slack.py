"""Slack as it is on a bad day: the stand-in, with faults between it and Footnote."""

import json
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, TypeVar

from tests.stand_ins import slack_payloads
from tests.stand_ins.local_http import HttpAnswer, HttpRequest, json_answer
from tests.stand_ins.recording import Recording
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.slack_calls import decode_params
from tests.stand_ins.slack_socket import Ack
from tests.stand_ins.slack_workspace import BOT_ID

from .journal import Journal
from .plan import Dice

Json = dict[str, Any]
T = TypeVar("T")
STATUS_S = 120.0  # for which Slack shows a status
HANG_S = 35.0  # slack_sdk waits for 30 s
READING = ("conversations.replies", "conversations.info", "users.info", "conversations.members")


class Handing(Recording[T]):
    """Hands on what is recorded and keeps none of it: a day is long."""

    def __init__(self, take: Callable[[T], None]) -> None:
        super().__init__()
        self._take = take

    def add(self, record: T) -> None:
        self._take(record)


class FaultySlack(SlackStandIn):
    """A workspace whose calls go wrong as the dice say.

    It knows what else stands there than messages: statuses, and what was shown to one person.
    """

    def __init__(self, dice: Dice, journal: Journal, acked: Callable[[Ack], None]) -> None:
        super().__init__()
        self._calls = Handing(lambda _: None)
        self._socket.acks = Handing(acked)
        self._dice = dice
        self._journal = journal
        self._is_over = threading.Event()
        self._seen_lock = threading.Lock()
        self.call_count = 0
        self.told_at: dict[tuple[str, str], float] = {}  # last change, by channel and ts
        self.told_times: list[float] = []
        self._statuses: dict[tuple[str, str], float] = {}  # since when, by channel and thread
        self.shown_privately: list[Json] = []

    def let_go(self) -> None:
        """End all hanging calls."""
        self._is_over.set()

    def deliver(self, event: Mapping[str, Any], event_id: str, retry_attempt: int) -> str | None:
        """Send an event down one of the open connections; its envelope_id, None if none is open."""
        if not self._socket.count_connections():
            return None
        payload = slack_payloads.event_callback(event, event_id)
        reason = "timeout" if retry_attempt else ""
        return self._send("events_api", payload, retry_attempt=retry_attempt, retry_reason=reason)

    def new_event_id(self) -> str:
        return self._next_id("Ev")

    def cut_connections(self) -> None:
        """End the open WebSockets without a closing handshake, as a broken line does."""
        self._socket.cut_connections()

    def count_connections(self) -> int:
        return self._socket.count_connections()

    def list_statuses(self) -> list[tuple[str, str]]:
        """Where a status is shown, by channel and thread."""
        with self._seen_lock:
            return [place for place, at in self._statuses.items() if monotonic() - at < STATUS_S]

    def list_growing(self) -> list[tuple[str, str]]:
        """The messages that have not ended growing, by channel and ts."""
        with self._lock:
            return sorted(self.workspace.list_streaming())

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        method = request.path.rpartition("/")[2]
        way = self._dice.roll()
        if way is None:
            return self._take(method, request)
        self._journal.note(f"fault: {method} {way} {self._describe(request)}")
        if way == "429":
            wait_s = round(self._dice.draw(1, 4))
            body = {"ok": False, "error": "ratelimited"}
            return json_answer(body, status=429, headers={"Retry-After": str(wait_s)})
        if way in ("500", "503"):
            return json_answer({"ok": False, "error": "internal_error"}, status=int(way))
        if way == "500 after effect":
            self._take(method, request)
            return json_answer({"ok": False, "error": "internal_error"}, status=500)
        if way == "cut before effect":
            return HttpAnswer(body=None)
        if way == "cut after effect":
            self._take(method, request)
            return HttpAnswer(body=None)
        answer = self._take(method, request)
        self._is_over.wait(self._dice.draw(1, 8) if way == "slow" else HANG_S)
        return answer if way == "slow" else HttpAnswer(body=None)

    def _take(self, method: str, request: HttpRequest) -> HttpAnswer:
        answer = super()._answer(request)
        self.call_count += 1
        if method not in READING and isinstance(answer.body, bytes):
            self._note(method, decode_params(request), json.loads(answer.body))
        return answer

    def _note(self, method: str, params: Json, result: Json) -> None:
        channel_id = params.get("channel") or params.get("channel_id")
        thread_ts = params.get("thread_ts")
        ts = result.get("ts") or params.get("ts") or params.get("timestamp") or ""
        told = result.get("error") or f"ok {ts}"
        self._journal.note(
            f"call: {method} {channel_id} thread {thread_ts} {told} {_name_trace(params)}"
        )
        if not result.get("ok"):
            return
        with self._seen_lock:
            if method == "assistant.threads.setStatus":
                self._statuses.pop((channel_id, thread_ts), None)
                if params.get("status"):
                    self._statuses[channel_id, thread_ts] = monotonic()
            if method in ("chat.postMessage", "chat.startStream"):
                self._statuses.pop((channel_id, thread_ts), None)  # the reply clears it
            if method in ("chat.postMessage", "chat.update", "chat.stopStream"):
                self.told_at[channel_id, ts] = monotonic()
                self.told_times.append(monotonic())
            if method == "chat.postEphemeral":
                self.shown_privately.append(params)

    def _describe(self, request: HttpRequest) -> str:
        params = decode_params(request)
        places = (params.get("channel") or params.get("channel_id"), params.get("thread_ts"))
        return " ".join(
            map(str, (*places, params.get("ts") or params.get("timestamp"), _name_trace(params)))
        )


def find_trace_id(message: Mapping[str, Any]) -> str | None:
    """Of which question a message of ours is, as it says itself."""
    payload = (message.get("metadata") or {}).get("event_payload") or {}
    return payload.get("trace_id")


def is_ours(message: Mapping[str, Any]) -> bool:
    return message.get("bot_id") == BOT_ID and message.get("subtype") != "tombstone"


def _name_trace(params: Mapping[str, Any]) -> str:
    trace_id = find_trace_id(params)
    return f"trace {trace_id}" if trace_id else ""
