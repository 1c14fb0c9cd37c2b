"""Files of any format as documents, and what their Markdown is made of."""

from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from retrieval.chunking import parse_pieces
from retrieval.records import Document
from retrieval.sources import reading
from retrieval.sources.reads import Facts, Read, Skipped

FORMATS = Path(__file__).parents[2] / "sample_formats"

Outline = list["str | Outline"]


def read(data: bytes | str, path: str, **facts: Any) -> Document:
    """A file's document; one that is skipped fails the test."""
    found = try_read(data, path, **facts)
    assert isinstance(found, Read), found
    return found.document


def try_read(data: bytes | str, path: str, **facts: Any) -> Read | Skipped:
    data = data.encode() if isinstance(data, str) else data
    return reading.read(data, Facts(path=path, url=f"https://wiki.example/{path}", **facts))


def sample(path: str) -> Document:
    """One of the sample files."""
    return read((FORMATS / path).read_bytes(), path)


def headings(text: str) -> list[str]:
    """The heading path of each block that is no heading, once each, in order."""
    paths = [
        " > ".join(piece.heading_path) for piece in parse_pieces(text) if piece.kind != "heading"
    ]
    return list(dict.fromkeys(paths))


def blocks(text: str) -> list[tuple[str, str]]:
    """The kind and the text of each top-level block."""
    return [(piece.kind, piece.text(text).strip()) for piece in parse_pieces(text)]


def table(text: str, number: int = 0) -> list[list[str]]:
    """The cells of one of a text's tables, its header first."""
    tables = [node for node in _parse(text).walk() if node.type == "table"]
    rows = [node for node in tables[number].walk() if node.type == "tr"]
    return [
        [cell.children[0].content if cell.children else "" for cell in row.children] for row in rows
    ]


def outline(text: str, number: int = 0) -> Outline:
    """One of a text's top-level lists: its items' words, and below each its own items."""
    lists = [node for node in _parse(text).children if node.type.endswith("_list")]
    return _outline(lists[number])


def _outline(node: SyntaxTreeNode) -> Outline:
    found: Outline = []
    for item in node.children:
        for child in item.children:
            if child.type == "paragraph":
                found.append(child.children[0].content)
            elif child.type.endswith("_list"):
                found.append(_outline(child))
    return found


def codes(text: str) -> list[tuple[str, str]]:
    """The language and the text of each fence, wherever it stands."""
    return [(node.info, node.content) for node in _parse(text).walk() if node.type == "fence"]


def _parse(text: str) -> SyntaxTreeNode:
    return SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(text))
