"""What every call of Claude shares: the client, and what is read of its messages."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import anthropic
from anthropic.types import Message, TextBlock

from app.config import Settings
from retrieval.errors import ConfigError, GenerationError

MOST_FAILURES = 3  # in a row, until nobody waits for Claude any more; chosen
REST_S = 30.0  # until the next question tries whether it is back; chosen


class Away(GenerationError):
    """Claude is out of reach, overloaded or does not come to an end."""


class Breaker:
    """Keeps questions from waiting for a Claude that is away; safe to use from several threads.

    pybreaker 1.4.1 holds its lock for as long as a call lasts: answers would be written one after
    the other.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """now: seconds on a clock that never goes back."""
        self._now = now
        self._lock = threading.Lock()  # over what follows
        self._failures = 0  # in a row
        self._next_at = 0.0  # when one question tries again, once there are MOST_FAILURES

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Run a call of Claude, whose Away counts as a failure, and all else as a sign of life.

        Raises Away without a call after MOST_FAILURES in a row, but of one question each REST_S.
        """
        self._refuse()
        try:
            yield
        except Away:
            with self._lock:
                self._failures += 1
                self._next_at = self._now() + REST_S
            raise
        except BaseException:
            self._close()
            raise
        self._close()

    def _refuse(self) -> None:
        with self._lock:
            if self._failures < MOST_FAILURES:
                return
            if self._now() < self._next_at:
                raise Away(f"Claude failed {self._failures} times in a row and is left alone.")
            self._next_at = self._now() + REST_S  # those that come meanwhile do not wait for it

    def _close(self) -> None:
        with self._lock:
            self._failures = 0


def open_client(settings: Settings, *, timeout_s: float) -> anthropic.Anthropic:
    """A client of the Messages API, safe to use from several threads; close it after use.

    It tries nothing again by itself: it would wait for as long as Claude says, an hour if need be,
    and each time anew for timeout_s. Raises ConfigError when no key is set.
    """
    if settings.anthropic_api_key is None:
        raise ConfigError("Claude needs a key. Set ANTHROPIC_API_KEY.")
    return anthropic.Anthropic(
        api_key=settings.anthropic_api_key.get_secret_value(),
        base_url=settings.anthropic_base_url,
        timeout=timeout_s,
        max_retries=0,
    )


def read_text(message: Message) -> str:
    """All that Claude wrote, without what it thought."""
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))


def count_tokens(message: Message) -> Mapping[str, int]:
    """Input, from a cache or not, and output, as billed."""
    usage = message.usage
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return {"input": usage.input_tokens + cached, "output": usage.output_tokens}
