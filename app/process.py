"""What every process has that answers, whichever workspaces it is for, and how it ends."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app import health, logs, queueing, telemetry, web
from app.config import Settings
from app.database import open_database
from app.health import Health
from app.metrics import Metrics
from app.worker import Work, Worker
from retrieval.db import Database

if TYPE_CHECKING:  # takes seconds to import
    from app.answering import Answerer

STOP_S = 25  # in which a process has to end: supervisors kill after 30
WORK_S = 15  # of these, until what is begun is given back

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The parts, with all models loaded; SIGTERM and SIGINT set stop."""

    settings: Settings
    database: Database
    answerer: "Answerer"
    metrics: Metrics
    health: Health
    stop: threading.Event

    def build_worker(self, work: Work, give_back: Callable[[], None]) -> Worker:
        """What takes up questions in this process."""
        worker = Worker(
            self.database,
            work,
            give_back,
            queue=find_queue(self.settings),
            concurrency=self.settings.answer_workers,
            taken_over=self.metrics.taken_over.inc,
        )
        self.health.add("worker", worker.look)
        return worker

    def serve(
        self,
        hearing: AbstractContextManager[object],
        worker: Worker,
        close: Callable[[], None],
    ) -> None:
        """Answer what comes while hearing is entered, until stop is set, then end what is begun.

        close has what is heard become jobs, so that another process can answer it.
        """
        with telemetry.recording(self.settings):
            give_back_at = 0.0  # where it never came to answering
            try:
                with hearing:
                    worker.start()
                    log.info("Footnote is ready")
                    self.stop.wait()
                    log.info("Footnote stops")
                    give_back_at = time.monotonic() + WORK_S
            finally:
                try:
                    close()
                finally:
                    has_ended = worker.close(max(0, give_back_at - time.monotonic()))
        self.database.close()
        if not has_ended:
            log.warning("Footnote ends before what waits for Slack or a model")
            logging.shutdown()
            os._exit(0)  # Python would wait for those threads

    def showing(self) -> AbstractContextManager[object]:
        """With PORT set, show how a process is that hears nothing from Slack."""
        if self.settings.port is None:
            return nullcontext()
        pages = web.build_web(self.health, self.metrics)
        return web.listening(pages, self.settings.host, self.settings.port)


def build(settings: Settings) -> Process:
    """The parts of this process; raises ConfigError as open_database and build_answerer do."""
    from app import parts  # the models' libraries take seconds to import

    logs.configure(settings.log_level, settings.log_format)
    database = open_database(settings)
    metrics = Metrics()
    metrics.watch(database, find_queue(settings))
    answerer = parts.follow_index(parts.build_answerer(settings, database))
    stop = threading.Event()
    stop_on_signals(stop)
    end_after(stop)
    looks = {
        "database": partial(health.check_database, database),
        "models": partial(health.check_models, answerer.retriever),
    }
    return Process(
        settings=settings,
        database=database,
        answerer=answerer,
        metrics=metrics,
        health=Health(stop, looks),
        stop=stop,
    )


def find_queue(settings: Settings) -> str:
    """The queue of all that one app of Slack answers."""
    return queueing.name(settings.slack_client_id or settings.tenant_id)


def end_after(stop: threading.Event, seconds: float = STOP_S) -> None:
    """End the process so long after stop is set, whatever hangs in it: the database or Slack may be
    away.

    What it is at then is taken over by others; what it has not acknowledged, Slack sends again.
    """

    def watch() -> None:
        stop.wait()
        time.sleep(seconds)
        # Even where it is the log that hangs.
        said = "Footnote ends though something in it hangs; others take over what it was at"
        telling = threading.Thread(target=log.error, args=(said,), daemon=True)
        telling.start()
        telling.join(1)
        os._exit(1)

    threading.Thread(target=watch, name="end", daemon=True).start()


def stop_on_signals(stop: threading.Event) -> None:
    """Have SIGTERM and SIGINT set stop; a second one ends the process at once."""

    def ask_to_stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
