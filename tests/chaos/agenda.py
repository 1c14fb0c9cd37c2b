"""What is to be done later."""

import heapq
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import monotonic
from types import TracebackType
from typing import Self

THREADS = 24  # of what is done at once: much of it waits


class Agenda:
    """Does things when they are due, on threads of its own, while its with-block runs."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._is_over = False
        self._doing = 0
        self.errors: list[str] = []
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="agenda")
        self._thread = threading.Thread(target=self._run, name="agenda")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._thread.join()
        self._executor.shutdown()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (monotonic() + seconds, next(self._numbers), do))
            self._changed.notify_all()

    def count_open(self) -> int:
        """How many things are being done or still to be done."""
        with self._changed:
            return len(self._due) + self._doing

    def _run(self) -> None:
        with self._changed:
            while not self._is_over:
                wait_s = self._due[0][0] - monotonic() if self._due else None
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                _, _, do = heapq.heappop(self._due)
                self._doing += 1
                self._executor.submit(self._do, do)

    def _do(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception:
            self.errors.append(traceback.format_exc())
        finally:
            with self._changed:
                self._doing -= 1
