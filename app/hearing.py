"""Socket Mode: a connection on which Slack is heard, and another one before it ends.

slack_sdk 3.48 connects anew by itself, on the thread that hands on what is heard: meanwhile
nothing is, not even what the connection before has brought. Where the new one fails it has closed
that, too. And it goes by a flag: a connection that is open and mute counts as one until the fourth
ping without an answer, and one that answers pings and brings nothing for ever. What it acknowledges
goes out on whichever connection is the latest. So here a connection is one client, and is replaced
as a whole.
"""

import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from slack_bolt import App
from slack_bolt.adapter.socket_mode.internals import run_bolt_app, send_response
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest

from app import posting
from app.health import Check
from retrieval.errors import FootnoteError

THREADS = 20  # a connection's, of which each waits for an acknowledgement; chosen
CALL_TIMEOUT_S = 10  # of apps.connections.open
LEAVE_S = 3  # after that, Slack sends again what is not acknowledged
MOST_CONNECTIONS = 10  # of one app; Slack's
_CUT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
_ENVELOPE = '"envelope_id"'  # what is to be acknowledged has it, and nothing else

log = logging.getLogger(__name__)


class Deaf(FootnoteError):
    """Start Footnote anew: it hears nothing of Slack, whatever it tries."""


class _NoGreeting(FootnoteError):
    """A connection is not made, or nothing comes on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """For how long Slack is waited for, in seconds; chosen but for the first."""

    ping_s: float = 5  # slack_sdk's default
    greeting_s: float = 10
    least_retry_s: float = 1  # twice as long after each try
    most_retry_s: float = 30
    replaced_s: float = 10  # until a replaced connection is closed where Slack does not close it
    # Without an event: it is replaced then, as nothing else tells that Slack has forgotten it.
    quiet_s: float = 900
    deaf_s: float = 180  # without a sign of life, although Slack lets us connect: we are at fault
    # … and although Slack is out of reach. A new start hardly helps then, and fails where Slack
    # is away: seldom, and long after what most often passes has passed.
    away_s: float = 1_800

    @property
    def stale_s(self) -> float:
        """As slack_sdk has it."""
        return 4 * self.ping_s


class Hearing:
    """Hears Slack for an app, from open to close, on one connection after the other.

    Each is replaced before it ends, when Slack says that it will, and as soon as it gives no sign
    of life. When that does not help for long, give_up is called, once.
    """

    def __init__(
        self,
        app: App,
        app_token: str,
        give_up: Callable[[], None],
        patience: Patience | None = None,
    ) -> None:
        self.client = posting.hasten(app.client, CALL_TIMEOUT_S)
        self._app = app
        self._app_token = app_token
        self._give_up = give_up
        self._patience = patience or Patience()
        self._line: _Line | None = None
        self._wake = threading.Event()  # there is something to do
        self._lock = threading.Lock()  # over the connections, once opened
        self._is_closing = False
        self._replaced: list[tuple[_Line, threading.Thread]] = []  # and not closed yet
        self._failures = 0  # in a row: no connection was made, or it did not last
        self._due_at = 0.0
        self._connected_at = time.monotonic()
        self._is_reachable = True  # Slack, when we last asked to connect
        self._fault = ""  # of the last try, where that failed
        self._heard_at = self._brought_at = time.monotonic()
        self._deaf: str | None = None
        self._keeper = threading.Thread(target=self._keep, name="hearing", daemon=True)

    def open(self) -> None:
        """Connect; raises as slack_sdk does when Slack does not take the token, or is away."""
        self._line = self._connect()
        self._keeper.start()

    def close(self) -> None:
        """Hear nothing more; what has come is acknowledged.

        Raises Deaf when nothing was heard for too long.
        """
        with self._lock:
            self._is_closing = True
        self._wake.set()
        if self._line is not None:
            self._line.leave()
        for line, end in self._replaced:
            line.is_over.set()
            end.join(LEAVE_S)
        if self._deaf is not None:
            raise Deaf(self._deaf)

    def look(self) -> Check:
        """Whether Slack is heard."""
        age_s, stalled_s = self._find_age(), self._find_stall()
        if self._deaf is not None:
            return Check(is_ok=False, text=self._deaf, is_live=False)
        said = f"The last sign of life came {age_s:.0f} s ago.{self._fault}"
        if stalled_s >= self._patience.stale_s:
            said = f"What came {stalled_s:.0f} s ago is not worked on yet."
        elif self._line is None or self._line.is_cut():
            said = f"No connection is open. {said}"
        elif age_s < self._patience.stale_s:
            return Check(is_ok=True, text=said)
        return Check(is_ok=False, text=said)

    def _keep(self) -> None:
        """Have a connection that is heard on, until closing or giving up."""
        while True:
            self._wake.wait(min(1, self._patience.ping_s))
            self._wake.clear()
            if self._is_closing:
                return
            if self._line is not None and self._line.is_cut():
                self._line.end()
            if self._needs_another() and time.monotonic() >= self._due_at:
                self._replace()
            if (reason := self._find_reason_to_give_up()) is not None:
                self._deaf = reason
                log.critical("%s", reason)
                self._give_up()
                return

    def _needs_another(self) -> bool:
        line = self._line
        is_quiet = time.monotonic() - self._brought_at >= self._patience.quiet_s
        return (
            line is None
            or line.is_ending
            or line.is_cut()
            or is_quiet
            or self._find_age() >= self._patience.stale_s
        )

    def _replace(self) -> None:
        try:
            line = self._connect()
        except Exception as error:  # whatever it is, the thread must outlive it
            refusal = error.response.get("error") if isinstance(error, SlackApiError) else None
            reason = refusal or type(error).__name__
            log.warning("No new connection to Slack: %s", reason)
            self._fault = f" No new connection is to be had: {reason}."
            self._back_off()
            return
        self._fault = ""
        if time.monotonic() - self._connected_at >= self._patience.ping_s:
            self._failures = 0
        else:  # what ends connections may end this one, too
            self._back_off()
        self._connected_at = time.monotonic()
        with self._lock:
            is_too_late = self._is_closing
            before = line if is_too_late else self._line
            if not is_too_late:
                self._line = line
            if before is not None:
                self._retire(before)

    def _back_off(self) -> None:
        self._failures += 1
        wait_s = self._patience.least_retry_s * 2 ** min(self._failures - 1, 10)
        # Where Slack has sent all away at once, not all are to come back at once.
        wait_s = min(wait_s, self._patience.most_retry_s) * random.uniform(0.8, 1.2)
        self._due_at = time.monotonic() + wait_s

    def _retire(self, line: "_Line") -> None:
        """Have a connection closed once nothing comes on it any more."""
        end = threading.Thread(target=line.retire, name="replaced connection", daemon=True)
        end.start()
        self._replaced = [(each, its) for each, its in self._replaced if its.is_alive()]
        self._replaced.append((line, end))

    def _connect(self) -> "_Line":
        self._is_reachable = False
        url = str(self.client.apps_connections_open(app_token=self._app_token)["url"])
        self._is_reachable = True
        line = _Line(self._app, self._app_token, self._patience, self._note, self._wake.set)
        line.wss_uri = url
        line.connect()
        if not (line.is_connected() and line.is_greeted.wait(self._patience.greeting_s)):
            threading.Thread(target=line.leave, daemon=True).start()
            raise _NoGreeting(
                "Slack says nothing on a new connection. Have the network let WebSockets through."
            )
        self._brought_at = time.monotonic()
        return line

    def _note(self, message: str) -> None:
        """Take any message for a sign of life."""
        self._heard_at = time.monotonic()
        if _ENVELOPE in message:
            self._brought_at = self._heard_at

    def _find_age(self) -> float:
        """The seconds since the last sign of life.

        By our own clock: slack_sdk notes the time of day, which may be set.
        """
        if self._line is not None and self._line.has_new_pong():
            self._heard_at = time.monotonic()
        return time.monotonic() - self._heard_at

    def _find_stall(self) -> float:
        return 0 if self._line is None else self._line.find_stall()

    def _find_reason_to_give_up(self) -> str | None:
        patience, age_s, stalled_s = self._patience, self._find_age(), self._find_stall()
        if stalled_s >= patience.deaf_s:
            return f"What Slack has sent has not been worked on for {stalled_s:.0f} s. Start anew."
        if age_s >= (patience.deaf_s if self._is_reachable else patience.away_s):
            how = "although it lets us connect" if self._is_reachable else "nor is it in reach"
            return f"Slack was not heard for {age_s:.0f} s, {how}. Start anew."
        return None


class _Line(SocketModeClient):
    """One connection, never another one: slack_sdk's, which asks for another instead."""

    def __init__(
        self,
        app: App,
        app_token: str,
        patience: Patience,
        heard: Callable[[str], None],
        wants_another: Callable[[], None],
    ) -> None:
        self.is_greeted = threading.Event()
        self.is_ending = False
        self.is_over = threading.Event()  # Slack has closed it, or we close
        self._app = app
        self._patience = patience
        self._wants_another = wants_another
        self._pong: float | None = None
        self._changed = threading.Condition()  # over what follows
        self._open_count = 0  # of what has come and is not acknowledged
        self._moved_at = time.monotonic()
        self._is_left = False
        super().__init__(
            app_token,
            logger=app.logger,
            web_client=app.client,
            proxy=app.client.proxy,
            ping_interval=patience.ping_s,
            concurrency=THREADS,
        )
        self.on_message_listeners.append(heard)
        self.on_close_listeners.append(lambda *_: self.is_over.set())
        self.socket_mode_request_listeners.append(self._hand_on)

    def connect_to_new_endpoint(self, force: bool = False) -> None:
        """Ask for another one: slack_sdk calls this where it would connect anew."""
        self.is_ending = True
        self._wants_another()

    def enqueue_message(self, message: str) -> None:
        """Count what is to be acknowledged. What comes once we have left is let be: Slack sends
        it again, to others."""
        is_envelope = _ENVELOPE in message
        with self._changed:
            if self._is_left and is_envelope:
                return
            if is_envelope:
                self._moved_at = self._moved_at if self._open_count else time.monotonic()
                self._open_count += 1
        super().enqueue_message(message)

    def run_message_listeners(self, message: dict[str, object], raw_message: str) -> None:
        """Count what is acknowledged, or is not to be."""
        if message.get("type") == "hello":
            self._greet(message)
        try:
            super().run_message_listeners(message, raw_message)
        finally:
            if "envelope_id" in message:
                with self._changed:
                    self._open_count -= 1
                    self._moved_at = time.monotonic()
                    self._changed.notify_all()

    def has_new_pong(self) -> bool:
        """Whether a ping was answered since this was last asked."""
        session = self.current_session
        before, self._pong = self._pong, session.last_ping_pong_time if session else None
        return self._pong != before

    def is_cut(self) -> bool:
        """Whether nothing can come on it any more.

        slack_sdk takes the end of what comes for nothing new, and a ping that can't be sent for a
        mishap: it holds a connection that Slack's side has ended for open until the fourth ping
        without an answer.
        """
        session = self.current_session
        sock = session.sock if session is not None else None
        descriptor = -1 if sock is None else sock.fileno()
        if descriptor < 0:
            return True
        poll = select.poll()
        poll.register(descriptor, _CUT)
        return bool(poll.poll(0))

    def end(self) -> None:
        """Close what is cut: slack_sdk would read nothing from it, again and again."""
        self.is_over.set()
        self.disconnect()

    def find_stall(self) -> float:
        """The seconds for which there is something to acknowledge, and nothing is."""
        with self._changed:
            return time.monotonic() - self._moved_at if self._open_count else 0

    def retire(self) -> None:
        """Leave once Slack has closed it, or waits for us to."""
        self.is_over.wait(self._patience.replaced_s)
        self.leave()

    def leave(self) -> None:
        """Close it at once when what has come is acknowledged, or Slack waits for that no more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open_count, LEAVE_S)
            self._is_left = True
        self.auto_reconnect_enabled = False
        session = self.current_session
        if session is not None and session.sock is not None:
            # slack_sdk's close waits for the next frame, for up to 3 s in which others would come,
            with suppress(OSError):
                session.sock.shutdown(socket.SHUT_RDWR)
        self.closed = True
        self.enqueue_message("")  # and then for the next message, for up to 1 s.
        self.close()

    def _greet(self, hello: dict[str, object]) -> None:
        count = hello.get("num_connections")
        log.info("Slack is heard on connection %s, of %s of this app", self.session_id(), count)
        if isinstance(count, int) and count >= MOST_CONNECTIONS:
            log.warning("There are %d connections of this app: Slack allows no more", count)
        self.is_greeted.set()

    def _hand_on(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        began_at = time.time()
        send_response(client, request, run_bolt_app(self._app, request), began_at)
