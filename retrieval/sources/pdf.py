"""PDF to Markdown: headings by the size of their font, paragraphs by their distance."""

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pdfplumber
from pdfminer.pdfdocument import PDFPasswordIncorrect
from pdfplumber.utils.exceptions import PdfminerException

from retrieval.sources import pdf_seeing, tables
from retrieval.sources.pdf_lines import Line, drop_furniture, is_page_number, read_page
from retrieval.sources.reads import Page, Unreadable
from retrieval.sources.text import escape

MAX_PAGES = 400  # a tenth of a second each; chosen
HEADING = 1.12  # times the size of the text; chosen, as between 10 and 11.5 points
# Between a mark and its item, times the size of the text; chosen. A blank in most fonts has 0.28,
# and more in a line that fills its column.
HANGING = 0.6
COUNTED = 0.4  # if numbers follow each other

_BULLET = re.compile(r"(?:[•◦▪▫‣●○■□➢❖·–\uf0b7\uf0a7]|o(?= [A-Z]))\s*(?=\S)")
_ITEM = re.compile(r"(?:\d{1,2}|[a-z])[.)]\s+(?=\S)")
_HYPHEN = re.compile(r"(?<=\w)[-\u00ad\u2010]$")
_WORD = re.compile(r"(?:and|or|to|und|oder|bis|et|ou|y|o|e)\s")  # of "pre- and postpaid"
# Before what a hyphen stands in the word itself: names, and what English makes compounds with.
_COMPOUND = re.compile(
    r"(?:[\d_/.@]\S*|\b(?:self|long|short|well|follow|full|part|high|low|non|sign|check|opt|end|day"
    r"|real|third|first|second|one|two|three|cross|all|e))-$",
    re.IGNORECASE,
)
_ENDING = re.compile(r"(?:ings?|ed|ers?|est|ly|ner|ness|en|ages?|al|able|ary|ity|less|ful)\b")


def read(data: bytes) -> Page:
    """The text with headings, lists, ruled tables, code and links.

    Raises Unreadable for a file with a password, and for one of pictures only.
    """
    try:
        document = pdfplumber.open(io.BytesIO(data))
    except PdfminerException as error:
        if error.args and isinstance(error.args[0], PDFPasswordIncorrect):
            raise Unreadable("it has a password; save it anew without one") from error
        raise
    with document:
        count = len(document.pages)
        pages, heights, unseen = [], [], 0
        for number, page in enumerate(document.pages[:MAX_PAGES]):
            seen, more = pdf_seeing.drop_unseen(page)
            unseen += more
            pages.append(read_page(seen, number))
            heights.append(float(page.height))
            page.close()
        stated = {"updated": _parse_date(str(document.metadata.get("ModDate") or ""))}
    lines = drop_furniture(pages, heights)
    if not lines:
        raise Unreadable("no text in it, only pictures; run text recognition (OCR) over it first")
    notes = []
    if count > MAX_PAGES:
        notes.append(f"{MAX_PAGES} of {count:,} pages are kept; split it")
    if unseen:
        notes.append(f"characters that nobody sees left out: {unseen:,}")
    return Page(text="".join(_write(lines)), stated=stated, notes=tuple(notes))


def _parse_date(text: str) -> str | None:
    """PDF's D:20260304093000+01'00' in ISO 8601."""
    match = re.match(r"D:(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:([+-]\d\d)'?(\d\d)?)?", text)
    if not match:
        return None
    year, month, day, hour, minute, second, zone, minutes = match.groups()
    offset = f"{zone}:{minutes or '00'}" if zone else ""
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}{offset}"


def _write(lines: Sequence[Line]) -> Iterator[str]:
    """The text in Markdown, block by block."""
    levels = Levels.of(lines)
    lines = _dot_numbers(lines, levels)
    margins: list[float] = []  # of the items above that one is below of
    for block in _group(_join_tables(lines), levels):
        first = block[0]
        if _is_item(first) and not levels.find(first):
            margins = [margin for margin in margins if margin < first.left - 2]
            yield f"{'   ' * len(margins)}{_write_item(block)}\n"
            margins.append(first.left)
            continue
        if margins:
            yield "\n"
            margins = []
        if first.is_table():
            yield tables.build(first.rows) + "\n"
        elif first.is_code:
            yield _write_code(block) + "\n"
        elif level := levels.find(first):
            yield f"{'#' * level} {' '.join(line.text for line in block)}\n\n"
        else:
            yield escape(_join(block)) + "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Which lines are headings: those in larger type than most, and bold lines."""

    body: float  # the size of most of the text
    large: Mapping[float, int]  # the level of each larger size, the largest first, at most four
    bold: int  # the level of a bold line of the text's size

    @classmethod
    def of(cls, lines: Sequence[Line]) -> "Levels":
        """The levels of a text's sizes; the size of most of its characters is none's."""
        sizes: Counter[float] = Counter()
        for line in lines:
            if not line.is_table() and not line.is_code:
                sizes[line.size] += len(line.text)
        body = sizes.most_common(1)[0][0] if sizes else 0.0
        large = sorted((size for size in sizes if size >= body * HEADING), reverse=True)
        levels = {size: min(number, 4) for number, size in enumerate(large, 1)}
        return cls(body=body, large=levels, bold=min(len(large) + 1, 5))

    def find(self, line: Line) -> int:
        """The level of a heading, from 1; 0 for anything else."""
        if line.is_table() or line.is_code or not any(map(str.isalpha, line.text)):
            return 0
        # A dash or a dot in the middle stands before headings, too.
        if is_page_number(line.text) or (_BULLET.match(line.text) and line.text[0] not in "·–"):
            return 0
        if line.size in self.large and len(line.text) < 200:
            return self.large[line.size]
        ends = re.search(r"[.,;:]$", line.text)
        is_title = line.is_bold and line.size >= self.body and len(line.text) < 80 and not ends
        return self.bold if is_title and not _is_item(line) else 0


