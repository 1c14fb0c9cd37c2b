"""Slack's side of Socket Mode.

The frames are those of `websockets`, whose threaded server (websockets.sync.server) fits the
threads of the other servers here and of Bolt: it answers pings, unmasks, closes by the book and
joins its threads at the end. simple-websocket serves inside a WSGI server, which would be one more;
wsproto leaves sockets and threads to us.
"""

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from .recording import Recording
from .slack_workspace import APP_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """What the app answered to one envelope."""

    envelope_id: str
    payload: Mapping[str, Any] | None  # of a command or view: what ack() was given
    ack_seconds: float  # since the envelope was sent


class MuteableConnection(ServerConnection):
    """A connection on which the server can fall silent; what it has to say is then lost."""

    is_mute = False

    def send_data(self) -> None:
        if self.is_mute:
            self.protocol.data_to_send()
        else:
            super().send_data()


class SocketMode:
    """A WebSocket server on a free port of 127.0.0.1, running while its with-block does.

    Each envelope goes to one of the open connections, in turn; while none is open, envelopes wait
    for the next one.
    """

    def __init__(self) -> None:
        self.acks: Recording[Ack] = Recording()
        # Slack's clients offer no compression. A client that died gets 1 s to say goodbye.
        self._server = serve(
            self._talk,
            "127.0.0.1",
            0,
            compression=None,
            close_timeout=1,
            create_connection=MuteableConnection,
            process_request=self._admit,
        )
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._changed = threading.Condition()
        self._connections: deque[MuteableConnection] = deque()  # the next in turn first
        self._addresses: dict[MuteableConnection, object] = {}  # a closed one does not tell its own
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._sent_at: dict[str, float] = {}
        self._sent: dict[str, Mapping[str, Any]] = {}
        self._is_refusing = self._is_mute = False

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/link"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()

    def send(self, envelope: Mapping[str, Any]) -> None:
        with self._changed:
            self._waiting.append(envelope)
            self._send_waiting()

    def wait_for_connections(self, count: int, timeout_s: float) -> None:
        """Return once exactly count connections are open; AssertionError after timeout_s."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._connections) == count, timeout_s):
                raise AssertionError(f"{len(self._connections)} connections, not {count}")

    def refresh_connections(self, reason: str, timeout_s: float) -> None:
        """Ask every connection to be replaced, and close it once as many new ones are open.

        Envelopes go to the new ones from the start. Raises AssertionError after timeout_s.
        """
        frame = json.dumps({"type": "disconnect", "reason": reason, "debug_info": {}})
        with self._changed:
            old = list(self._connections)
            self._connections.clear()
            for connection in old:
                with suppress(ConnectionClosed):  # its client was killed meanwhile
                    connection.send(frame)
        self.wait_for_connections(len(old), timeout_s)
        for connection in old:
            connection.close()

    def warn_connections(self, reason: str) -> None:
        """Say on every open connection that it ends soon; envelopes go there until it is closed."""
        frame = json.dumps({"type": "disconnect", "reason": reason, "debug_info": {}})
        with self._changed:
            for connection in self._connections:
                connection.send(frame)

    def forget_connections(self) -> None:
        """Send envelopes to new connections only; the open ones answer pings and bring nothing."""
        with self._changed:
            self._connections.clear()

    def mute_connections(self, *, and_new_ones: bool = False) -> None:
        """Leave the open connections open without a sign of life; envelopes wait for new ones.

        With and_new_ones those are as mute, from their greeting on, until hear_connections.
        """
        with self._changed:
            for connection in self._connections:
                connection.is_mute = True
            self._connections.clear()
            self._is_mute = and_new_ones

    def drop_connections(self, *, and_new_ones: bool = False) -> None:
        """Hang up without a closing handshake; with and_new_ones make none until
        hear_connections."""
        with self._changed:
            self._is_refusing = and_new_ones
            dropped = list(self._connections)
            self._connections.clear()
        for connection in dropped:
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)

    def hear_connections(self) -> None:
        """Make new connections again, and speak on them."""
        with self._changed:
            self._is_refusing = self._is_mute = False

    def find_unacknowledged(self) -> dict[str, Mapping[str, Any]]:
        """The envelopes that were sent and are not acknowledged, by id, oldest first."""
        acknowledged = {ack.envelope_id for ack in self.acks.having()}
        with self._changed:
            return {key: each for key, each in self._sent.items() if key not in acknowledged}

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if self._is_refusing:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "")
        return None

    def close_connections(self, client_address: object = None) -> None:
        """Close the connection from one address, or all of them, by a closing handshake."""
        with self._changed:
            open_now = {each: self._addresses[each] for each in self._connections}
        for connection, address in open_now.items():
            if client_address in (None, address):
                connection.close()

    def cut_connections(self) -> None:
        """End the open connections without a closing handshake, as a broken line does."""
        with self._changed:
            open_now = list(self._connections)
        for connection in open_now:
            with suppress(OSError):  # it has ended meanwhile
                connection.socket.shutdown(socket.SHUT_RDWR)

    def count_connections(self) -> int:
        with self._changed:
            return len(self._connections)

    def _talk(self, connection: MuteableConnection) -> None:
        address = connection.remote_address
        with self._changed:
            connection.is_mute = self._is_mute
            connection.send(json.dumps(_hello(len(self._connections) + 1)))
            if not connection.is_mute:
                self._addresses[connection] = address
                self._connections.append(connection)
            self._send_waiting()
            self._changed.notify_all()
        try:
            for frame in connection:
                self._take(json.loads(frame))
        except ConnectionClosed:
            pass  # slack_sdk leaves without a closing handshake
        finally:
            with self._changed:
                if connection in self._connections:
                    self._connections.remove(connection)
                self._changed.notify_all()

    def _send_waiting(self) -> None:
        while self._waiting and self._connections:
            self._connections.rotate(-1)
            envelope = self._waiting[0]
            self._sent[envelope["envelope_id"]] = envelope
            self._sent_at[envelope["envelope_id"]] = time.monotonic()
            try:
                self._connections[-1].send(json.dumps(envelope))
            except ConnectionClosed:
                self._connections.pop()  # its thread has yet to notice; the next one is tried
            else:
                self._waiting.popleft()

    def _take(self, frame: Mapping[str, Any]) -> None:
        envelope_id = frame["envelope_id"]
        self.acks.add(
            Ack(
                envelope_id=envelope_id,
                payload=frame.get("payload"),
                ack_seconds=time.monotonic() - self._sent_at[envelope_id],
            )
        )


def _hello(connection_count: int) -> Mapping[str, Any]:
    return {
        "type": "hello",
        "num_connections": connection_count,
        "connection_info": {"app_id": APP_ID},
        "debug_info": {"host": "stand-in", "approximate_connection_time": 3600},
    }
