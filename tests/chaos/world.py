"""All that a run takes: Slack, Claude, PostgreSQL, the processes, and what befalls them."""

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic

import psycopg

from .agenda import Agenda
from .delivering import Deliveries
from .faulty_claude import FaultyClaude
from .faulty_slack import FaultySlack
from .journal import Journal
from .plan import BOUNDARIES, Dice, Step, Tally
from .processes import Supervisor, build_environment, run_once
from .server import Row, Server
from .traffic import Traffic

TENANT_ID = "acme"
DOCS = Path(__file__).parents[1] / "sample" / "docs"
BASE_URL = "https://wiki.halvermeer.example"
READ_ONLY_S = 6.0
TAKEN_S = 6.0
CLOCK_JUMPS_S = (-3600, 3600, -90, 90, 86_400)

_OPEN = """
    SELECT count(*) FILTER (WHERE outcome = 'pending') AS pending,
           count(*) FILTER (WHERE outcome <> 'pending') AS complete,
           count(*) FILTER (WHERE to_jsonb(traces) ->> 'outbox' IS NOT NULL) AS untold
    FROM traces
"""
_JOBS = "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS is_there"


class World:
    """A workspace, a server and the processes between them, while open() runs."""

    def __init__(self, seed: int, folder: Path, **settings: str) -> None:
        """settings are further ones of the processes."""
        self.seed = seed
        self.folder = folder
        self._settings = settings
        self._is_over = threading.Event()
        self._random = Random(f"{seed} world")
        self._jumps = count(1)
        self.tally = Tally()
        self.journal = Journal(folder)
        self.dice = {
            name: Dice(seed, name, self.tally) for name in ("Slack", "Claude", "Socket Mode")
        }
        self.agenda = Agenda()
        self.deliveries = Deliveries(self.agenda, self.dice["Socket Mode"], self.journal)
        self.slack = FaultySlack(self.dice["Slack"], self.journal, self.deliveries.heard)
        self.deliveries.slack = self.slack
        self.claude = FaultyClaude(self.dice["Claude"], self.journal)
        self.traffic = Traffic(seed, self.slack, self.deliveries, self.agenda)
        self.clock = folder / "clock"  # how far the clock of one process is off
        self.downtimes: list[tuple[str, float, float]] = []  # what, since when, until when
        self.late_steps: list[str] = []

    @contextmanager
    def open(self) -> Iterator[None]:
        """Everything but the processes, with the sample indexed."""
        self.server = Server(self.folder / "home")
        try:
            with self.slack, self.claude, self.agenda:
                environment = build_environment(
                    DATABASE_URL=self.server.url,
                    TENANT_ID=TENANT_ID,
                    SLACK_BOT_TOKEN=self.slack.bot_token,
                    SLACK_APP_TOKEN=self.slack.app_token,
                    SLACK_API_URL=self.slack.api_url,
                    ANTHROPIC_API_KEY=self.claude.api_key,
                    ANTHROPIC_BASE_URL=self.claude.base_url,
                    ANSWER_TIMEOUT_S="10",
                    QUESTIONS_PER_PERSON="1000000",
                    QUESTIONS_PER_CHANNEL="1000000",
                    **self._settings,
                )
                self.environment = environment
                self.run("migrate")
                self.run("ingest", str(DOCS), "--source", "wiki", "--base-url", BASE_URL)
                self.processes = Supervisor(environment, self.folder, self.journal)
                try:
                    with self.processes:
                        yield
                finally:
                    self._is_over.set()
                    self.slack.let_go()
                    self.claude.let_go()
        finally:
            self.server.stop()
            self.journal.close()

    def run(self, *arguments: str) -> None:
        """Run a command of Footnote to its end."""
        run_once(self.environment, *arguments)

    def start(self, *, serve: int, workers: int, is_clock_loose: bool = False) -> None:
        """Start so many processes of each role, the clock of the last one loose, where that can
        be; return once they are ready."""
        names = [
            *(("serve", f"serve-{number}") for number in range(1, serve + 1)),
            *(("worker", f"worker-{number}") for number in range(1, workers + 1)),
        ]
        loose = find_clock_library() if is_clock_loose else None
        for role, name in names:
            is_last = name == names[-1][1]
            extra = self._build_clock(loose) if loose and is_last else None
            self.processes.add("serve" if role == "serve" else "worker", name, extra)
        self.processes.wait_until_ready()

    def load_dice(self, *, is_loaded: bool = True) -> None:
        for dice in self.dice.values():
            dice.is_loaded = is_loaded

    def plan(self, step: Step) -> None:
        """Have a step happen after its delay."""
        number = self._random.randrange(1_000_000)
        self.agenda.after(step.delay_s, partial(self.do, step, number))

    def do(self, step: Step, number: int = 0) -> None:
        """Let something happen; any number says to whom, where there is a choice."""
        begun_at = monotonic()
        self.journal.note(f"step: {step.deed}")
        self.tally.note(BOUNDARIES[step.deed], step.deed)
        match step.deed:
            case "kill -9":
                self.processes.kill(number)
            case "sockets closed":
                self.slack.close_connections()
            case "sockets cut":
                self.slack.cut_connections()
            case "sockets refreshed":
                # One that is killed meanwhile is never replaced.
                with suppress(AssertionError):
                    self.slack.refresh_connections(timeout_s=5)
            case "sockets silent":
                self.slack.mute_connections()
            case "sessions ended":
                self.server.end_sessions(0.5)
            case "restart, fast" | "restart, immediate":
                self.server.restart(step.deed.removeprefix("restart, "))
            case "read-only":
                self.server.refuse_writes(self._is_over, READ_ONLY_S)
            case "connections taken":
                self.server.take_connections(self._is_over, TAKEN_S)
            case "clock moved":
                jump_s = CLOCK_JUMPS_S[next(self._jumps) % len(CLOCK_JUMPS_S)]
                self.clock.write_text(f"{jump_s:+d}\n")
        if step.deed.startswith(("restart", "read-only", "connections")):
            self.downtimes.append((step.deed, begun_at, monotonic()))

    def find_open(self) -> Row | None:
        """How much is still to be done, by the traces and the queue; None while nobody knows."""
        try:
            (row,) = self.server.query(_OPEN)
            (is_there,) = self.server.query(_JOBS)
            row["jobs"] = 0
            if is_there["is_there"]:
                (jobs,) = self.server.query("SELECT count(*) AS jobs FROM procrastinate_jobs")
                row |= jobs
            return row
        except psycopg.Error:
            return None

    def count_outstanding(self) -> int | None:
        """How many questions are on their way; None while nobody knows."""
        row = self.find_open()
        if row is None:
            return None
        return self.deliveries.count_open() + max(row["pending"] + row["untold"], row["jobs"])

    def _build_clock(self, library: Path) -> dict[str, str]:
        self.clock.write_text("+0\n")
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


def find_clock_library() -> Path | None:
    """What moves a process's clock, if it is installed: `pip install libfaketime`."""
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("vendor/libfaketime/src/libfaketime.so*"), None)
