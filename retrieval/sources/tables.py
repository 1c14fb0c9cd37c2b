"""Rows of cells to a Markdown table, in which a row is one line whatever its cells hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

BREAK = "<br>"  # between the lines of a cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell as its author drew it: over one or more columns and rows."""

    text: str
    columns: int = 1
    rows: int = 1


Grid = list[list[str]]
# Chosen: what has more was not drawn by a person, and a few spans would make millions of cells.
MAX_COLUMNS = 200
MAX_CELLS = 100_000


def spread(rows: Sequence[Sequence[Cell]], *, head: int) -> Grid:
    """Rows as they look: what spans rows stands in each of them, so that each says it all.

    What spans columns does so in the first head rows only, where it names each of them. Rows and
    columns beyond MAX_CELLS and MAX_COLUMNS are cut; is_cut tells whether there were any.
    """
    grid: Grid = []
    count = 0
    below: dict[int, tuple[str, int]] = {}  # by column: what reaches down into how many rows
    for number, row in enumerate(rows):
        if count >= MAX_CELLS:
            break
        line: list[str] = []
        cells = iter(row)
        while len(line) < MAX_COLUMNS:
            if len(line) in below:
                text, left = below.pop(len(line))
                if left > 1:
                    below[len(line)] = (text, left - 1)
                line.append(text)
                continue
            cell = next(cells, None)
            if cell is None:
                if not any(column > len(line) for column in below):
                    break
                line.append("")
                continue
            for index in range(min(cell.columns, MAX_COLUMNS - len(line))):
                text = cell.text if not index or number < head else ""
                if cell.rows > 1:
                    below[len(line)] = (text, cell.rows - 1)
                line.append(text)
        grid.append(line)
        count += len(line)
    return grid


def is_cut(rows: Sequence[Sequence[Cell]], grid: Grid) -> bool:
    """Whether the grid that the rows were spread to lacks some of them."""
    return len(grid) < len(rows) or any(
        len(line) == MAX_COLUMNS < sum(cell.columns for cell in row)
        for row, line in zip(rows, grid, strict=True)
    )


def build(grid: Sequence[Sequence[str]], *, head: int = 1) -> str:
    """The table in Markdown, its first head rows joined to one; "" for one without any text.

    Columns and rows without text are left out. With no head row, the header is empty.
    """
    lines = [[_one_line(text) for text in row] for row in grid]
    columns = [column for column in zip_longest(*lines, fillvalue="") if any(column)]
    if not columns:
        return ""
    top = [" / ".join(dict.fromkeys(filter(None, column[:head]))) for column in columns]
    body = [row for row in list(zip(*columns, strict=True))[head:] if any(row)]
    return "".join(_line(row) for row in (top, ["---"] * len(columns), *body))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _one_line(text: str) -> str:
    parts = (" ".join(part.split()) for part in re.split(rf"\n|{BREAK}", text))
    return re.sub(r"(?<!\\)\|", r"\\|", BREAK.join(filter(None, parts)))
