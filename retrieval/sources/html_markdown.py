"""HTML elements to Markdown: headings with their ids, nested lists, tables, code and links."""

import re
from collections.abc import Sequence

from bs4 import Tag
from bs4.element import NavigableString
from markdownify import MarkdownConverter

from retrieval.sources import html_code, page_notes, tables
from retrieval.sources.furniture import HEADINGS
from retrieval.sources.tables import Cell
from retrieval.sources.text import raise_up

# What a line of prose must not begin with, or it would be a heading, a quote, a list or a fence.
_MARKUP = re.compile(r"(?=#{1,6}(?:\s|$)|>|[-+*]\s|[-=]{2,}\s*$|```|~~~|\|)|(?<=\d)(?=[.)]\s)")
_NUMBERED = re.compile(r"\d{1,9}[.)]\s")
_NUMBER = re.compile(r"[0-9]{1,9}")  # of an item, as much as Markdown takes
_DONE = "table-text"  # the element that a table's Markdown stands in until all is put together


def build(element: Tag) -> tuple[str, tuple[str, ...]]:
    """The element's content as Markdown, and what was left out; the element itself is used up.

    Raises RecursionError for what is nested hundreds deep.
    """
    for text in list(element.find_all(string=True)):
        if type(text) is NavigableString and not text.find_parent("pre"):
            text.replace_with(NavigableString(_on_one_line(text)))
    html_code.drop_line_numbers(element)
    for raised in element.find_all("sup"):
        texts = raised.find_all(string=True)
        if len(texts) == 1:
            texts[0].replace_with(NavigableString(raise_up(texts[0])))
    for listing in element.select("ol[start]"):
        if not _NUMBER.fullmatch(str(listing["start"])):
            del listing["start"]
    for listing in element.select("ol:has(> li[value])"):
        _number(listing)
    for table in element.find_all(_is_layout):
        _open_up(table)
    # The innermost first: they follow in the text of a cell of the outer one.
    cut = sum(_put_together(table) for table in reversed(element.find_all("table")))
    markdown: str = _Converter().convert_soup(element)
    parts = re.split(r"(^[ \t]*```.*?^[ \t]*```+$)", markdown, flags=re.DOTALL | re.MULTILINE)
    # Empty lines are only squeezed where they are not code.
    parts[::2] = [re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", part) for part in parts[::2]]
    notes = (f"tables that are too large are cut: {cut}; split them",) if cut else ()
    return "".join(parts).strip("\n") + "\n", notes


def _on_one_line(text: NavigableString) -> str:
    """The text without line breaks, and escaped where it would begin a line with markup."""
    line = re.sub(r"\s+", " ", text)
    if text.find_parent((*HEADINGS, "td", "th")):
        return line
    before = text.previous_sibling
    if isinstance(before, NavigableString) or (
        isinstance(before, Tag) and before.name not in _ENDS
    ):
        return line
    stripped = line.lstrip()
    if _NUMBERED.match(stripped):
        return re.sub(r"(?<=\d)(?=[.)])", r"\\", line, count=1)
    return _MARKUP.sub(r"\\", line, count=1) if _MARKUP.match(stripped) else line


_ENDS = ("br", "p", "div", "ul", "ol", "table", "pre", "blockquote", "hr", *HEADINGS)


def _number(listing: Tag) -> None:
    """Have a list of its own begin with each item that has another number than would follow."""
    count = int(str(listing.get("start") or 1))
    runs, children = [listing], list(listing.contents)
    listing.clear()
    for child in children:
        if isinstance(child, Tag) and child.name == "li":
            number = str(child.get("value") or "")
            if _NUMBER.fullmatch(number) and int(number) != count:
                if runs[-1].find("li", recursive=False):
                    runs.append(Tag(name="ol"))
                runs[-1]["start"] = number
                count = int(number)
            count += 1
        runs[-1].append(child)
    listing.insert_after(*runs[1:])


def _is_layout(element: Tag) -> bool:
    """Whether a table only puts parts of the page beside each other, other tables among them."""
    return (
        element.name == "table"
        and element.find("table") is not None
        and not any(head.find_parent("table") is element for head in element.find_all("th"))
    )


def _open_up(table: Tag) -> None:
    """Have what stands in a table's cells follow each other."""
    parts = table.find_all(["tr", "td", "th", "tbody", "thead", "tfoot"])
    for part in [part for part in parts if part.find_parent("table") is table]:
        part.name = "div"
    table.name = "div"


def _put_together(table: Tag) -> bool:
    """Put a table's Markdown in its place, or its text where it is only a box round some.

    Whether the table was too large, and is cut.
    """
    lines = [row for row in table.find_all("tr") if row.find_parent("table") is table]
    cells = [row.find_all(["td", "th"], recursive=False) for row in lines]
    caption = table.find("caption")
    if sum(map(len, cells)) <= 1:
        _open_up(table)
        return False
    head = _count_head(cells)
    rows = [[_read_cell(cell) for cell in row] for row in cells]
    if table.find_parent("table"):
        table.name = "div"
        table.string = "; ".join(", ".join(cell.text for cell in row) for row in rows)
        return False
    grid = tables.spread(rows, head=head)
    markdown = tables.build(grid, head=head)
    title = " ".join(caption.get_text(" ").split()) if isinstance(caption, Tag) else ""
    table.clear()
    table.name = _DONE
    table.append(NavigableString(f"{title}\n\n{markdown}" if title else markdown))
    return tables.is_cut(rows, grid)


def _read_cell(cell: Tag) -> Cell:
    columns, rows = _count(cell, "colspan"), _count(cell, "rowspan")
    cell.name = "div"  # or its blocks would all be put on one line
    for heading in cell.find_all(HEADINGS):
        heading.name = "p"
    for pre in cell.find_all("pre"):
        lines = pre.get_text().strip("\n").split("\n")
        pre.clear()
        pre.name = "div"
        for line in filter(str.strip, lines):
            code = Tag(name="code")
            code.string = line
            pre.extend([code, Tag(name="br")])
    text: str = _Converter().convert_soup(cell)
    return Cell(text=text.strip(), columns=columns, rows=rows)


def _count(cell: Tag, attribute: str) -> int:
    value = str(cell.get(attribute) or "")
    return int(value) if re.fullmatch(r"[1-9]\d{0,2}", value) else 1


def _count_head(cells: Sequence[Sequence[Tag]]) -> int:
    """How many rows name the columns: those of th alone, else the first.

    0 where each row has its own name before it, as in a list of properties.
    """
    heads = (
        bool(row) and (bool(row[0].find_parent("thead")) or all(cell.name == "th" for cell in row))
        for row in cells
    )
    number = next((number for number, is_head in enumerate(heads) if not is_head), 1)
    named = all(len(row) == 2 and [cell.name for cell in row] == ["th", "td"] for row in cells)
    return 0 if named else max(number, 1)


class _Converter(MarkdownConverter):
    """markdownify's, with ids at headings, the language of code, and tables put together before."""

    class Options:
        heading_style = "atx"
        bullets = "-"
        escape_asterisks = False
        escape_underscores = False  # or no identifier would be found as it is written

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        words = " ".join(text.split())
        anchor = str(el.get("id") or "")
        named = f" {{#{anchor}}}" if re.fullmatch(r"[^\s{}]+", anchor) else ""
        return f"\n\n{'#' * n} {words}{named}\n\n" if words else ""

    def convert_br(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return " " if "_inline" in parent_tags else "\n"

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """What the picture is said to show; where it lies helps nobody."""
        said = " ".join(str(el.get("alt") or "").split())
        return "" if re.fullmatch(r"\S*\.\w{2,4}|\W*", said) else said

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        href = str(el.get("href") or "").strip()
        if href.startswith("#"):  # it leads nowhere from where it is cited
            return "" if page_notes.ARROWS.fullmatch(text) else text
        if parent_tags.intersection(HEADINGS):
            return text
        if not re.match(r"(?:https?|mailto|tel):|(?![\w+.-]*:)", href, re.IGNORECASE):
            return text
        el["href"] = re.sub(r"\s", "%20", href)
        del el["title"]
        linked: str = super().convert_a(el, text, parent_tags)  # type: ignore[misc]
        return linked

    def convert_label(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """What a tab is named, by itself: the names of all of them stand in a row."""
        return text if "_inline" in parent_tags else f"\n\n**{text.strip()}**\n\n"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        for line_break in el.find_all("br"):
            line_break.replace_with("\n")
        code = el.get_text().replace("\xa0", " ").strip("\n")
        if not code.strip():
            return ""
        runs = re.findall(r"^\s*(`{3,})", code, re.MULTILINE)
        fence = "`" * (max(map(len, runs), default=2) + 1)
        return f"\n\n{fence}{html_code.find_language(el)}\n{code}\n{fence}\n\n"

    def convert_dt(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n**{text.strip()}**\n\n" if text.strip() else ""

    def convert_dd(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{text.strip()}\n\n"

    def convert_table_text(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{el.get_text()}\n\n"
