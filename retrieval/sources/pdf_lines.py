"""A PDF's pages to lines and ruled tables, without running headers, footers and page numbers."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrieval.sources import fonts, pdf_columns, pdf_raised

MARGIN = 0.12  # of the page's height, in which headers and footers run; chosen
_UNNAMED = re.compile(r"^\(cid:\d+\)")
_BOLD = re.compile(r"bold|black|heavy|semibold|demi", re.IGNORECASE)
# Of a page, alone or out of all; in the margins, or it may be a figure.
_NUMBER = re.compile(
    r"(?:page |seite |p\. ?)?[-–\[(]? ?\d{1,4} ?(?:[/|–-]|of|von|sur|de)? ?\d{0,4} ?[-–\])]?", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Words on one line, or a table where they stand."""

    text: str
    page: int
    top: float  # in points from the top of the page
    bottom: float
    left: float
    right: float
    size: float = 0.0  # of most of its characters, in points
    gap: float = 0.0  # between its first two words, in points
    is_bold: bool = False
    is_code: bool = False
    rows: tuple[tuple[str, ...], ...] = ()  # of a table

    def is_table(self) -> bool:
        return bool(self.rows)


def read_page(page: Any, number: int) -> list[Line]:
    """The lines and tables of one page, from top to bottom, of two columns one after the other."""
    links = [link for link in page.hyperlinks if link.get("uri")]
    tables = [table for table in page.find_tables() if len(table.rows) > 1]
    lines = [_read_table(table, number) for table in tables]
    rest = page
    for table in tables:
        rest = rest.outside_bbox(_within(table.bbox, page.bbox), strict=False)
    words = pdf_raised.join(
        rest.extract_words(
            extra_attrs=["size", "fontname"],
            keep_blank_chars=False,
            use_text_flow=False,
            x_tolerance_ratio=0.15,
        )
    )
    gutter = pdf_columns.find_gutter(words, float(page.width))
    lines += [_read_line(line, links, number) for line in pdf_columns.split(words, gutter)]
    lines.sort(key=lambda line: line.top)
    return lines if gutter is None else _order(lines, gutter)


def _order(lines: Sequence[Line], gutter: float) -> list[Line]:
    """The lines between two that run over both columns, the left column's first.

    Those of the right one stand as if they went on in the left.
    """
    left = min(line.left for line in lines)
    shift = min((line.left for line in lines if line.left > gutter), default=left) - left
    ordered: list[Line] = []
    right: list[Line] = []
    for line in lines:
        if line.left > gutter:
            right.append(replace(line, left=line.left - shift, right=line.right - shift))
            continue
        if line.right > gutter:
            ordered += right
            right = []
        ordered.append(line)
    return ordered + right


def _within(box: Sequence[float], page: Sequence[float]) -> tuple[float, ...]:
    return (max(box[0], page[0]), max(box[1], page[1]), min(box[2], page[2]), min(box[3], page[3]))


def _read_table(table: Any, number: int) -> Line:
    rows = tuple(tuple(_join_words(cell or "") for cell in row) for row in table.extract())
    left, top, right, bottom = table.bbox
    return Line(
        text="\n".join(" ".join(row) for row in rows),
        page=number,
        top=top,
        bottom=bottom,
        left=left,
        right=right,
        rows=rows,
    )


def _join_words(cell: str) -> str:
    """A cell's lines; a word that was cut at the end of one is whole again."""
    return re.sub(r"(?<=[a-zà-ÿ])[-\u00ad]\n(?=[a-zà-ÿ])", "", cell)


def _read_line(words: Sequence[Any], links: Sequence[Any], number: int) -> Line:
    first, *others = sorted(words, key=lambda word: word["x0"])
    # What has no letter of its own in the font, there, is its bullet.
    words = [{**first, "text": _UNNAMED.sub("•", first["text"])}, *others]
    sizes: Counter[float] = Counter()
    names: Counter[str] = Counter()
    for word in words:
        sizes[round(word["size"] * 2) / 2] += len(word["text"])
        names[word["fontname"]] += len(word["text"])
    is_code = all(map(fonts.is_monospaced, names))
    return Line(
        text=_space(words) if is_code else _link(words, links),
        page=number,
        top=min(word["top"] for word in words),
        bottom=max(word["bottom"] for word in words),
        left=words[0]["x0"],
        right=words[-1]["x1"],
        size=sizes.most_common(1)[0][0],
        gap=max(others[0]["x0"] - first["x1"], 0.0) if others else 0.0,
        is_bold=all(map(_BOLD.search, names)),
        is_code=is_code,
    )


def _space(words: Sequence[Any]) -> str:
    """The words of a line of code, as far apart as they stand."""
    text = ""
    width = sum(word["x1"] - word["x0"] for word in words) / sum(
        len(word["text"]) for word in words
    )
    for word in words:
        place = round((word["x0"] - words[0]["x0"]) / width) if width else 0
        text += " " * max(place - len(text), 1 if text else 0) + word["text"]
    return text


def _link(words: Sequence[Any], links: Sequence[Any]) -> str:
    """The words, those on a link's place within the link."""
    parts: list[tuple[str | None, str]] = []
    for word in words:
        uri = next((link["uri"] for link in links if _covers(link, word)), None)
        if parts and parts[-1][0] == uri:
            parts[-1] = (uri, f"{parts[-1][1]} {word['text']}")
        else:
            parts.append((uri, word["text"]))
    return " ".join(_write_link(text, uri) for uri, text in parts)


def _write_link(text: str, uri: str | None) -> str:
    if not uri or text == uri or not re.match(r"https?://\S+$|mailto:\S+$", uri):
        return text
    end = re.search(r"[.,;:]?$", text)
    mark = end[0] if end else ""
    return f"[{text.removesuffix(mark)}]({uri}){mark}"


def _covers(link: Any, word: Any) -> bool:
    middle = (word["x0"] + word["x1"]) / 2
    height = (word["top"] + word["bottom"]) / 2
    return bool(link["x0"] <= middle <= link["x1"] and link["top"] <= height <= link["bottom"])


def is_page_number(text: str) -> bool:
    """Whether a line says by a word, too, that it is one: "Page 1 of 8"."""
    return text[:1].isalpha() and bool(_NUMBER.fullmatch(text))


def drop_furniture(pages: Sequence[Sequence[Line]], heights: Sequence[float]) -> list[Line]:
    """The lines of all pages without those that run along their upper and lower margins.

    They are the same on every other page at least, but for their numbers, or a bare number.
    """
    repeated: Counter[tuple[str, bool]] = Counter()
    for page, height in zip(pages, heights, strict=True):
        repeated.update({_key(line, height) for line in page if _is_marginal(line, height)})
    least = max(2, len(pages) / 2)
    return [
        line
        for page, height in zip(pages, heights, strict=True)
        for line in page
        if not _is_marginal(line, height)
        or (repeated[_key(line, height)] < least and not _NUMBER.fullmatch(line.text))
    ]


def _is_marginal(line: Line, height: float) -> bool:
    return not line.is_table() and (
        line.bottom < height * MARGIN or line.top > height * (1 - MARGIN)
    )


def _key(line: Line, height: float) -> tuple[str, bool]:
    return re.sub(r"\d+", "#", line.text), line.top < height / 2
