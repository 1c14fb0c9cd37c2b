"""The worker: takes up questions from the queue, on threads, until it is closed.

It is procrastinate's, on an event loop of its own thread. The database, which that lives on, may go
away: then it begins anew. What is lost with a worker is taken over by any other one.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate import worker as procrastinate
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from sqlalchemy.exc import SQLAlchemyError

from app import queueing
from app.attempts import Again
from app.health import Check
from retrieval.db import Database

POLL_S = 1.0  # between two looks for what is due again: of what is new it is notified; chosen
HEARTBEAT_S = queueing.STALLED_S / 4
SWEEPS = 5  # so many looks to one for what was lost; chosen
ANEW_S = 1.0  # before it begins anew; chosen
CONNECT_S = 5.0  # for which a connection is waited for; chosen
GIVE_BACK_S = 3.0  # for which a question may go on after it was to be given back; chosen
END_S = 3.0  # for which the end of the loop is waited for; chosen
UNKNOWN_S = 60.0  # before what failed for no known reason is tried again; chosen

log = logging.getLogger(__name__)

Work = Callable[[str, UUID], None]  # is told tenant_id and trace_id; raises Again


class Worker:
    """Works on questions of a queue from start to close, on so many at once, at most.

    work answers one, on any of its threads. give_back has those that are at work raise Again soon.
    taken_over is told how many were of workers that are gone.
    """

    def __init__(
        self,
        database: Database,
        work: Work,
        give_back: Callable[[], None],
        *,
        queue: str,
        concurrency: int,
        taken_over: Callable[[int], None],
        poll_s: float = POLL_S,
    ) -> None:
        self._database = database.unrestricted
        self._work = work
        self._give_back = give_back
        self._queue = queue
        self._concurrency = concurrency
        self._taken_over = taken_over
        self._poll_s = poll_s
        self._is_closing = threading.Event()
        self._changed = threading.Condition()
        self._at_work: set[int] = set()  # ids of jobs; changed under the condition
        self._loop: asyncio.AbstractEventLoop | None = None
        self._current: procrastinate.Worker | None = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._sweeper = threading.Thread(target=self._sweep, name="sweep", daemon=True)

    def start(self) -> None:
        """Take up questions from now on."""
        self._thread.start()
        self._sweeper.start()

    def look(self) -> Check:
        """Whether questions are being taken up."""
        if not self._thread.is_alive() or not self._sweeper.is_alive():
            return Check(is_ok=False, is_live=False, text="It has ended.")
        current = self._current
        task = None if current is None else current.run_task
        if self._worker_id is None or task is None or task.done():
            return Check(is_ok=False, text="It takes up no questions, for want of the database.")
        return Check(is_ok=True, text=f"It is at {len(self._at_work)} of {self._concurrency}.")

    def close(self, timeout_s: float) -> bool:
        """Take up nothing more, finish what is begun, and give back what is not done in time.

        Gives whether all has ended: a thread may still wait for Slack or a model, for nothing.
        """
        self._is_closing.set()
        if not self._thread.is_alive():
            return not self._at_work
        self._ask_to_stop()
        is_over = self._wait_for_work(timeout_s)
        if not is_over:
            self._give_back()
            is_over = self._wait_for_work(GIVE_BACK_S)
        if is_over:
            self._thread.join(END_S)
        else:
            self._hand_back()
        if self._thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(_leave_jobs)
            self._thread.join(END_S)
        self._sweeper.join(END_S)
        return is_over

    @property
    def _worker_id(self) -> int | None:
        return self._current.worker_id if self._current is not None else None

    def _ask_to_stop(self) -> None:
        if self._current is not None:
            self._current.stop()

    def _wait_for_work(self, timeout_s: float) -> bool:
        """Whether nothing is at work any more, within this time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._at_work, timeout_s)

    def _hand_back(self) -> None:
        with self._changed:
            left = list(self._at_work)
        worker_id = self._worker_id
        if worker_id is None:  # it has begun anew meanwhile: then they are taken over
            return
        log.warning("%d questions are handed back, which do not end", len(left))
        try:
            queueing.hand_back(self._database, worker_id, left)
        except SQLAlchemyError as error:  # then they are taken over
            log.warning("None was handed back: %s", type(error).__name__)

    def _run(self) -> None:
        # As many threads as questions: procrastinate takes up no more.
        threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="answer")
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(threads)
        try:
            self._loop.run_until_complete(self._live())
        finally:
            threads.shutdown(wait=False)
            self._loop.close()

    async def _live(self) -> None:
        while not self._is_closing.is_set():
            try:
                await self._work_once()
            except Exception as error:
                log.warning("The worker has to begin anew: %s", type(error).__name__)
            if not self._is_closing.is_set():
                await asyncio.sleep(ANEW_S)

    async def _work_once(self) -> None:
        """Take up questions until the database goes away, or this is closed."""
        url = self._database.engine.url.set(drivername="postgresql")
        connector = PsycopgConnector(
            conninfo=url.render_as_string(hide_password=False),
            min_size=1,
            max_size=2,
            timeout=CONNECT_S,
        )
        app = App(connector=connector)
        app.job_manager = _OwnJobs(connector)
        app.task(name=queueing.TASK, pass_context=True, retry=_Retry())(self._do)
        async with app.open_async():
            self._current = procrastinate.Worker(
                app,
                queues=[self._queue],
                concurrency=self._concurrency,
                delete_jobs="always",
                install_signal_handlers=False,
                fetch_job_polling_interval=self._poll_s,
                update_heartbeat_interval=HEARTBEAT_S,
                stalled_worker_timeout=queueing.STALLED_S,
            )
            running = asyncio.ensure_future(self._current.run())
            # Asked to stop before it runs, it forgets that (procrastinate 3.10).
            while not running.done() and self._current.worker_id is None:
                await asyncio.wait([running], timeout=0.01)
            if self._is_closing.is_set():
                self._current.stop()
            await running

    def _do(self, context: JobContext, /, tenant_id: str, trace_id: str, **_: str) -> None:
        job_id = context.job.id
        assert job_id is not None  # only a job that was never deferred has none
        with self._changed:
            self._at_work.add(job_id)
        try:
            self._work(tenant_id, UUID(trace_id))
        finally:
            with self._changed:
                self._at_work.discard(job_id)
                self._changed.notify_all()

    def _sweep(self) -> None:
        """Have taken over what dead workers were at, and what this one has lost: the end of a job
        that could not be kept, as the database was away."""
        missed: set[int] = set()
        while not self._is_closing.wait(SWEEPS * self._poll_s):
            try:
                if count := queueing.take_over(self._database, self._queue):
                    log.warning("%d questions of workers that are gone are taken over", count)
                    self._taken_over(count)
                worker_id = self._worker_id
                kept = (
                    set()
                    if worker_id is None
                    else set(queueing.list_at_work(self._database, worker_id))
                )
                with self._changed:
                    missing = kept - self._at_work
                lost = missing & missed  # twice in a row: none that just begins or ends
                if lost and worker_id is not None:
                    queueing.hand_back(self._database, worker_id, list(lost))
                    log.warning("%d questions are begun anew, whose end was lost", len(lost))
                missed = missing - lost
            except SQLAlchemyError as error:
                log.warning("Nothing was taken over: %s", type(error).__name__)


