"""Statements with one condition of a WHERE taken out: what holds then is row-level security.

A condition is what is joined by AND: of one that is made of several by OR all are taken out at
once. What is joined ON, FILTERs and CASEs are left as they are, and so is what functions of the
database do, those above all that run as its owner (SECURITY DEFINER): these see every page by
design, and give no row to anybody.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

_TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|\w+|[()]|\S")
_END = {
    *("GROUP", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "RETURNING"),
    *("HAVING", "FOR", "ON", "WINDOW", "WHEN", "THEN"),
}


def find_conditions(statement: str) -> list[tuple[int, int]]:
    """Where in a statement each condition stands that is joined by AND in some WHERE."""
    found: list[tuple[int, int]] = []
    depth, between = 0, False
    open_at: dict[int, int] = {}  # depth -> where the condition at hand begins
    for token in _TOKEN.finditer(statement):
        word, place = token[0].upper(), token.start()
        if depth in open_at and (
            word in _END or word == ")" or word == ";" or (word == "AND" and not between)
        ):
            found.append((open_at.pop(depth), place))
            if word == "AND":
                open_at[depth] = token.end()
        if word in ("(", "CASE"):
            depth += 1
        elif word in (")", "END"):
            open_at.pop(depth, None)
            depth -= 1
        elif word == "WHERE":
            open_at[depth] = token.end()
        between = word == "BETWEEN" or (between and word != "AND")
    found += [(start, len(statement)) for start in open_at.values()]
    return sorted(found)


def strip(statement: str, number: int) -> str:
    """The statement with its condition of that number always true."""
    start, end = find_conditions(statement)[number]
    return f"{statement[:start]} true {statement[end:]}"


class Stripper:
    """Takes a condition out of the statements of an engine as they are run."""

    def __init__(self) -> None:
        self.met: dict[str, None] = {}  # statements that read tables, in order
        self._target: tuple[str, int] | None = None
        self.stripped = 0

    @contextmanager
    def listening(self, engine: Engine) -> Iterator[None]:
        event.listen(engine, "before_cursor_execute", self._rewrite, retval=True)
        try:
            yield
        finally:
            event.remove(engine, "before_cursor_execute", self._rewrite)

    @contextmanager
    def stripping(self, statement: str, number: int) -> Iterator[None]:
        """Have that one condition of that one statement be true while the block runs."""
        self._target = statement, number
        try:
            yield
        finally:
            self._target = None

    def _rewrite(
        self, _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> tuple[str, Any]:
        if "FROM" in statement.upper():
            self.met.setdefault(statement)
        if self._target and self._target[0] == statement:
            self.stripped += 1
            return strip(statement, self._target[1]), parameters
        return statement, parameters
