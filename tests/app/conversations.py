"""Conversations for tests."""

from app.records import Turn


def build_turns(*texts: str) -> list[Turn]:
    """A conversation in which bot and user take turns, the last the user's."""
    last = len(texts) - 1
    return [
        Turn(speaker="bot" if (last - number) % 2 else "user", text=text)
        for number, text in enumerate(texts)
    ]
