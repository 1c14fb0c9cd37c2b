"""What answering needs of whatever writes its answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from app.records import Answer, Turn
from retrieval.records import Candidate, Query

Write = Callable[[Answer], None]  # what it raises ends the generating


def write_nowhere(_answer: Answer) -> None:
    """For who waits for the whole answer."""


class Generator(Protocol):
    """A loaded app.generate.quoted.Quoter or app.generate.anthropic.Claude."""

    settings: Mapping[str, object]  # as the trace keeps them; its name under "generator"

    def generate(
        self,
        turns: Sequence[Turn],
        query: Query,
        kept: Sequence[Candidate],
        write: Write = write_nowhere,
    ) -> Answer:
        """An answer to the last of the turns from the kept sections alone, best first.

        One that they do not support is abstained from as UNSUPPORTED, with an empty text. Where an
        answer takes time, write is given what of it can be shown already, checked like the whole:
        more each time, though its end may still change.
        Raises GenerationError when there is nothing usable, ConfigError when the environment is
        at fault.
        """
        ...
