"""A process of its own for converting files: one that nobody vouches for cannot do much there.

What holds it to that:

- From the start it has no environment, no open files but one pipe, and a working folder of no use;
  what it prints goes nowhere. Limits of the system's are on memory (but on macOS), on writing, on
  open files and on core dumps. It ends with its parent (Linux), and in any case after TIMEOUT_S.
- The kernel, whatever code runs, libraries in C among it: on Linux, files can be read only below
  Python's folders and the system's libraries, and none be written or removed (Landlock, since
  Linux 5.13); there are no sockets, programs, other processes, signals or changes of a file's
  rights (seccomp, on x86-64 and ARM of 64 bits).
- Python's audit hook refuses the same on every system, and ctypes, but only to Python's own
  functions: it keeps libraries from what they are led to do, not code that was smuggled in. Without
  the kernel's help, as on macOS, libraries in C can open files.

What remains: files in Python's folders can be read, a checkout that Footnote runs from among them;
whether a path exists can be told; the page that comes back may say anything.
"""

import importlib
import json
import math
import mimetypes
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from retrieval.sources import confinement, conversion
from retrieval.sources.reads import Page, Unreadable

# For one file: 400 dense pages of a PDF, as many as are read, take 40 s of a core, and two times as
# long beside others. What takes longer was made to, and holds up all that come after it.
TIMEOUT_S = 120.0
MEMORY = 3_000_000_000  # bytes; chosen
MOST_OPEN = 64  # files; chosen: a handful while a library is loaded
_LIMITS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, MOST_OPEN),
)
# Of the system's, what Python's libraries in C are linked with.
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_FORBIDDEN = (
    *("socket.", "subprocess.", "ctypes.", "shutil.", "tempfile.", "fcntl.", "mmap.", "syslog."),
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "pty."),
    *("os.kill", "signal.pthread_kill", "os.remove", "os.rename", "os.link", "os.symlink"),
    *("os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr"),
    *("os.removexattr", "os.chflags", "os.lockf"),
)
_LISTING = ("os.listdir", "os.scandir", "os.chdir", "os.listxattr", "os.getxattr")


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
        command = [sys.executable, "-P", "-B", "-m", __name__, str(theirs.fileno())]
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            command,
            # Of numpy's, which openpyxl loads: there are no threads.
            env={"PYTHONPATH": paths, "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"},
            cwd="/",
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
            signal.alarm(math.ceil(TIMEOUT_S) + 1)  # for when nobody is left to end it
            try:
                page = conversion.convert(data, suffix)
            except Unreadable as error:
                reply: dict[str, object] = {"reason": str(error)}
            else:
                reply = {"text": page.text, "stated": page.stated, "notes": page.notes}
            connection.send_bytes(json.dumps(reply, default=str).encode())


def lock_up() -> None:
    """Have this process do nothing any more but convert, as the module's docstring says."""
    mimetypes.init()  # reads the system's tables, which openpyxl asks for
    importlib.import_module("pypdfium2")  # pdfplumber loads it, through ctypes
    confinement.end_with_parent()
    own = str(Path(__file__).parents[1])
    places = (*sys.path, sys.prefix, sys.base_prefix, own, "/usr/share/zoneinfo", os.devnull)
    readable = [os.path.realpath(place) for place in places if place]
    for limit, value in _LIMITS:
        with suppress(ValueError, OSError):  # macOS knows no limit of memory
            resource.setrlimit(limit, (value, value))
    confinement.confine([*readable, *_LIBRARIES])
    allowed = tuple(place + os.sep for place in readable)
    sys.addaudithook(lambda event, arguments: _refuse(event, arguments, allowed))


def _refuse(event: str, arguments: tuple[object, ...], allowed: tuple[str, ...]) -> None:
    """Raise for what no conversion needs: networks, programs, and files that are not Python's."""
    if event.startswith(_FORBIDDEN):
        raise PermissionError(event)
    if event == "open":
        file, _, flags = arguments
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(event)
    elif event in _LISTING:
        file = arguments[0] or "."
    else:
        return
    if isinstance(file, str | bytes):
        path = os.path.realpath(os.fsdecode(file))
        if not (path + os.sep).startswith(allowed):
            raise PermissionError(path)


if __name__ == "__main__":
    lock_up()
    serve(Connection(int(sys.argv[1])))
