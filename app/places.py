"""What those are told who wait for their question to be taken up: how many are before it."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from slack_sdk import WebClient
from sqlalchemy.exc import SQLAlchemyError

from app import queueing, traces
from app.records import Arrival
from app.status import Status, describe_wait
from retrieval.db import Database

REFRESH_S = 15  # Slack shows a status for two minutes; chosen
CLOSE_S = 3  # for which a look at the places is waited for; chosen
THREADS = 8  # that wait for Slack, whom no question waits for; chosen

log = logging.getLogger(__name__)


class Places:
    """Tells the places of questions that this process has claimed; safe to use from threads.

    capacity is how many questions one worker is at, at most: where fewer are before one, it is
    taken up at once.
    """

    def __init__(
        self,
        client: WebClient,
        database: Database,
        *,
        queue: str,
        capacity: int,
        refresh_s: float = REFRESH_S,
    ) -> None:
        self._client = client
        self._database = database
        self._queue = queue
        self._capacity = capacity
        self._refresh_s = refresh_s
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="places")
        self._lock = threading.Lock()
        self._waiting: dict[UUID, tuple[int, Status]] = {}  # with the place that was told
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, arrival: Arrival, trace_id: UUID) -> None:
        """Show who asks their place, and how it changes, if they have to wait; returns at once."""
        with self._lock:
            if not self._is_over.is_set():
                self._executor.submit(self._show, arrival, trace_id)

    def _show(self, arrival: Arrival, trace_id: UUID) -> None:
        try:
            ahead = queueing.count_ahead(self._database, self._queue, trace_id)
            workers = queueing.count_workers(self._database)
        except SQLAlchemyError as error:  # the question is claimed, and that is what counts
            log.info("No place of %s: %s", trace_id, type(error).__name__)
            return
        if ahead is None or ahead < self._capacity * workers:
            return
        # Whoever takes the question up knows nothing of a reaction, and would not take it away.
        status = Status(self._client, arrival, self._executor, may_react=False)
        status.show(describe_wait(ahead))
        with self._lock:
            self._waiting[trace_id] = ahead, status
            if self._thread is None:
                self._thread = threading.Thread(target=self._refresh, name="places", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Tell nothing more; whoever takes the questions up shows what becomes of them."""
        with self._lock:
            self._is_over.set()
            thread = self._thread
        self._executor.shutdown(cancel_futures=True)
        if thread is not None:
            thread.join(CLOSE_S)

    def _refresh(self) -> None:
        while not self._is_over.wait(self._refresh_s):
            with self._lock:
                waiting = dict(self._waiting)
            for trace_id, (told, status) in waiting.items():
                try:
                    self._tell(trace_id, told, status)
                except (SQLAlchemyError, RuntimeError) as error:  # closed meanwhile, say
                    log.info("No place of %s: %s", trace_id, type(error).__name__)

    def _tell(self, trace_id: UUID, told: int, status: Status) -> None:
        ahead = queueing.count_ahead(self._database, self._queue, trace_id)
        if ahead is None:
            with self._lock:
                del self._waiting[trace_id]
            # It may have been on its way to Slack when the answer came.
            if not traces.is_pending(self._database, trace_id):
                status.clear()
        elif ahead != told:
            with self._lock:
                self._waiting[trace_id] = ahead, status
            status.show(describe_wait(ahead))
