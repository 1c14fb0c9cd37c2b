"""Code in HTML pages: its language, and its lines without their numbers."""

import re
from itertools import pairwise

from bs4 import Tag
from bs4.element import NavigableString

# The last is Sphinx's.
_LANGUAGE = re.compile(
    r"(?:language|lang|highlight-source|brush:|highlight(?=-\S+ notranslate))[-\s]*"
    r"([A-Za-z][\w+#.-]*)"
)
_NO_LANGUAGE = ("none", "text", "plain", "plaintext", "default", "auto")
_NUMBERS = re.compile(r"[\s\d]*")
_NUMBER = re.compile(r"[0-9]{1,9}")
_GUTTER = re.compile(r"line-?no|line-?num|gutter")


def find_language(pre: Tag) -> str:
    """The language of a block of code, as the site's highlighter has it; "" without one."""
    for element in (pre, pre.find("code"), pre.parent, pre.parent and pre.parent.parent):
        if not isinstance(element, Tag):
            continue
        names = element.get_attribute_list("class")
        stated = " ".join(filter(None, (*names, str(element.get("data-syntaxhighlighter-params")))))
        language = element.get("data-language") or element.get("data-lang")
        if not language and (match := _LANGUAGE.search(stated)):
            language = match[1]
        if language and str(language).lower() not in _NO_LANGUAGE:
            return re.sub(r"[^\w+#.-]", "", str(language)).lower()
    return ""


def drop_line_numbers(element: Tag) -> None:
    """Take the numbers out of the lines of code, and from beside them; below a name stays code."""
    for table in element.find_all("table"):
        if code := _find_numbered(table):
            _put_in_place(code, table)
    for number in element.select("pre .linenos, pre .lineno, pre .line-numbers"):
        if _NUMBERS.fullmatch(number.get_text()):
            number.decompose()


def _find_numbered(table: Tag) -> Tag | None:
    """The code of a table that only puts the numbers of its lines beside it."""
    blocks = table.find_all("pre")
    cells = [block.find_parent("td") for block in blocks]
    if len(blocks) != 2 or table.find_all("td") != cells:
        return None
    (numbers, code), (beside, cell) = blocks, cells
    if beside is None or cell is None or beside.parent is not cell.parent:
        return None
    is_all = cell.get_text(strip=True) == code.get_text(strip=True)
    return code if is_all and (_is_gutter(numbers, beside) or _counts(numbers, code)) else None


def _is_gutter(numbers: Tag, cell: Tag) -> bool:
    """Whether a cell of numbers is named for what it is."""
    names = f"{numbers.get('class')} {cell.get('class')}"
    return bool(_GUTTER.search(names) and _NUMBERS.fullmatch(numbers.get_text()))


def _counts(numbers: Tag, code: Tag) -> bool:
    """Whether there is a number for each of several lines, each one more than that before."""
    found = numbers.get_text().split()
    lines = code.get_text().strip("\n").split("\n")
    if not 1 < len(lines) == len(found) or not all(map(_NUMBER.fullmatch, found)):
        return False
    return all(int(after) - int(before) == 1 for before, after in pairwise(found))


def _put_in_place(code: Tag, table: Tag) -> None:
    if table.find_parent("pre"):  # of rouge
        table.replace_with(NavigableString(code.get_text()))
        return
    for name in table.find_all("th"):
        name.name = "p"
        table.insert_before(name)
    table.replace_with(code)
