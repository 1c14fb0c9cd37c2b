"""A file of Word without what its readers do not see, and without its table of contents."""

import io
import re
import zipfile
from dataclasses import dataclass
from typing import Any

from lxml import etree

_TEXT = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HIDDEN = ("vanish", "specVanish", "webHidden")
# Styles of Word's own have these names in every language; a file may lack them and use their ids.
_CONTENTS = re.compile(r"toc ?(?:\d|heading)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """A file of which only the parts that hold text are left."""

    data: bytes
    hidden_count: int  # runs of text that were left out
    equation_count: int


def clean(archive: zipfile.ZipFile) -> Cleaned:
    """Leave out text that is hidden by itself, by its style or with its row, and pictures."""
    stream = io.BytesIO()
    hidden_count = equation_count = 0
    styles = _Styles(archive)
    with zipfile.ZipFile(stream, "w") as cleaned:
        for name in dict.fromkeys(archive.namelist()):
            if not name.endswith((".xml", ".rels")):
                continue
            data = archive.read(name)
            if _TEXT.fullmatch(name):
                equation_count += len(re.findall(rb"<m:oMath[ >]", data))
                root = _parse(data)
                hidden_count += _clean_text(root, styles)
                data = etree.tostring(root.getroottree(), encoding="utf-8", xml_declaration=True)
            cleaned.writestr(name, data)
    return Cleaned(data=stream.getvalue(), hidden_count=hidden_count, equation_count=equation_count)


class _Styles:
    """What a document's styles say of the text that has them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        is_there = "word/styles.xml" in archive.namelist()
        found = _parse(archive.read("word/styles.xml")).iter(f"{_W}style") if is_there else ()
        self._styles = {_value(style, "styleId"): style for style in found}

    def is_hidden(self, style_id: str | None) -> bool | None:
        """Whether the style, or the nearest that it is based on, hides text; None: neither says."""
        for _ in range(len(self._styles)):
            style = self._styles.get(style_id)
            if style is None:
                return None
            stated = _hides(style)
            if stated is not None:
                return stated
            style_id = _find_value(style, "basedOn")
        return None

    def is_contents(self, style_id: str | None) -> bool:
        style = self._styles.get(style_id)
        name = _find_value(style, "name") if style is not None else None
        return bool(_CONTENTS.match(name or style_id or ""))


def _clean_text(root: Any, styles: _Styles) -> int:
    """How many hidden runs were taken out."""
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
