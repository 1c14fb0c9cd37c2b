"""XLSX to Markdown: each sheet under its name, its blocks of cells as tables."""

import io
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import openpyxl
from openpyxl.cell.rich_text import CellRichText, TextBlock

from retrieval.sources import properties, tables
from retrieval.sources.reads import Page
from retrieval.sources.text import escape, raise_up

MAX_ROWS = 2_000  # of a sheet; chosen: what is longer is data, and nobody asks for its last row
MAX_COLUMNS = 60
DIGITS = 15  # before or after the point at most; what is larger or smaller has an exponent

_UNKNOWN = re.compile(rb"</f>\s*(?:<v\s*/>|<v></v>)?\s*</c>|<f[^>]*/>\s*</c>")

Line = list[str]


def read(data: bytes) -> Page:
    """The sheets that are shown, in order; what is left out is told in the notes."""
    archive = properties.unpack(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what openpyxl does not keep: pictures, validation
        book = openpyxl.load_workbook(io.BytesIO(data), data_only=True, rich_text=True)
    parts: list[str] = []
    notes: list[str] = []
    if count := _count_unknown(archive):
        notes.append(f"formulas without a value: {count:,}; open it in Excel and save it")
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            notes.append(f"the hidden sheet {sheet.title!r} is left out")
            continue
        notes += _find_left_out(sheet)
        lines = _read_lines(sheet)
        notes += _drop_hidden(sheet, lines)
        text = "\n".join(_read_blocks(lines))
        if text:
            parts.append(f"## {sheet.title}\n\n{text}\n")
    # Sheets have no other title, and few templates bring one along.
    title = {"title": book.properties.title} if book.properties.title else {}
    stated = {**title, **properties.read(archive)}
    return Page(text="".join(parts), stated=stated, notes=tuple(notes))


def _find_left_out(sheet: Any) -> Iterator[str]:
    for count, most, what in (
        (sheet.max_row, MAX_ROWS, "rows"),
        (sheet.max_column, MAX_COLUMNS, "columns"),
    ):
        if count > most:
            yield f"of the sheet {sheet.title!r}, {most:,} of {count:,} {what} are kept; split it"


def _count_unknown(archive: zipfile.ZipFile) -> int:
    """How many formulas have no value: no program has computed them since they were written."""
    names = (name for name in archive.namelist() if name.startswith("xl/worksheets/sheet"))
    return sum(len(_UNKNOWN.findall(archive.read(name))) for name in names)


def _read_lines(sheet: Any) -> list[Line]:
    """The cells as text, what is merged in each cell that it covers."""
    rows = sheet.iter_rows(max_row=min(sheet.max_row, MAX_ROWS), max_col=MAX_COLUMNS)
    lines = [[_read_cell(cell) for cell in row] for row in rows]
    for merged in sheet.merged_cells.ranges:
        first_row, first_column = merged.min_row - 1, merged.min_col - 1
        if first_row >= len(lines) or first_column >= MAX_COLUMNS:
            continue
        text = lines[first_row][first_column]
        wide = merged.max_col > merged.min_col
        below = first_row + 1 < len(lines) and sum(map(bool, lines[first_row])) > 1
        for line in lines[first_row : merged.max_row]:
            # The name of a group of columns stands over each; a line across a table only once.
            end = min(merged.max_col, len(line)) if not wide or below else first_column + 1
            line[first_column:end] = [text] * (end - first_column)
    return lines


def _drop_hidden(sheet: Any, lines: list[Line]) -> Iterator[str]:
    """Take out what readers of the sheet do not see; in words what it was, where it said anything.

    What is merged is spread before: a name that begins in a hidden row stands in those below it.
    """
    rows = {number - 1 for number, row in sheet.row_dimensions.items() if row.hidden}
    columns = {
        number - 1
        for column in sheet.column_dimensions.values()
        if column.hidden  # one for a run of columns
        for number in range(column.min, min(column.max, MAX_COLUMNS) + 1)
    }
    count = sum(any(line) for number, line in enumerate(lines) if number in rows)
    lines[:] = [line for number, line in enumerate(lines) if number not in rows]
    if count:
        yield f"of the sheet {sheet.title!r}, hidden rows are left out: {count:,}"
    count = sum(any(line[number : number + 1] for line in lines) for number in columns)
    lines[:] = [[text for at, text in enumerate(line) if at not in columns] for line in lines]
    if count:
        yield f"of the sheet {sheet.title!r}, hidden columns are left out: {count:,}"


def _read_cell(cell: Any) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return (
            value.date().isoformat() if value.time() == time() else value.isoformat(" ", "minutes")
        )
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, int | float):
        return _read_number(value, str(cell.number_format))
    text = _read_text(value).strip()
    link = cell.hyperlink.target if cell.hyperlink else None
    return f"[{text}]({link})" if link and "\n" not in text and "://" in link else text


def _read_text(value: object) -> str:
    if not isinstance(value, CellRichText):
        return str(value)
    return "".join(
        raise_up(part.text)
        if isinstance(part, TextBlock) and part.font.vertAlign == "superscript"
        else str(part)
        for part in value
    )


def _read_number(value: float, number_format: str) -> str:
    """The number with all its digits; as it is shown where that says what it is.

    A share in per cent, and a code with its zeros: 01234 has the format 00000.
    """
    if "%" in number_format:
        return f"{_write(round(value * 100, 6))}%"
    number = _write(value)
    is_code = re.fullmatch("0+", number_format) and number.isdecimal()
    return number.zfill(len(number_format)) if is_code else number


def _write(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    # Excel keeps 15 digits, and what a sum has beyond them was never written by anybody.
    number = Decimal(f"{value:.{DIGITS}g}")
    return f"{number:f}" if abs(number.adjusted()) <= DIGITS else f"{value:.{DIGITS}g}"


def _read_blocks(lines: Sequence[Line]) -> Iterator[str]:
    """Tables, and lines of their own above and between them."""
    table: list[Line] = []
    for block in _split(lines):
        while block and sum(map(bool, block[0])) == 1 and _widest(block) > 1:
            if table:
                yield _build(table)
                table = []
            yield escape("".join(block.pop(0))) + "\n"
        if not block:
            continue
        if table and not _is_head(block[0]):
            table += block  # the same table, below an empty row
            continue
        if table:
            yield _build(table)
        table = block
    if table:
        yield _build(table)


def _split(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines between empty ones."""
    block: list[Line] = []
    for line in [*lines, []]:
        if any(line):
            block.append(line)
        elif block:
            yield block
            block = []


def _widest(block: Sequence[Line]) -> int:
    return max(sum(map(bool, line)) for line in block)


def _is_head(line: Line) -> bool:
    """Whether a row names columns: none of what it says is a number or a date."""
    return not any(text[:1].isdigit() or text[:1] == "-" for text in line if text)


def _build(table: Sequence[Line]) -> str:
    if _widest(table) == 1:
        return escape("".join("".join(line) + "\n\n" for line in table))
    first = [text for text in table[0] if text]
    # A name that stands over several columns has theirs below it.
    head = 2 if len(set(first)) < len(first) and len(table) > 2 and _is_head(table[1]) else 1
    return tables.build(table, head=head)
