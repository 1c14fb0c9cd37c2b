"""A process of its own for converting files: one that nobody vouches for cannot do much there.

It has no environment, no network and no files but Python's own, a limit on memory, and an end. What
it prints goes nowhere.
"""

import json
import mimetypes
import os
import resource
import subprocess
import sys
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from retrieval.sources import conversion
from retrieval.sources.reads import Page, Unreadable

TIMEOUT_S = 300.0  # for one file; 400 dense pages of a PDF take 40 s of a core
MEMORY = 3_000_000_000  # bytes; chosen
_FORBIDDEN = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
)


class Converter:
    """Converts files in a process that is started with the first and anew after a bad one."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def convert(self, data: bytes, suffix: str) -> Page:
        """As conversion.convert; Unreadable, too, for what takes too long or too much memory."""
        connection = self._connection or self._start()
        try:
            connection.send_bytes(suffix.encode())
            connection.send_bytes(data)
            if not connection.poll(self._timeout_s):
                self.close()
                raise Unreadable(f"not converted within {self._timeout_s:.0f} s; split it")
            reply = json.loads(connection.recv_bytes())
        except (OSError, EOFError) as error:
            self.close()
            raise Unreadable(
                "it cannot be converted: the process that tried has died; save it anew, or split it"
            ) from error
        if "reason" in reply:
            raise Unreadable(reply["reason"])
        return Page(text=reply["text"], stated=reply["stated"], notes=tuple(reply["notes"]))

    def _start(self) -> Connection:
        self._connection, theirs = Pipe()
        # -P: a folder of documents that is the current one may hold a json.py.
        command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            command,
            env={"PYTHONPATH": paths, "PYTHONUTF8": "1"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        return self._connection

    @property
    def process_id(self) -> int | None:
        """Of the process that runs; None between two."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End the process; the next file starts another."""
        if self._connection:
            self._connection.close()
            self._connection = None
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


def serve(connection: Connection) -> None:
    """Convert what comes until the other side is gone."""
    with suppress(EOFError):
        while True:
            suffix = connection.recv_bytes().decode()
            data = connection.recv_bytes()
            try:
                page = conversion.convert(data, suffix)
            except Unreadable as error:
                reply: dict[str, object] = {"reason": str(error)}
            else:
                reply = {"text": page.text, "stated": page.stated, "notes": page.notes}
            connection.send_bytes(json.dumps(reply, default=str).encode())


def lock_up() -> None:
    """Have this process do nothing any more but convert."""
    mimetypes.init()  # reads the system's tables, which openpyxl asks for
    for limit, value in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0)):
        with suppress(ValueError, OSError):  # macOS knows no limit of memory
            resource.setrlimit(limit, (value, value))
    own = str(Path(__file__).parents[1])
    places = (*sys.path, sys.prefix, sys.base_prefix, own, "/usr/share/zoneinfo", os.devnull)
    allowed = tuple(os.path.realpath(place) + os.sep for place in places if place)
    sys.addaudithook(lambda event, arguments: _refuse(event, arguments, allowed))


def _refuse(event: str, arguments: tuple[object, ...], allowed: tuple[str, ...]) -> None:
    """Raise for what no conversion needs: networks, programs, and files that are not Python's."""
    if event.startswith(_FORBIDDEN):
        raise PermissionError(event)
    file = arguments[0] if event == "open" else None
    if isinstance(file, str | bytes):
        path = os.path.realpath(os.fsdecode(file))
        if not (path + os.sep).startswith(allowed):
            raise PermissionError(path)


if __name__ == "__main__":
    lock_up()
    serve(Connection(int(sys.argv[1])))
