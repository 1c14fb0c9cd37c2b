"""A file of Word without what its readers do not see, but with the numbers that they see."""

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

_TEXT = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_CHOICE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Choice"
_HIDDEN = ("vanish", "specVanish", "webHidden")
NUMBER = "number:"  # before the number of a paragraph, in the name of a bookmark at its beginning
# Styles of Word's own have these names in every language; a file may lack them and use their ids.
_CONTENTS = re.compile(r"toc ?(?:\d|heading)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """A file of which only the parts that hold text are left."""

    data: bytes
    hidden_count: int  # runs of text that were left out
    equation_count: int


def clean(archive: zipfile.ZipFile) -> Cleaned:
    """Leave out pictures, the table of contents, and text hidden by itself, its style or its row.

    Each paragraph of a list begins with a bookmark that holds its number.
    """
    stream = io.BytesIO()
    hidden_count = equation_count = 0
    styles = _Styles(archive)
    numbering = _Numbering(archive, styles)
    with zipfile.ZipFile(stream, "w") as cleaned:
        for name in dict.fromkeys(archive.namelist()):
            if not name.endswith((".xml", ".rels")):
                continue
            data = archive.read(name)
            if _TEXT.fullmatch(name):
                equation_count += len(re.findall(rb"<m:oMath[ >]", data))
                root = _parse(data)
                hidden_count += _clean_text(root, styles)
                _number(root, numbering)
                data = etree.tostring(root.getroottree(), encoding="utf-8", xml_declaration=True)
            cleaned.writestr(name, data)
    return Cleaned(data=stream.getvalue(), hidden_count=hidden_count, equation_count=equation_count)


class _Styles:
    """What a document's styles say of the text that has them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._styles = _load(archive, "word/styles.xml", "styleId", "style")

    def is_hidden(self, style_id: str | None) -> bool | None:
        """Whether the style, or the nearest that it is based on, hides text; None: neither says."""
        stated = map(_hides, self._follow(style_id))
        return next((each for each in stated if each is not None), None)

    def find_value(self, style_id: str | None, path: str) -> str | None:
        """A property of the style, or of the nearest that it is based on."""
        values = (_find_value(style, path) for style in self._follow(style_id))
        return next((value for value in values if value is not None), None)

    def _follow(self, style_id: str | None) -> Iterator[Any]:
        for _ in range(len(self._styles)):
            style = self._styles.get(style_id)
            if style is None:
                return
            yield style
            style_id = _find_value(style, "basedOn")

    def is_contents(self, style_id: str | None) -> bool:
        style = self._styles.get(style_id)
        name = _find_value(style, "name") if style is not None else None
        return bool(_CONTENTS.match(name or style_id or ""))


class _Numbering:
    """The lists of a document, and how far each is counted."""

    def __init__(self, archive: zipfile.ZipFile, styles: _Styles) -> None:
        self._styles = styles
        self._lists = _load(archive, "word/numbering.xml", "numId", "num")
        self._kinds = _load(archive, "word/numbering.xml", "abstractNumId", "abstractNum")
        self._counts: dict[str | None, dict[int, int]] = {}  # by kind and level
        self._begun: set[tuple[str | None, int]] = set()

    def count(self, paragraph: Any) -> int | None:
        """The number before the next paragraph; None for one of no list.

        Lists of one kind go on where another ended, unless they say where they begin; what is below
        an item begins anew.
        """
        style_id = _find_value(paragraph, "pPr/pStyle")
        list_id, level_id = (
            _find_value(paragraph, path) or self._styles.find_value(style_id, path)
            for path in ("pPr/numPr/numId", "pPr/numPr/ilvl")
        )
        level = int(level_id or 0)
        begins = self._find(self._lists.get(list_id), "lvlOverride", level, "startOverride")
        kind_id = self._find_kind(list_id)
        if kind_id not in self._kinds:
            return None
        counts = self._counts.setdefault(kind_id, {})
        if begins is not None and (list_id, level) not in self._begun:
            counts[level] = begins
        elif level in counts:
            counts[level] += 1
        else:
            counts[level] = self._find(self._kinds[kind_id], "lvl", level, "start") or 0
        self._begun.add((list_id, level))
        self._counts[kind_id] = {each: counts[each] for each in counts if each <= level}
        return counts[level]

    def _find_kind(self, list_id: str | None) -> str | None:
        """The kind of a list: its own, or that of the style which its own is linked to."""
        for _ in range(2):
            found = self._lists.get(list_id)
            kind_id = _find_value(found, "abstractNumId") if found is not None else None
            kind = self._kinds.get(kind_id)
            linked = _find_value(kind, "numStyleLink") if kind is not None else None
            if linked is None:
                return kind_id
            list_id = self._styles.find_value(linked, "pPr/numPr/numId")
        return kind_id

    @staticmethod
    def _find(element: Any, name: str, level: int, start: str) -> int | None:
        levels = element.iter(_W + name) if element is not None else ()
        found = next((each for each in levels if _value(each, "ilvl") == str(level)), None)
        value = _find_value(found, start) if found is not None else None
        return int(value) if value is not None else None


def _number(root: Any, numbering: _Numbering) -> None:
    for paragraph in root.iter(f"{_W}p"):
        number = numbering.count(paragraph)
        if number is not None:
            mark = etree.Element(f"{_W}bookmarkStart", {f"{_W}name": f"{NUMBER}{number}"})
            paragraph.insert(1, mark)  # the properties come first


def _clean_text(root: Any, styles: _Styles) -> int:
    """How many hidden runs were taken out."""
    for choice in list(root.iter(_CHOICE)):  # of a text box, whose text stands in a fallback, too
        _remove(choice)
    for paragraph in list(root.iter(f"{_W}p")):
        if styles.is_contents(_find_value(paragraph, "pPr/pStyle")):
            _remove(paragraph)
    hidden = [run for run in root.iter(f"{_W}r") if _is_hidden(run, styles)]
    for run in hidden:
        _remove(run)
    for row in list(root.iter(f"{_W}tr")):
        if _states(row, "trPr/hidden"):
            hidden += row.iter(f"{_W}r")
            _remove(row)
    return sum(run.find(f"{_W}t") is not None for run in hidden)


def _is_hidden(run: Any, styles: _Styles) -> bool:
    stated = _hides(run)
    if stated is None:
        stated = styles.is_hidden(_find_value(run, "rPr/rStyle"))
    if stated is None:
        paragraph = next(run.iterancestors(f"{_W}p"), None)
        if paragraph is not None:
            stated = styles.is_hidden(_find_value(paragraph, "pPr/pStyle"))
    return bool(stated)


def _hides(element: Any) -> bool | None:
    """What a run's or a style's own properties say of whether it is seen."""
    stated = [_states(element, f"rPr/{name}") for name in _HIDDEN]
    return True if True in stated else False if False in stated else None


def _states(element: Any, path: str) -> bool | None:
    """A property that is on when it is there, unless its value says that it is off."""
    found = element.find(_qualify(path))
    return None if found is None else _value(found, "val") not in ("0", "false", "off")


def _find_value(element: Any, path: str) -> str | None:
    found = element.find(_qualify(path))
    return None if found is None else _value(found, "val")


def _qualify(path: str) -> str:
    return "/".join(_W + name for name in path.split("/"))


def _load(archive: zipfile.ZipFile, name: str, key: str, kind: str) -> dict[str | None, Any]:
    """The elements of a kind in a part of the file by their ids; none where it has no such part."""
    if name not in archive.namelist():
        return {}
    return {_value(each, key): each for each in _parse(archive.read(name)).iter(_W + kind)}


def _value(element: Any, name: str) -> str | None:
    value: str | None = element.get(_W + name)
    return value


def _remove(element: Any) -> None:
    if element.getparent() is not None:
        element.getparent().remove(element)


def _parse(data: bytes) -> Any:
    # Entities stay as they are: the reader after this one refuses them.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    return etree.fromstring(data, parser)
