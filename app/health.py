"""How Footnote is, part by part, as /healthz tells."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app import posting
from retrieval.db import Database

if TYPE_CHECKING:  # takes seconds to import
    from retrieval.retrieve import Retriever

TOKEN_S = 60  # between two questions whether Slack takes the token; chosen
TOKEN_TIMEOUT_S = 1  # whoever probes us waits for the answer
TOKEN_REFUSALS = ("account_inactive", "invalid_auth", "token_expired", "token_revoked")

CACHED_S = 1  # however many probe us
PROBED_S = 0.5  # Kubernetes' own probes wait for 1 s
THREADS = 10  # at least one a part
COUNTS_S = 5  # for so long what a part said last stands for one that does not answer; chosen

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """How one part is, in words for whoever is paged; nothing secret, as anybody may read it."""

    is_ok: bool
    text: str
    is_live: bool = True  # unless only a new start helps


Probe = Callable[[], Check]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How all parts are, by name."""

    checks: Mapping[str, Check]
    is_stopping: bool

    @property
    def is_live(self) -> bool:
        """Whether a new start would not help."""
        return all(check.is_live for check in self.checks.values())

    @property
    def is_ready(self) -> bool:
        """Whether questions are to come here."""
        return not self.is_stopping and all(check.is_ok for check in self.checks.values())

    @property
    def reasons(self) -> list[str]:
        """Why they are not."""
        unwell = [f"{name}: {each.text}" for name, each in self.checks.items() if not each.is_ok]
        return [*(["Footnote stops."] if self.is_stopping else []), *unwell]


class Health:
    """What tells how the parts of this process are; until stop is set, and not ready from then on.

    No part keeps whoever asks waiting: each is looked at by a thread of its own, once a second.
    """

    def __init__(
        self,
        stop: threading.Event,
        probes: Mapping[str, Probe],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop
        self._probes = dict(probes)
        self._now = now
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="health")
        self._lock = threading.Lock()  # over all that follows
        self._asked: dict[str, Future[Check]] = {}
        self._said: dict[str, tuple[float, Check]] = {}  # with when
        self._checks: Mapping[str, Check] = {}
        self._due_at = now()

    def add(self, name: str, probe: Probe) -> None:
        """Look at one more part."""
        with self._lock:
            self._probes[name] = probe
            self._due_at = self._now()

    def look(self) -> Report:
        """How the parts are, or were a second ago."""
        with self._lock:
            if self._now() >= self._due_at:
                self._checks = self._ask()
                self._due_at = self._now() + CACHED_S
            return Report(checks=self._checks, is_stopping=self._stop.is_set())

    def _ask(self) -> dict[str, Check]:
        for name, probe in self._probes.items():
            # One that has not answered since is not asked again: such questions would pile up.
            if name not in self._asked:
                self._asked[name] = self._threads.submit(probe)
        wait(self._asked.values(), PROBED_S)
        for name in [name for name, asked in self._asked.items() if asked.done()]:
            self._said[name] = (self._now(), _read(name, self._asked.pop(name)))
        return {name: self._find(name) for name in self._probes}

    def _find(self, name: str) -> Check:
        said_at, check = self._said.get(name, (None, None))
        if said_at is not None and check is not None and self._now() - said_at < COUNTS_S:
            return check
        is_live = check is None or check.is_live
        return Check(is_ok=False, text="It does not answer.", is_live=is_live)


def _read(name: str, asked: Future[Check]) -> Check:
    if error := asked.exception():
        log.error("How %s is cannot be told", name, exc_info=error)
        return Check(is_ok=False, text=f"It cannot be looked at: {type(error).__name__}.")
    return asked.result()


def check_database(database: Database) -> Check:
    """Whether the database answers, and takes what is to be kept."""
    try:
        with database.transaction() as connection:
            # It is so, too, on a server that has yet to take over from another one.
            is_read_only = connection.scalar(text("SHOW transaction_read_only")) == "on"
    except SQLAlchemyError as error:
        log.warning("The database does not answer: %s", type(error).__name__)
        return Check(is_ok=False, text=f"It does not answer: {type(error).__name__}.")
    if is_read_only:
        return Check(is_ok=False, text="It is read-only: no question can be taken.")
    return Check(is_ok=True, text="It answers, and takes writes.")


def check_models(retriever: "Retriever") -> Check:
    """Whether the model of the index is loaded: nobody who asks waits for it."""
    try:
        is_loaded = retriever.is_loaded()
    except SQLAlchemyError:
        return Check(is_ok=False, text="Of which index they are to be, the database does not tell.")
    if not is_loaded:
        return Check(is_ok=False, text="That of the index is not loaded.")
    return Check(is_ok=True, text="They are loaded.")


class TokenCheck:
    """Whether Slack takes our token still; asked at most once in TOKEN_S, however often we are."""

    def __init__(self, client: WebClient, *, now: Callable[[], float] = time.monotonic) -> None:
        self._client = posting.hasten(client, TOKEN_TIMEOUT_S)
        self._now = now
        self._lock = threading.Lock()
        self._due_at = now()
        self._refusal: str | None = None

    def look(self) -> Check:
        """Whether it does, as Slack said last; it does until Slack says that it does not."""
        with self._lock:
            is_due = self._now() >= self._due_at
            if is_due:
                self._due_at = self._now() + TOKEN_S
        if is_due:
            self._ask()
        if self._refusal is not None:
            return Check(is_ok=False, text=f"Slack does not take it: {self._refusal}.")
        return Check(is_ok=True, text="Slack takes it.")

    def _ask(self) -> None:
        try:
            self._client.auth_test()
            self._refusal = None
        except SlackApiError as error:
            if (refusal := error.response.get("error")) in TOKEN_REFUSALS:
                self._refusal = refusal
                log.error("Slack does not take the token: %s", refusal)
        except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
            log.info("auth.test did not work: %s", type(error).__name__)
