"""What `footnote doctor` has to say."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    level: Literal["ok", "note", "error"]
    text: str  # what was found and, unless all is well, what to do

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ok(text: str) -> Finding:
    """All is well."""
    return Finding(level="ok", text=text)


def note(text: str) -> Finding:
    """Somebody should look at it."""
    return Finding(level="note", text=text)


def error(text: str) -> Finding:
    """Footnote does not work, or not safely."""
    return Finding(level="error", text=text)