def _leave_jobs() -> None:
    """Have the loop that runs this wait for no job any more; their threads go on for nothing."""
    for task in asyncio.all_tasks():
        if task.get_name().startswith("process job"):  # as procrastinate 3.10 names them
            task.cancel()


class _OwnJobs(JobManager):
    """Ends jobs that are still the worker's own: procrastinate 3.10 also those that were taken
    over, and lost would be what whoever took them over is at."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        await self.connector.execute_query_async(
            """
            DELETE FROM procrastinate_jobs
            WHERE id = %(job_id)s AND worker_id = %(worker_id)s AND status = 'doing'
            """,
            job_id=job.id,
            worker_id=job.worker_id,
        )

    async def retry_job(
        self, job: Job, retry_at: datetime | None = None, *args: Any, **kwargs: Any
    ) -> None:
        await self.connector.execute_query_async(
            """
            UPDATE procrastinate_jobs
            SET status = 'todo', attempts = attempts + 1,
                scheduled_at = now() + %(after)s
            WHERE id = %(job_id)s AND worker_id = %(worker_id)s AND status = 'doing'
            """,
            job_id=job.id,
            worker_id=job.worker_id,
            # By the database's clock, by which it is taken up.
            after=(retry_at or datetime.now(UTC)) - datetime.now(UTC),
        )


class _Retry(BaseRetryStrategy):
    """When a question is taken up again."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        after_s = exception.after_s if isinstance(exception, Again) else UNKNOWN_S
        return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=after_s))