def _dot_numbers(lines: Sequence[Line], levels: Levels) -> Sequence[Line]:
    """The lines, with a dot after bare numbers that stand before items: 1, 2 and so on."""
    dotted = list(lines)
    counted: list[int] = []  # where in lines the numbers so far stand
    for at, line in enumerate(lines):
        number = re.match(r"\d{1,2}(?= )", line.text)
        if not number or levels.find(line) or line.gap < COUNTED * line.size:
            continue
        is_next = bool(counted) and abs(lines[counted[0]].left - line.left) < 1
        if int(number[0]) == len(counted) + 1 and (is_next or not counted):
            counted.append(at)
        elif number[0] == "1":
            counted = [at]
        for each in counted if len(counted) > 1 else ():
            dotted[each] = replace(lines[each], text=re.sub(r"^\d+", r"\g<0>.", lines[each].text))
    return dotted


def _join_tables(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines, with a table that goes on over the page as one; its head is not repeated."""
    before: Line | None = None
    for line in lines:
        if before and _goes_on(before, line):
            rows = line.rows[1:] if line.rows[0] == before.rows[0] else line.rows
            before = replace(before, page=line.page, rows=(*before.rows, *rows))
            continue
        if before:
            yield before
        before = line
    if before:
        yield before


def _goes_on(before: Line, line: Line) -> bool:
    return bool(
        before.is_table()
        and line.is_table()
        and line.page == before.page + 1
        and len(before.rows[0]) == len(line.rows[0])
    )


def _group(lines: Iterator[Line], levels: Levels) -> Iterator[list[Line]]:
    """The lines of one block together: of a heading, an item, code or a paragraph."""
    block: list[Line] = []
    for line in lines:
        if block and not _continues(block, line, levels):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _continues(block: Sequence[Line], line: Line, levels: Levels) -> bool:
    before = block[-1]
    if before.is_table() or line.is_table() or before.is_code != line.is_code:
        return False
    gap = line.top - before.bottom
    if line.is_code:
        return line.page == before.page and gap < 2 * line.size
    if levels.find(before) != levels.find(line) or _is_item(line):
        return False
    if line.page != before.page or gap < -line.size:
        # A sentence that goes on over the page, or at the top of the next column.
        return not re.search(r"[.!?:]\W?$", before.text) and line.text[:1].islower()
    if _is_item(block[0]) and line.left < block[0].left + 2:
        if block[0].gap > HANGING * block[0].size and not line.text[:1].islower():
            return False
        return gap < 0.3 * line.size and not re.search(r"[.!?:]$", before.text)
    return gap < (0.5 if before.size == line.size else 0.2) * line.size


def _is_item(line: Line) -> bool:
    return bool(_BULLET.match(line.text) or _ITEM.match(line.text))


def _write_code(block: Sequence[Line]) -> str:
    left = min(line.left for line in block)
    width = max(block[0].size * 0.6, 1)  # of a character in most fonts of one width
    lines = (f"{' ' * round((line.left - left) / width)}{line.text}\n" for line in block)
    return f"```\n{''.join(lines)}```\n"


def _write_item(block: Sequence[Line]) -> str:
    text = _join(block)
    if match := _BULLET.match(text):
        return f"- {text[match.end() :]}"
    return text


def _join(block: Sequence[Line]) -> str:
    """The lines as one; a word that was cut at the end of a line is whole again.

    The hyphen stays in ERR-2041, between what is no prose, and after a word that makes compounds.
    """
    text = block[0].text
    for before, line in pairwise(block):
        if not _HYPHEN.search(before.text) or _WORD.match(line.text):
            text = f"{text} {line.text}"
        elif line.text[:1].islower() and (not _COMPOUND.search(text) or _ENDING.match(line.text)):
            text = _HYPHEN.sub("", text) + line.text
        else:
            text += line.text
    return text
