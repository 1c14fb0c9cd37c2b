"""What happened, a line each, so that the story of one question can be told."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path


class Journal:
    """Lines in a file of the run's folder, beside those that the processes log; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._file = (folder / "world.log").open("a", encoding="utf-8", buffering=1)

    def note(self, line: str) -> None:
        now = datetime.now(UTC)
        with self._lock:
            if not self._file.closed:
                # In the form of the processes' own logs, so that both sort into one story.
                self._file.write(f"{now:%Y-%m-%d %H:%M:%S},{now:%f} {line}\n")

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def tell(self, words: list[set[str]], most: int = 40) -> list[str]:
        """The lines of all logs that have every word of one of the sets, in their order."""
        found = [
            f"{line[:240]}  [{path.stem}]"
            for path in sorted(self._folder.glob("*.log"))
            for line in _read_lines(path)
            if any(all(word in line for word in each) for each in words)
        ]
        return sorted(found)[-most:]


def _read_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            yield line.rstrip()
