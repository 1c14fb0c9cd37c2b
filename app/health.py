"""Whether Slack reaches us and takes our token, as /healthz tells."""

import logging
import threading
import time
from collections.abc import Callable

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.socket_mode.builtin.connection import Connection

from app import posting

DEAF_S = 60  # Bolt asks for a sign of life every 10 s, and connects anew after 40 s without
TOKEN_S = 60  # between two questions whether Slack takes the token; chosen
TOKEN_TIMEOUT_S = 1  # whoever probes us waits for the answer
TOKEN_REFUSALS = ("account_inactive", "invalid_auth", "token_expired", "token_revoked")

log = logging.getLogger(__name__)


class Pulse:
    """When Slack was last heard, on whichever connection: a new one has heard nothing yet."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        """now: seconds since 1970, as slack_sdk notes them."""
        self._now = now
        self._heard_at = now()

    def note(self, _message: str) -> None:
        """Take any message for a sign of life, the greeting of a new connection included."""
        self._heard_at = self._now()

    def is_hearing(self, session: Connection | None) -> bool:
        """Whether a connection of Socket Mode is open, and Slack gave a sign of life lately."""
        if session is None or not session.is_active():
            return False
        self._heard_at = max(self._heard_at, session.last_ping_pong_time or 0)
        return self._now() - self._heard_at < DEAF_S


class TokenCheck:
    """Whether Slack takes our token still; asked at most once in TOKEN_S, however often we are."""

    def __init__(self, client: WebClient, *, now: Callable[[], float] = time.monotonic) -> None:
        self._client = posting.hasten(client, TOKEN_TIMEOUT_S)
        self._now = now
        self._lock = threading.Lock()
        self._due_at = now()
        self._is_taken = True

    def is_taken(self) -> bool:
        """Whether it is, as Slack said last; it is until Slack says that it is not."""
        with self._lock:
            is_due = self._now() >= self._due_at
            if is_due:
                self._due_at = self._now() + TOKEN_S
        if is_due:
            self._ask()
        return self._is_taken

    def _ask(self) -> None:
        try:
            self._client.auth_test()
            self._is_taken = True
        except SlackApiError as error:
            if error.response.get("error") in TOKEN_REFUSALS:
                self._is_taken = False
                log.error("Slack does not take the token: %s", error.response["error"])
        except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
            log.info("auth.test did not work: %s", type(error).__name__)
