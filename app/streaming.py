"""An answer that is seen while it is written."""

import re
import threading
from collections.abc import Callable
from itertools import takewhile
from time import monotonic

from slack_sdk import WebClient

from app import markdown, posting
from app.blocks import MESSAGE_TEXT, build_below
from app.posting import Part
from app.records import Answer, Arrival

INTERVAL_S = 1.0  # between two additions to an answer; Slack takes about 100 a minute of them all


_ROW = re.compile(r"^\s*\||\s\|\s|\|\s*$")  # also of a table without bars at its sides


class Stream:
    """The message in which one answer grows; safe to use from several threads.

    It only ever holds what its answer begins with, and while it grows waits for Slack neither long
    nor again. What goes wrong ends the growing: then finish says that the answer does not stand
    there, and the message, where there is one, is to be replaced by the whole.
    """

    def __init__(
        self,
        client: WebClient,
        arrival: Arrival,
        part: Part,
        started: Callable[[str], None],
        *,
        interval_s: float,
    ) -> None:
        """started is told the ts of the message as soon as there is one."""
        self.ts: str | None = None
        self.may_be_lost = False  # Slack may have opened a message that nobody knows of
        self._client = client
        self._arrival = arrival
        self._part = part
        self._started = started
        self._interval_s = interval_s
        self._lock = threading.RLock()
        self._draft = ""
        self._shown = ""
        self._next_at = 0.0  # on the clock of monotonic
        self._grows = posting.can_stream(arrival)
        self._is_open = False  # as Slack has it

    @property
    def text(self) -> str:
        """What is seen so far, as Markdown."""
        return self._shown

    def grow(self, answer: Answer) -> None:
        """Show what of the answer so far has settled; raises StoppedByAsker.

        Its end may still change with what follows, so only what two in a row begin with is shown,
        and no half marker, link or table; nor anything that Slack could take for more than text.
        """
        with self._lock:
            if not self._grows or len(answer.text) > MESSAGE_TEXT:
                return
            settled, self._draft = _settle(self._draft, answer.text), answer.text
            more = settled.removeprefix(self._shown)
            is_more = settled.startswith(self._shown) and bool(more.strip())
            if is_more and monotonic() >= self._next_at and _is_plain(settled, answer):
                self._append(more)

    def finish(self, answer: Answer) -> bool:
        """Show the rest of the whole answer and its sources; whether all of it stands there.

        Raises StoppedByAsker. A stream that is not finished is over, too.
        """
        with self._lock:
            whole = answer.text
            fits = whole.startswith(self._shown) and len(whole) <= MESSAGE_TEXT
            is_text = fits and not answer.abstained_because and _is_plain(whole, answer)
            if self.ts is None or not self._grows or not is_text:
                self.end()
                return False
            rest, below = whole.removeprefix(self._shown), build_below(answer)
            self._grows = False
            try:
                posting.stop_stream(self._client, self._arrival, self.ts, rest, below, self._part)
            except (posting.StreamLost, posting.StreamLimited):
                self.end()
                return False
            finally:
                self._is_open = False
            self._shown = whole
            return True

    def end(self) -> None:
        """Let nothing grow any more, so that the message can be replaced or deleted."""
        with self._lock:
            self._grows = False
            if self.ts is not None and self._is_open:
                self._is_open = False
                posting.abandon_stream(self._client, self._arrival, self.ts)

    def _append(self, more: str) -> None:
        self._next_at = monotonic() + self._interval_s
        try:
            if self.ts is None:
                self.may_be_lost = True
                self.ts = posting.start_stream(self._client, self._arrival)
                self.may_be_lost, self._is_open = False, True
                self._started(self.ts)
            posting.append_to_stream(self._client, self._arrival, self.ts, more)
        except posting.StreamLimited as limited:
            self._next_at = monotonic() + limited.retry_after_s
        except posting.StreamLost:
            self._grows = False
        except posting.StoppedByAsker:
            self._grows = self._is_open = False
            raise
        else:
            self._shown += more


def _is_plain(text: str, answer: Answer) -> bool:
    return markdown.is_plain(text, [citation.url for citation in answer.citations])


def _settle(before: str, draft: str) -> str:
    """What two drafts begin with, without a word, code, marker, link or table that may go on.

    The same twice tells nothing: what closes it, a fence say, may be there for the time being.
    """
    if before == draft:
        return ""
    pairs = zip(before, draft, strict=False)
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    common = draft[:length]
    if before[length : length + 1].strip() or draft[length : length + 1].strip():
        common = common.removesuffix(re.split(r"\s", common)[-1])
    lines = common.split("\n")
    whole = len(lines) - (not lines[-1])  # a last line that has not begun may still be a row
    while whole and _ROW.search(lines[whole - 1]):
        whole -= 1
        lines = [*lines[:whole], ""]
    return "\n".join([*lines[:-1], _finished(lines[-1])])


def _finished(line: str) -> str:
    """A line without the code, marker or link at its end that may go on."""
    if line.count("`") % 2:
        line = line[: line.rfind("`")]
    closed = line.rfind("]")
    opened = line.find("[", closed + 1)
    if opened >= 0:
        return line[:opened]
    is_open = line.startswith("](", closed) and ")" not in line[closed:]
    if closed < 0 or not is_open:
        return line
    return line[: line.find("[")]  # the first: a marker may be in the label
