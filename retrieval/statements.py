"""A section's Markdown to statements, the smallest parts that can be cited; pure."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import sentencex
from markdown_it import MarkdownIt

from retrieval.sources.markdown import plain_heading

BlockKind = Literal["heading", "paragraph", "item", "table", "code", "markup"]
StatementKind = Literal["heading", "sentence", "item", "head", "row", "code", "markup"]

# markdown-it-py's inline parser takes a second and more for 40,000 brackets; a section's
# paragraph has a tenth of that, and what is longer is a table or a log that lost its line breaks.
MAX_PARAGRAPH = 10_000  # characters

_LEAVES: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "table_open": "table",
    "fence": "code",
    "code_block": "code",
    "html_block": "markup",
    "hr": "markup",
}

_CLOSING = re.compile(r"(?<=\S)[*_\"'”’)\]]+\s+")

_blocks = MarkdownIt("commonmark").enable("table").disable("inline")
_chat_blocks = MarkdownIt("commonmark").enable("table")
_chat_blocks.disable(["inline", "html_block", "reference"])
_inline = MarkdownIt("commonmark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A leaf of the Markdown tree: what holds text and no further blocks."""

    kind: BlockKind  # item: the first paragraph of a list item; markup: HTML, rules, definitions
    span: tuple[int, int]  # half-open, without blank space round it; code keeps its indentation
    heading_path: tuple[str, ...]  # of the text's own headings, outermost first
    group: int  # the top-level block that it is in, from 0
    depth: int  # of lists that it is in; 0 outside of any


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What can be cited by itself: a sentence, a list item's text, a table row, a code block."""

    text: str  # as written
    kind: StatementKind  # head: a table's header row with its rule; markup: as in Block
    span: tuple[int, int]  # half-open, into the section's text
    heading_path: tuple[str, ...]  # outermost first; a heading's own ends with itself
    group: int  # the top-level block that it is in, from 0
    depth: int  # of lists that it is in; an item's nested ones are deeper and follow it
    head: str = ""  # for a row: the text of its table's head


def parse(text: str, *, under: Sequence[str] = ()) -> tuple[Statement, ...]:
    """The statements of a section's text in its order.

    Spans do not overlap, and what lies between them is blank. under is the heading path of
    the section; each statement's path is that followed by the headings above it in the text.
    """
    return tuple(
        Statement(
            text=text[start:end],
            kind=kind,
            span=(start, end),
            heading_path=_join(tuple(under), block.heading_path),
            group=block.group,
            depth=block.depth,
            head=head,
        )
        for block in parse_blocks(text)
        for kind, start, end, head in _parts(text, block)
        if start < end
    )


def parse_blocks(text: str, *, is_chat: bool = False) -> Iterator[Block]:
    """The text's leaf blocks in order, under the same rules as statements; in linear time.

    is_chat: as where HTML and definitions of links are text like any other.
    """
    lines = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    headings: list[tuple[int, str]] = []
    end = group = depth = 0
    opens_item = False
    tokens = (_chat_blocks if is_chat else _blocks).parse(text)
    for index, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0 and token.map is not None:
            # A link's definition makes no token, but belongs to the text; not to the next block.
            start = lines[min(token.map[0], len(lines) - 1)]
            for gap in _block("markup", text, (end, start), headings, group, depth):
                yield gap
                group += 1
            end = max(end, start)
        if token.type in ("list_item_open", "list_item_close"):
            depth += token.nesting
            opens_item = token.nesting > 0
        if token.type in _LEAVES and token.map is not None:
            start, stop = (lines[min(line, len(lines) - 1)] for line in token.map)
            # Within a list or quotation, so does an empty item.
            yield from _block("markup", text, (end, start), headings, group, depth)
            if token.type == "heading_open":
                level = int(token.tag[1:])
                headings = [entry for entry in headings if entry[0] < level]
                headings.append((level, plain_heading(tokens[index + 1].content)))
            kind = _LEAVES[token.type]
            if kind == "paragraph" and opens_item:
                kind = "item"
            yield from _block(kind, text, (max(start, end), stop), headings, group, depth)
            end, opens_item = max(end, stop), False
        if token.level == 0 and token.nesting <= 0:
            group += 1
    yield from _block("markup", text, (end, len(text)), headings, group, 0)


def _block(
    kind: BlockKind,
    text: str,
    span: tuple[int, int],
    headings: Sequence[tuple[int, str]],
    group: int,
    depth: int,
) -> Iterator[Block]:
    start, end = _strip(text, *span)
    if start >= end:
        return
    if kind == "code":
        start = max(span[0], text.rfind("\n", 0, start) + 1)
    path = tuple(title for _, title in headings if title)
    yield Block(kind=kind, span=(start, end), heading_path=path, group=group, depth=depth)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _join(under: tuple[str, ...], path: tuple[str, ...]) -> tuple[str, ...]:
    """The section's path followed by the text's own, what both name once."""
    for size in range(min(len(under), len(path)), 0, -1):
        if under[-size:] == path[:size]:
            return under + path[size:]
    return under + path


def _parts(text: str, block: Block) -> Iterator[tuple[StatementKind, int, int, str]]:
    """Kind, start, end and head of each statement of a block."""
    start, end = block.span
    if block.kind == "table":
        lines = text[start:end].splitlines(keepends=True)
        head = "".join(lines[:2])
        yield "head", *_strip(text, start, start + len(head)), ""
        offsets = list(accumulate(map(len, lines[2:]), initial=start + len(head)))
        for first, last in pairwise(offsets):
            yield "row", *_strip(text, first, last), head.strip()
    elif block.kind == "paragraph":
        for first, last in _sentences(text[start:end]):
            yield "sentence", *_strip(text, start + first, start + last), ""
    else:
        yield block.kind, start, end, ""


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence starts and ends, without cutting code, links, emphasis or addresses."""
    ends = list(accumulate(map(len, sentencex.segment("en", text))))[:-1]
    if len(text) > MAX_PARAGRAPH:
        ends = []
    # sentencex ends a sentence at its full stop, though a closing mark may follow on that.
    ends = [match.end() if (match := _CLOSING.match(text, end)) else end for end in ends]
    ends = [end for end in ends if _is_plain(text, end)]
    # Marks of white space at each place: one that the parser still finds in plain text is not
    # inside of anything. Emphasis is the same with and without them, since space is there already
    # or no mark of emphasis is near.
    cuts = [0, *ends, len(text)]
    parts = (text[a:b].replace("\v", " ") for a, b in pairwise(cuts))
    marked = "".join(f"\v{number}\v{part}" for number, part in enumerate(parts)) if ends else ""
    found: set[int] = set()
    for inline in _inline.parseInline(marked):
        for child in inline.children or []:
            if child.type == "text" and child.level == 0:
                found.update(int(number) for number in re.findall(r"\v(\d+)\v", child.content))
    cuts = [0, *(end for number, end in enumerate(ends, 1) if number in found), len(text)]
    yield from pairwise(cuts)


def _is_plain(text: str, end: int) -> bool:
    """Whether a mark at this place changes nothing: after white space, or between words of a
    script that has no spaces."""
    return text[end - 1].isspace() or (not text[end - 1].isascii() and text[end].isalnum())


def statement_at(statements: Sequence[Statement], position: int) -> Statement | None:
    """The statement that holds a position of the text, or else the next one; None at the end."""
    index = bisect_left(statements, position + 1, key=lambda statement: statement.span[1])
    return statements[index] if index < len(statements) else None
