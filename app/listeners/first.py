"""What is done before Slack is told that an event came: it sends again what is not acknowledged.

Bolt acknowledges an event before its listener runs. What the listener has not kept by then is lost
when the database is away, or the process is killed. A middleware runs before that.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from slack_bolt import BoltContext, BoltRequest, BoltResponse

from retrieval import faults
from retrieval.errors import FootnoteError

ACK_S = 2.5  # Slack waits for 3, the way there and back included
THREADS = 10  # a kind of event; each waits for the database, which has no more for us at once
RETRIES = 3  # Slack's: at once, after about a minute, after about five
RETRY_NUMBER = "x-slack-retry-num"  # Bolt names it so for Socket Mode, too

Take = Callable[[dict[str, Any], BoltContext], None]


class Late(FootnoteError):
    """What was to be done before an event is acknowledged takes too long; it may be done yet."""


def before_ack(take: Take) -> Callable[..., None]:
    """Middleware of an event's listener: take is over before Slack is told that the event came.

    Where take raises, or takes longer than ACK_S, nothing is acknowledged, and the listener does
    not run. Whatever take does has to bear being done again.
    """
    # Of its own: Bolt's threads may all be waiting for Slack, and one kind of event for another.
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="first")

    def take_first(
        body: dict[str, Any],
        context: BoltContext,
        request: BoltRequest,
        next: Callable[[], BoltResponse],
    ) -> None:
        taken = threads.submit(take, body, context)
        _wait(taken, is_last=is_last(request))
        taken.result()
        next()

    return take_first


def is_passing(error: Exception) -> bool:
    """Whether it helps when Slack sends the event again."""
    return isinstance(error, Late) or faults.is_passing(error)


def is_last(request: BoltRequest) -> bool:
    """Whether Slack does not send an event again, whatever comes of it."""
    number = next(iter(request.headers.get(RETRY_NUMBER, [])), "0")
    return number.isdecimal() and int(number) >= RETRIES


def acknowledged() -> None:
    """The listener of an event of which everything is done before."""


def _wait(taken: Future[None], *, is_last: bool) -> None:
    """Return once it is done; raise Late when it is not in time, unless it has begun and is the
    last chance: then what comes of it is known only at its end."""
    wait([taken], ACK_S)
    if not taken.done() and (taken.cancel() or not is_last):
        raise Late("An event was not taken in time.")
