"""Claude, played on localhost for the real anthropic client: POST /v1/messages, streamed or not."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from .claude_messages import (
    Cite,
    Invalid,
    Reply,
    Text,
    build_events,
    build_message,
    check_request,
    obedient,
    parse_reply,
)
from .local_http import HangUp, HttpAnswer, HttpRequest, LocalHttp, json_answer
from .recording import Recording, anything

__all__ = ["Cite", "ClaudeStandIn", "Request", "Text", "obedient"]

REPLIES = Path(__file__).parent / "replies"
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}

Json = dict[str, Any]
Script = Sequence[Text] | str | Callable[[Mapping[str, Any]], Sequence[Text]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that was received, and the status it was answered with."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Mapping[str, Any]
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where one answer stops: for good, or until an event is set."""

    after_events: int
    how: Literal["drop", "end", "error"] | threading.Event

    def reached(self) -> None:
        if not isinstance(self.how, threading.Event):
            raise HangUp
        self.how.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    script: Script
    stop_reason: str | None
    where: Callable[[Mapping[str, Any]], bool]


class Refused(Exception):
    """Claude answers with an error."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.answer = json_answer(_error_body(status, message), status=status, headers=headers)


class ClaudeStandIn:
    """Claude, answering as scripted while its with-block runs, else with the first block it is
    given, cited.

    Streamed text comes in pieces of piece_characters. A block's citations come before its text, as
    recorded streams of the API have it; with citations_first=False after it, as in its reference.
    """

    api_key = "sk-ant-stand-in"

    def __init__(self, *, piece_characters: int = 7, citations_first: bool = True) -> None:
        self._piece_characters = piece_characters
        self._citations_first = citations_first
        self._requests: Recording[Request] = Recording()
        self._http = LocalHttp(self._answer)
        self._lock = threading.Lock()  # over what follows
        self._scripted: list[Scripted] = []
        self._failures: deque[Refused] = deque()
        self._breaks: deque[Break] = deque()
        self._garbled: deque[HttpAnswer] = deque()
        self._holds: list[threading.Event] = []
        self._message_count = 0

    def __enter__(self) -> Self:
        self._http.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for until in self._holds:
            until.set()
        self._http.__exit__(exc_type, exc, traceback)

    @property
    def base_url(self) -> str:
        """The base_url of an Anthropic client."""
        return self._http.url

    def requests(self) -> tuple[Request, ...]:
        """Everything received so far, oldest first, refused requests too."""
        return self._requests.having()

    def wait_for_request(
        self,
        *,
        count: int = 1,
        timeout_s: float = 10,
        where: Callable[[Request], bool] = anything,
    ) -> tuple[Request, ...]:
        """The requests that where accepts, once there are count of them.

        Raises AssertionError after timeout_s. A request counts before its answer begins.
        """
        return self._requests.wait_for(where, count=count, timeout_s=timeout_s)

    def assert_no_unknown_calls(self) -> None:
        """For the end of a test: nothing but /v1/messages was asked for."""
        unknown = [request.path for request in self.requests() if request.status == 404]
        assert not unknown, f"the Claude stand-in does not know {unknown}"

    def reply(
        self,
        script: Script,
        *,
        stop_reason: str | None = None,
        where: Callable[[Mapping[str, Any]], bool] = anything,
    ) -> None:
        """Script the answer to the next request whose body where accepts.

        script: the text blocks; or a function from the body to them; or the name of a file below
        replies/. stop_reason: "end_turn" unless the file or this says otherwise. A citation of
        what the request does not hold is answered with status 400, unless it brings its own text.
        """
        with self._lock:
            self._scripted.append(Scripted(script=script, stop_reason=stop_reason, where=where))

    def fail_next(
        self, status: int = 529, *, headers: Mapping[str, str] | None = None, times: int = 1
    ) -> None:
        """Answer the next requests with an error.

        The client's own retries, 2 by default, use up faults; they follow at once, since the
        answer says retry-after-ms: 1 unless headers say otherwise.
        """
        all_headers = {"retry-after-ms": "1", **(headers or {})}
        with self._lock:
            for _ in range(times):
                self._failures.append(Refused(status, f"stand-in: {status}", all_headers))

    def cut_next(self, *, after_events: int, how: Literal["drop", "end", "error"] = "drop") -> None:
        """End the next stream early: hang up, end it as if complete, or send an error event.

        The first events are message_start, content_block_start, ping, then the deltas.
        """
        with self._lock:
            self._breaks.append(Break(after_events=after_events, how=how))

    def hold_next(self, until: threading.Event, *, after_events: int = 0) -> None:
        """Stop the next stream, after so many events, until the event is set."""
        with self._lock:
            self._breaks.append(Break(after_events=after_events, how=until))
            self._holds.append(until)

    def garble_next(self, body: bytes, content_type: str = "application/json") -> None:
        """Answer the next request as a gateway that broke does: with status 200 and this body."""
        with self._lock:
            self._garbled.append(HttpAnswer(headers={"Content-Type": content_type}, body=body))

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        body = _decode(request)
        try:
            self._refuse(request, body)
            with self._lock:
                garbled = self._garbled.popleft() if self._garbled else None
            if garbled:
                self._record(request, body, garbled.status)
                return garbled
            message = self._message(body)
        except Refused as refused:
            self._record(request, body, refused.answer.status)
            return refused.answer
        with self._lock:
            stop = self._breaks.popleft() if self._breaks else None
        self._record(request, body, 200)
        if stop is not None and (stop.after_events == 0 or not body.get("stream")):
            stop.reached()
            stop = None
        headers = {"request-id": message["id"].replace("msg", "req")}
        if not body.get("stream"):
            return json_answer(message, headers=headers)
        headers["Content-Type"] = "text/event-stream; charset=utf-8"
        return HttpAnswer(headers=headers, body=self._stream(message, stop))

    def _record(self, request: HttpRequest, body: Json, status: int) -> None:
        self._requests.add(
            Request(path=request.path, headers=request.headers, body=body, status=status)
        )

    def _refuse(self, request: HttpRequest, body: Json) -> None:
        if request.path != "/v1/messages":
            raise Refused(404, "Not found")
        # anthropic 2.14 sends its api_key as a bearer token; curl and older clients as x-api-key.
        keys = (request.headers.get("x-api-key"), request.headers.get("authorization"))
        if keys not in ((self.api_key, None), (None, f"Bearer {self.api_key}")):
            raise Refused(401, "invalid x-api-key")
        if "anthropic-version" not in request.headers:
            raise Refused(400, "anthropic-version: header is required")
        try:
            check_request(body)
        except Invalid as invalid:
            raise Refused(400, str(invalid)) from invalid
        with self._lock:
            if self._failures:
                raise self._failures.popleft()

    def _message(self, body: Json) -> Json:
        with self._lock:
            self._message_count += 1
            message_id = f"msg_{self._message_count:04d}"
        try:
            return build_message(body, self._next_reply(body), message_id)
        except Invalid as invalid:
            raise Refused(400, str(invalid)) from invalid

    def _next_reply(self, body: Json) -> Reply:
        with self._lock:
            found = next((scripted for scripted in self._scripted if scripted.where(body)), None)
            if found is None:
                return Reply(parts=obedient(body))
            self._scripted.remove(found)
        if isinstance(found.script, str):
            reply = parse_reply(json.loads((REPLIES / found.script).read_text("utf-8")))
        else:
            parts = found.script(body) if callable(found.script) else found.script
            reply = Reply(parts=parts)
        return replace(reply, stop_reason=found.stop_reason or reply.stop_reason)

    def _stream(self, message: Json, stop: Break | None) -> Iterator[bytes]:
        events = build_events(
            message,
            piece_characters=self._piece_characters,
            citations_first=self._citations_first,
        )
        for number, (name, data) in enumerate(events):
            if stop is not None and number == stop.after_events:
                if stop.how == "error":
                    yield _sse("error", _error_body(529, "Overloaded"))
                if stop.how in ("error", "end"):
                    return
                stop.reached()
            yield _sse(name, data)


def _decode(request: HttpRequest) -> Json:
    try:
        decoded = json.loads(request.body)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _sse(name: str, data: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _error_body(status: int, message: str) -> Json:
    return {"type": "error", "error": {"type": ERROR_TYPES[status], "message": message}}
