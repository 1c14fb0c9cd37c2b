"""What goes wrong and when, drawn from one seed.

The threads of several processes never run twice in the same order, so a seed repeats the plan, not
each moment of the run.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

Deed = Literal[
    "kill -9",
    "sockets closed",
    "sockets cut",
    "sockets refreshed",
    "sockets silent",
    "sessions ended",
    "restart, fast",
    "restart, immediate",
    "read-only",
    "connections taken",
    "clock moved",
]

# What happens by itself to 1,000 questions; of fewer, at least one of each. Chosen: the issue asks
# for 50 kills and 500 faults.
DEEDS: Mapping[Deed, int] = {
    "kill -9": 60,
    "sockets closed": 20,
    "sockets cut": 20,
    "sockets refreshed": 12,
    "sockets silent": 1,
    "sessions ended": 50,
    "restart, fast": 1,
    "restart, immediate": 2,
    "read-only": 2,
    "connections taken": 3,
    "clock moved": 8,
}
BOUNDARIES: Mapping[Deed, str] = {
    **dict.fromkeys(
        ("sockets closed", "sockets cut", "sockets refreshed", "sockets silent"), "Socket Mode"
    ),
    **dict.fromkeys(
        ("sessions ended", "restart, fast", "restart, immediate", "read-only"), "PostgreSQL"
    ),
    "connections taken": "PostgreSQL",
    "clock moved": "clock",
    "kill -9": "process",
}

# By boundary: how many calls in a hundred go wrong, and in which ways, by weight.
SHARES = {"Slack": 3.0, "Claude": 8.0, "Socket Mode": 15.0}
WAYS: Mapping[str, Mapping[str, float]] = {
    "Slack": {
        "429": 3,
        "500": 2,
        "503": 1,
        "500 after effect": 1,
        "cut before effect": 2,
        "cut after effect": 2,
        "slow": 2,
        "hangs": 0.3,
    },
    "Claude": {
        "429": 2,
        "529": 3,
        "500": 2,
        "hangs": 1,
        "cut in the middle": 4,
        "ends in the middle": 1,
        "error in the middle": 2,
        "slow": 2,
    },
    "Socket Mode": {"twice": 4, "late": 2, "out of order": 4, "not delivered": 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens by itself."""

    after_question: int  # the number of the one that was asked last
    delay_s: float
    deed: Deed


def build_steps(seed: int, question_count: int) -> tuple[Step, ...]:
    """What happens while so many questions are asked, in this order."""
    random = Random(f"{seed} steps")
    steps = [
        Step(
            after_question=random.randrange(question_count),
            delay_s=random.uniform(0, 3),
            deed=deed,
        )
        for deed, per_thousand in DEEDS.items()
        for _ in range(max(1, round(per_thousand * question_count / 1000)))
    ]
    return tuple(sorted(steps, key=lambda step: (step.after_question, step.delay_s)))


class Tally:
    """How often what went wrong, by boundary; safe to use from threads."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def note(self, boundary: str, what: str) -> None:
        with self._lock:
            self._counts[boundary, what] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(sorted(self._counts.items()))


class Dice:
    """Says of each call over a boundary, in the order in which they come, what goes wrong with it.

    Nothing does before they are loaded, nor once they are put away.
    """

    def __init__(self, seed: int, boundary: str, tally: Tally) -> None:
        self._random = Random(f"{seed} {boundary}")
        self._boundary = boundary
        self._tally = tally
        self._lock = threading.Lock()
        self.is_loaded = False

    def roll(self) -> str | None:
        """What goes wrong with the next call, if anything does."""
        ways = WAYS[self._boundary]
        with self._lock:
            if not self.is_loaded or self._random.random() * 100 >= SHARES[self._boundary]:
                return None
            (way,) = self._random.choices(list(ways), list(ways.values()))
        self._tally.note(self._boundary, way)
        return way

    def draw(self, low: float, high: float) -> float:
        """How much of it."""
        with self._lock:
            return self._random.uniform(low, high)
