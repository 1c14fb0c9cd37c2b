"""The HTTP server under both stand-ins: every request goes to one function."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str  # as "POST"
    path: str  # without the query
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterator[bytes] | None  # pieces are sent as they come; None: hang up


class HangUp(Exception):
    """Raised among the pieces of a body to cut the connection there."""


def json_answer(
    body: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    return HttpAnswer(
        status=status,
        headers={"Content-Type": "application/json; charset=utf-8", **(headers or {})},
        body=json.dumps(body).encode(),
    )


class LocalHttp(ThreadingHTTPServer):
    """A server on a free port of 127.0.0.1, running while its with-block does.

    answer is called on a thread of its own for each request. What it raises hangs up on the
    client, and is raised again at the end of the with-block.
    """

    daemon_threads = False  # so that leaving the block waits for the last answer
    block_on_close = True

    def __init__(self, answer: Callable[[HttpRequest], HttpAnswer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.errors: list[Exception] = []
        # serve_forever looks for its end only so often: at the default of 0.5 s, each test waits.
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        if self.errors:
            raise self.errors[0]


class _Handler(BaseHTTPRequestHandler):
    server: LocalHttp
    protocol_version = "HTTP/1.1"  # chunked, so that a cut differs from an end
    disable_nagle_algorithm = True  # else headers and body, written apart, cost 40 ms

    def do_POST(self) -> None:
        self.close_connection = True
        request = HttpRequest(
            method=self.command,
            path=self.path.partition("?")[0],
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(self.headers.get("Content-Length", 0))),
        )
        try:
            self._send(self.server.answer(request))
        except HangUp:
            self._hang_up()
        except ConnectionError:
            pass  # the client gave up first, as a test of timeouts wants it to
        except Exception as error:
            self.server.errors.append(error)
            self._hang_up()

    do_GET = do_PATCH = do_POST

    def _send(self, answer: HttpAnswer) -> None:
        if answer.body is None:
            raise HangUp
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Connection": "close"}.items():
            self.send_header(name, value)
        if isinstance(answer.body, bytes):
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in answer.body:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _hang_up(self) -> None:
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the client was faster

    def log_message(self, format: str, *args: object) -> None:
        pass
