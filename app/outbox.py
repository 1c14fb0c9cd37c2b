"""What is still to be told to an asker: kept with the trace until it stands in Slack."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

from app.blocks import Message


def _build_key() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """The messages that are to stand in the place of whatever is seen of an answer."""

    messages: tuple[Message, ...]
    attempt: int = 0  # at the question, in which they were made
    key: str = field(default_factory=_build_key)  # by which they are known in Slack
    is_private: bool = False  # for the asker's eyes alone


def build_json(outbox: Outbox | None) -> str | None:
    """An outbox as the trace keeps it."""
    return None if outbox is None else json.dumps(asdict(outbox))


def parse(kept: Mapping[str, Any]) -> Outbox:
    """An outbox as the trace has kept it."""
    messages = [
        Message(text=each["text"], blocks=tuple(each["blocks"])) for each in kept["messages"]
    ]
    return Outbox(**{**kept, "messages": tuple(messages)})
