"""The processes of Footnote, kept running as by systemd."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Literal

from .journal import Journal

Role = Literal["serve", "worker"]
ROOT = Path(__file__).parents[2]
READY = "is ready"  # what the log says of it
STOP_S = 30.0  # after SIGTERM; Footnote promises 25
START_S = 120.0
LOOK_S = 0.1


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """One incarnation of a process."""

    role: Role
    name: str
    popen: "subprocess.Popen[bytes]"
    log: Path
    started_at: float
    ready_at: float | None = None
    killed_at: float | None = None
    is_leaving: bool = False  # it was asked to stop
    _read: int = field(default=0)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def look_whether_ready(self) -> None:
        if self.ready_at is None and READY in self.log.read_text("utf-8", "replace"):
            self.ready_at = monotonic()


class Supervisor:
    """Starts processes, and starts anew whichever has ended without being asked to."""

    def __init__(self, environment: Mapping[str, str], folder: Path, journal: Journal) -> None:
        self._environment = environment
        self._folder = folder
        self._journal = journal
        self._changed = threading.Condition()
        self._slots: dict[str, Process] = {}  # by name
        self._extra: dict[str, Mapping[str, str]] = {}  # environment, by name
        self._starts = 0
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, name="supervisor"),
            threading.Thread(target=self._kill_due, name="killer"),
        ]
        self._due: deque[int] = deque()  # kills to come
        self.kills = 0
        self.died: list[tuple[str, int]] = []  # name and status of those that ended by themselves
        self.start_seconds: list[float] = []
        self.stop_seconds: list[float] = []
        self.revived: list[float] = []  # seconds from a kill until its successor was ready

    def __enter__(self) -> "Supervisor":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all, and start none any more; raises TimeoutError as replace does."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        with self._changed:
            processes = list(self._slots.values())
            self._slots.clear()
        with ThreadPoolExecutor(max(1, len(processes))) as executor:
            self.stop_seconds += executor.map(self._end, processes)

    def add(self, role: Role, name: str, extra: Mapping[str, str] | None = None) -> None:
        """Have one more process, with so much more in its environment, until the end."""
        with self._changed:
            self._extra[name] = extra or {}
            self._slots[name] = self._start(role, name)

    def wait_until_ready(self, *names: str) -> None:
        """Return once these processes, or all, are ready; raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: all(
                    each.ready_at is not None
                    for name, each in self._slots.items()
                    if not names or name in names
                ),
                START_S,
            ):
                raise TimeoutError(f"not ready within {START_S:g} s: see {self._folder}")

    def kill(self, number: int) -> None:
        """Have one killed by -9, chosen by any number, once those killed before are back.

        One in four kills does not wait for that: it may meet a process that starts. Of those that
        hear Slack one that is ready is left: what Slack can send to nobody, nobody can answer.
        """
        with self._changed:
            self._due.append(number)

    def count_due(self) -> int:
        """How many kills are still to come."""
        with self._changed:
            return len(self._due)

    def _kill_due(self) -> None:
        while not self._is_over.wait(LOOK_S):
            with self._changed:
                if not self._due:
                    continue
                running = [each for each in self._slots.values() if each.killed_at is None]
                ready = [each for each in running if each.ready_at is not None]
                hearing = [each for each in ready if each.role == "serve"]
                if len(hearing) == 1:
                    running.remove(hearing[0])
                number = self._due[0]
                if not running or (number % 4 and len(ready) < len(self._slots)):
                    continue
                self._due.popleft()
                process = running[number // 4 % len(running)]
                process.killed_at = monotonic()
                self.kills += 1
            self._journal.note(f"kill -9 {process.name} {process.pid}")
            process.popen.kill()

    def replace(self, name: str) -> None:
        """Put a new process into the place of one: first the new one is ready, then the old stops.

        Raises TimeoutError when either takes too long.
        """
        with self._changed:
            old = self._slots[name]
            old.is_leaving = True
            self._slots[name] = self._start(old.role, name)
        self.wait_until_ready(name)
        self.stop_seconds.append(self._end(old))

    def list_running(self) -> list[Process]:
        with self._changed:
            return [each for each in self._slots.values() if each.popen.poll() is None]

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_S):
            with self._changed:
                for name, process in list(self._slots.items()):
                    self._look_after(name, process)
                self._changed.notify_all()

    def _look_after(self, name: str, process: Process) -> None:
        was_ready = process.ready_at is not None
        process.look_whether_ready()
        if process.ready_at is not None and not was_ready:
            self.start_seconds.append(process.ready_at - process.started_at)
            self._journal.note(f"{name} {process.pid} is ready")
        status = process.popen.poll()
        if status is None:
            return
        if process.killed_at is None:
            self._journal.note(f"{name} {process.pid} ended with status {status}")
            self.died.append((name, status))
            if monotonic() - process.started_at < 1:
                self._is_over.wait(1)  # as systemd does, no faster than that
        self._slots[name] = self._start(process.role, name)
        if process.killed_at is not None:
            self._follow(name, process.killed_at)

    def _follow(self, name: str, killed_at: float) -> None:
        successor = self._slots[name]

        def wait() -> None:
            with self._changed:
                self._changed.wait_for(
                    lambda: successor.ready_at or successor.killed_at or self._is_over.is_set(),
                    START_S,
                )
            if successor.ready_at is not None:
                self.revived.append(successor.ready_at - killed_at)

        threading.Thread(target=wait, daemon=True).start()

    def _start(self, role: Role, name: str) -> Process:
        self._starts += 1
        log = self._folder / f"{name}.{self._starts:03d}.log"
        with log.open("wb") as file:
            popen = subprocess.Popen(
                [sys.executable, "-m", "app", role],
                cwd=ROOT,
                env={**self._environment, **self._extra[name]},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._journal.note(f"{name} {popen.pid} starts")
        return Process(role=role, name=name, popen=popen, log=log, started_at=monotonic())

    def _end(self, process: Process) -> float:
        """Stop a process as systemd does; how many seconds that took. Raises TimeoutError."""
        before = monotonic()
        process.is_leaving = True
        if process.popen.poll() is None:
            self._journal.note(f"SIGTERM {process.name} {process.pid}")
            process.popen.send_signal(signal.SIGTERM)
        try:
            process.popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.popen.kill()
            process.popen.wait()
            raise TimeoutError(f"{process.name} did not stop within {STOP_S:g} s") from None
        return monotonic() - before


def run_once(environment: Mapping[str, str], *arguments: str) -> None:
    """Run a command of Footnote to its end; raises CalledProcessError."""
    subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        cwd=ROOT,
        env=dict(environment),
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def build_environment(**own: str) -> dict[str, str]:
    """What the processes find in their environment: nothing of the developer's own setup."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return {
        **kept,
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",  # else threads that wait take the cores from others
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        **own,
    }


def read_size(pid: int) -> dict[str, float]:
    """How much a process has: MiB of memory, threads and open files; raises OSError when gone."""
    status = Path(f"/proc/{pid}/status").read_text()

    def find(name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
        return int(found[1]) if found else 0

    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return {"memory": find("VmRSS") / 1024, "threads": find("Threads"), "files": files}
