"""What the asker sees while a question is worked on."""

import logging
import threading
from concurrent.futures import Executor
from contextvars import copy_context
from time import monotonic

from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError

from app import posting
from app.answering import Reading, Searching
from app.counting import count
from app.records import Arrival

CLEAR_S = 10.0  # for a status, a reaction and taking that away, each of HASTE_S at most
INTERVAL_S = 1.0  # between two statuses of a question; a person reads no faster

log = logging.getLogger(__name__)


def describe(stage: Searching | Reading) -> str:
    """A stage in words that go on from our name."""
    if isinstance(stage, Reading):
        return f"is reading {count(stage.section_count, 'section')}…"
    return f"is searching {count(stage.page_count, 'page')}…"


def describe_wait(ahead: int) -> str:
    """That a question has to wait, and for how many others."""
    return f"is waiting: {count(ahead, 'question')} before yours"


class Status:
    """The status of one question; nothing waits for Slack to take it.

    Where Slack takes none at first, a reaction stands in for all of them, if there may be one.
    Once it is cleared, it shows nothing any more.
    """

    def __init__(
        self,
        client: WebClient,
        arrival: Arrival,
        executor: Executor,
        *,
        may_react: bool = True,
    ) -> None:
        self._client = client
        self._arrival = arrival
        self._executor = executor
        self._may_react = may_react
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._cleared = threading.Event()
        self._next: str | None = None
        self._is_sending = False
        # What follows belongs to whoever is sending, if anyone is.
        self._shown_at: float | None = None
        self._is_reaction = False
        self._is_left = False  # a reaction that Slack did not take away

    def show(self, status: str) -> None:
        """Show this in place of what is shown, as soon as may be; of several the last."""
        with self._lock:
            if self._over.is_set():
                return
            self._next = status
            self._start()

    def clear(self) -> None:
        """Take away whatever is shown; a reply has done so already, unless one was on its way."""
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
            if self._is_sending or self._shown_at is not None:
                self._start()
            else:
                self._cleared.set()

    def wait_until_clear(self) -> bool:
        """Whether it is known, once it is cleared, that no reaction stays for good."""
        return self._cleared.wait(CLEAR_S) and not self._is_left

    def _start(self) -> None:
        if not self._is_sending:
            self._is_sending = True
            self._executor.submit(copy_context().run, self._send)  # its logs name the question

    def _send(self) -> None:
        while True:
            with self._lock:
                is_over = self._over.is_set()
                if self._next is None or is_over:  # the thread is free for other questions
                    self._is_sending = False
                    break
            if self._shown_at is not None:
                self._over.wait(self._shown_at + INTERVAL_S - monotonic())
            with self._lock:
                status, self._next = self._next, None
            if status is not None and not self._over.is_set():
                self._show(status)
        if is_over:
            self._take_away()

    def _show(self, status: str) -> None:
        if self._is_reaction:
            return
        is_taken = posting.set_status(self._client, self._arrival, status)
        if not is_taken and self._shown_at is None and self._may_react:
            self._is_reaction = True
            posting.show_working(self._client, self._arrival)
        self._shown_at = monotonic()

    def _take_away(self) -> None:
        if self._is_reaction:
            try:
                posting.clear_working(posting.hasten(self._client), self._arrival)
            except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
                log.info("A sign stays in %s: %s", self._arrival.channel_id, type(error).__name__)
                self._is_left = True
        self._cleared.set()
        if self._shown_at is not None:  # even where Slack took none: its answer may have got lost
            posting.set_status(self._client, self._arrival, "")
