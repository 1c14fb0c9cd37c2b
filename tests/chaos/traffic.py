"""Who asks what, where: drawn from the seed, each with a word of its own."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Literal

from .agenda import Agenda
from .delivering import Deliveries
from .faulty_slack import FaultySlack

Json = dict[str, Any]
Kind = Literal["plain", "direct", "in a thread", "pair", "edited", "deleted", "twice", "small talk"]
KINDS: dict[Kind, float] = {
    "plain": 46,
    "direct": 18,
    "in a thread": 8,
    "pair": 8,
    "edited": 7,
    "deleted": 4,
    "twice": 4,
    "small talk": 5,
}
SMALL_TALK = ("thanks!", "hi", "thank you", "hello")
CASES = Path(__file__).parents[1] / "sample" / "cases.jsonl"
PEOPLE = 60
CHANNELS = 25
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


@dataclass(slots=True, kw_only=True, eq=False)
class Asked:
    """One question, as it stands in Slack."""

    number: int  # in the order in which they are asked
    kind: Kind
    message: Json  # as it was written
    word: str  # of its last wording, "" for small talk
    asked_at: float  # that wording, on the clock of monotonic
    is_deleted: bool = False

    @property
    def place(self) -> tuple[str, str]:
        return self.message["channel"], self.message["ts"]

    @property
    def thread_ts(self) -> str:
        return str(self.message.get("thread_ts") or self.message["ts"])


class Traffic:
    """Asks questions one after the other."""

    def __init__(
        self, seed: int, slack: FaultySlack, deliveries: Deliveries, agenda: Agenda
    ) -> None:
        self._random = Random(f"{seed} traffic")
        self._slack = slack
        self._deliveries = deliveries
        self._agenda = agenda
        self._questions = _load_questions()
        self._words = _build_words(self._random)
        self._threads: list[tuple[str, str]] = []  # channel and root, of which one is taken up
        self.asked: list[Asked] = []

    def ask(self, *, is_plain: bool = False) -> None:
        """One more question, of any kind unless it is to be plain, or two that belong together."""
        random = self._random
        (kind,) = random.choices(list(KINDS), list(KINDS.values()))
        if is_plain:
            kind = "plain"
        if kind == "in a thread" and not self._threads:
            kind = "plain"
        user_id = f"U{random.randrange(1, PEOPLE + 1):03d}"
        channel_id = f"C{random.randrange(1, CHANNELS + 1):03d}"
        thread_ts = None
        if kind == "direct":
            channel_id = "D" + user_id[1:]
        if kind == "in a thread":
            channel_id, thread_ts = random.choice(self._threads[-20:])
        if kind == "small talk":
            self._write(kind, channel_id, user_id, random.choice(SMALL_TALK), "")
            return
        text, word = self._word()
        first = self._write(kind, channel_id, user_id, text, word, thread_ts)
        if kind == "pair":
            text, word = self._word()
            self._write(kind, channel_id, user_id, text, word, first.message["ts"])
        elif kind == "twice":
            self._write(kind, channel_id, user_id, text, word)
        elif kind == "edited":
            self._agenda.after(random.uniform(0.1, 8), partial(self._edit, first))
        elif kind == "deleted":
            self._agenda.after(random.uniform(0.1, 8), partial(self._delete, first))
        elif kind == "plain":
            self._threads.append((channel_id, first.message["ts"]))

    def _word(self) -> tuple[str, str]:
        word = next(self._words)
        return f"{self._random.choice(self._questions)} Asked by {word}.", word

    def _write(
        self,
        kind: Kind,
        channel_id: str,
        user_id: str,
        text: str,
        word: str,
        thread_ts: str | None = None,
    ) -> Asked:
        is_direct = channel_id.startswith("D")
        message = self._slack.write(
            text if is_direct else f"<@U0BOT> {text}",
            channel_id=channel_id,
            user_id=user_id,
            thread_ts=thread_ts,
        )
        asked = Asked(
            number=len(self.asked), kind=kind, message=message, word=word, asked_at=monotonic()
        )
        self.asked.append(asked)
        if not is_direct:
            self._deliveries.send({**message, "type": "app_mention"})
        # Whoever listens to channels hears of a mention in a second event.
        if is_direct or self._random.random() < 0.3:
            self._deliveries.send(message)
        return asked

    def _edit(self, asked: Asked) -> None:
        text, word = self._word()
        start = "" if asked.message["channel"].startswith("D") else "<@U0BOT> "
        event = self._slack.edit(asked.message, start + text)
        asked.word, asked.asked_at = word, monotonic()
        self._deliveries.send(event)

    def _delete(self, asked: Asked) -> None:
        asked.is_deleted = True
        self._deliveries.send(self._slack.delete(asked.message))


def _load_questions() -> list[str]:
    """The questions of the sample that its documents answer and that need none before them."""
    cases = map(json.loads, CASES.read_text("utf-8").splitlines())
    return [case["question"] for case in cases if case["gold_any"] and not case["history"]]


def _build_words(random: Random) -> Iterator[str]:
    """Words that nothing else says, as people's names are."""
    said: set[str] = set()
    while True:
        word = "".join(random.choices(SYLLABLES, k=4))
        if word not in said:
            said.add(word)
            yield word
