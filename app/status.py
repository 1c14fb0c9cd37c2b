"""What the asker sees while a question is worked on."""

import threading
from concurrent.futures import Executor
from contextvars import copy_context
from time import monotonic

from slack_sdk import WebClient

from app import posting
from app.answering import Reading, Searching
from app.counting import count
from app.records import Arrival

INTERVAL_S = 1.0  # between two statuses of a question; a person reads no faster


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

    Where Slack takes none at first, a reaction stands in for all of them. Once it is cleared, it
    shows nothing any more.
    """

    def __init__(self, client: WebClient, arrival: Arrival, executor: Executor) -> None:
        self._client = client
        self._arrival = arrival
        self._executor = executor
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._next: str | None = None
        self._is_sending = False
        # What follows belongs to whoever is sending.
        self._shown_at: float | None = None
        self._is_reaction = False

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
            self._start()

    def _start(self) -> None:
        if not self._is_sending:
            self._is_sending = True
            self._executor.submit(copy_context().run, self._send)  # its logs name the question

    def _send(self) -> None:
        while True:
            if self._shown_at is not None:
                self._over.wait(self._shown_at + INTERVAL_S - monotonic())
            with self._lock:
                status, self._next, is_over = self._next, None, self._over.is_set()
                if status is None or is_over:
                    self._is_sending = False
                    break
            self._show(status)
        if is_over:
            self._clear()

    def _show(self, status: str) -> None:
        if self._is_reaction:
            return
        is_taken = posting.set_status(self._client, self._arrival, status)
        if not is_taken and self._shown_at is None:
            self._is_reaction = True
            posting.show_working(self._client, self._arrival)
        self._shown_at = monotonic()

    def _clear(self) -> None:
        if self._is_reaction:
            posting.clear_working(self._client, self._arrival)
        elif self._shown_at is not None:
            posting.set_status(self._client, self._arrival, "")
