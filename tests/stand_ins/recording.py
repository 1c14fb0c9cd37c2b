import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def anything(_: object) -> bool:
    return True


class Recording(Generic[T]):
    """What a stand-in has received, oldest first; a test can wait for more of it."""

    def __init__(self) -> None:
        self._records: list[T] = []
        self._grown = threading.Condition()

    def add(self, record: T) -> None:
        with self._grown:
            self._records.append(record)
            self._grown.notify_all()

    def having(self, where: Callable[[T], bool] = anything) -> tuple[T, ...]:
        with self._grown:
            return tuple(record for record in self._records if where(record))

    def wait_for(
        self, where: Callable[[T], bool] = anything, *, count: int = 1, timeout_s: float = 10
    ) -> tuple[T, ...]:
        """All records that where accepts, once there are at least count of them.

        Raises AssertionError after timeout_s, listing what was received instead.
        """
        with self._grown:
            if self._grown.wait_for(lambda: len(self.having(where)) >= count, timeout_s):
                return self.having(where)
            received = "\n  ".join(map(repr, self._records)) or "nothing"
        raise AssertionError(f"{count} not received within {timeout_s} s; received:\n  {received}")
