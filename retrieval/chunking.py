"""Document to sections and chunks: embed small, answer large.

A section is whole headings joined up to a size, so that what the model reads is complete. A
chunk is a part of one heading's text that fits the embedder's window, so that what is searched
is precise. A table, a list or a fence is cut only when it fits nowhere, and then every part
repeats the table's head or the fence's marks.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import sentencex
from markdown_it import MarkdownIt
from markdown_it.token import Token

from retrieval import anchors
from retrieval.records import Chunk, Document, Section
from retrieval.sources.markdown import plain_heading

VERSION = "1"  # raise it with any change that yields other sections or chunks for the same text

TokenStarts = Callable[[str], Sequence[int]]  # the offset in a text at which each token starts

# Blocks are all that is asked for; parsing what is inside them would take most of the time.
_parser = MarkdownIt("commonmark").enable("table").disable("inline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of a document's text that stays in one place; head and tail are repeated round it."""

    kind: str  # heading, paragraph, list, table, fence, other
    start: int
    end: int
    heading_path: tuple[str, ...]
    head: str = ""
    tail: str = ""

    def text(self, source: str) -> str:
        return self.head + source[self.start : self.end] + self.tail


def split(
    document: Document, token_starts: TokenStarts, *, section_tokens: int, chunk_tokens: int
) -> list[Section]:
    """The sections of a document, in its order, each with its chunks.

    Every character of the text that is not white space between blocks is in exactly one
    section. A text without words gives no section.
    """
    ruler = _Ruler(document.text, token_starts)
    pieces = parse_pieces(document.text)
    places = _find_anchors(document)
    sections = []
    for group in _pack(pieces, section_tokens, ruler, at_headings=True):
        text, starts = _join(group, document.text)
        if not any(character.isalnum() for character in text):
            continue
        sections.append(
            Section(
                heading_path=_shared_path([piece.heading_path for piece in group]),
                text=text,
                span=(group[0].start, group[-1].end),
                token_count=sum(map(ruler.measure, group)),
                chunks=tuple(_chunks(group, document.text, chunk_tokens, ruler)),
                anchors=tuple(_place_anchors(places, group, starts)),
            )
        )
    return sections


def _find_anchors(document: Document) -> list[tuple[int, str | None]]:
    """Where each heading begins and what its anchor is, in order."""
    if document.anchors is None:
        return []
    lines = _line_offsets(document.text)
    found = anchors.find(document.text, document.anchors)
    return [(lines[line], anchor) for line, anchor in found]


def _place_anchors(
    places: Sequence[tuple[int, str | None]], group: Sequence[Piece], starts: Sequence[int]
) -> Iterator[tuple[int, str | None]]:
    """Section.anchors of a group of pieces that begin at these offsets in the section's text."""
    first = bisect_right(places, group[0].start, key=lambda place: place[0])
    if first:
        yield 0, places[first - 1][1]
    last = bisect_left(places, group[-1].end, key=lambda place: place[0])
    for at, anchor in places[first:last]:
        index = bisect_right(group, at, key=lambda piece: piece.start) - 1
        yield starts[index] + at - group[index].start, anchor


def parse_pieces(text: str) -> list[Piece]:
    """The text's top-level Markdown blocks in order, each under its headings."""
    lines = _line_offsets(text)
    path: list[tuple[int, str]] = []
    pieces: list[Piece] = []
    end = 0
    tokens = _parser.parse(text)
    for index, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        start, stop = lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)]
        if start > end and text[end:start].strip():
            # Link reference definitions make no token, but the text that uses them needs them.
            pieces.append(_piece("other", end, start, path))
        if token.type == "heading_open":
            level = int(token.tag[1:])
            path = [entry for entry in path if entry[0] < level]
            path.append((level, plain_heading(tokens[index + 1].content)))
        pieces.append(_piece(_kind(token), start, stop, path))
        end = stop
    if text[end:].strip():
        pieces.append(_piece("other", end, len(text), path))
    return pieces


def _piece(kind: str, start: int, end: int, path: Sequence[tuple[int, str]]) -> Piece:
    headings = tuple(title for _, title in path if title)
    return Piece(kind=kind, start=start, end=end, heading_path=headings)


def _kind(token: Token) -> str:
    kinds = {
        "heading_open": "heading",
        "paragraph_open": "paragraph",
        "bullet_list_open": "list",
        "ordered_list_open": "list",
        "table_open": "table",
        "fence": "fence",
    }
    return kinds.get(token.type, "other")


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    for line in text.split("\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    offsets[-1] = len(text)
    return offsets


class _Ruler:
    """Counts tokens in parts of one text, tokenizing it once."""

    def __init__(self, text: str, token_starts: TokenStarts) -> None:
        self.text = text
        # A table's rule of 300 hyphens would count as 300 tokens and push its rows out.
        self.starts = [
            start for start in token_starts(text) if text[max(start - 3, 0) : start + 1] != "----"
        ]
        self.token_starts = token_starts

    def measure(self, piece: Piece) -> int:
        extra = len(self.token_starts(piece.head + piece.tail)) if piece.head or piece.tail else 0
        return self.between(piece.start, piece.end) + extra

    def between(self, start: int, end: int) -> int:
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)

    def cut(self, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
        """The span in runs of at most limit tokens, cut between words where there are any."""
        while self.between(start, end) > limit:
            middle = self.starts[bisect_left(self.starts, start) + limit]
            space = max(self.text.rfind(blank, start + 1, middle) for blank in " \t\n")
            middle = space + 1 if space > start else middle
            yield start, middle
            start = middle
        yield start, end


def _pack(
    pieces: Sequence[Piece], limit: int, ruler: _Ruler, *, at_headings: bool
) -> Iterator[list[Piece]]:
    """Pieces in runs of at most limit tokens; a heading's text is kept whole where it fits.

    at_headings decides what is joined: whole headings as long as they fit, or never more
    than one heading's text.
    """
    current: list[Piece] = []
    size = 0
    for group in _by_heading(pieces):
        group_size = sum(map(ruler.measure, group))
        if current and (not at_headings or size + group_size > limit):
            yield current
            current, size = [], 0
        if group_size <= limit:
            current += group
            size += group_size
            continue
        for part in _fit(group, limit, ruler):
            part_size = ruler.measure(part)
            if current and size + part_size > limit:
                done, current = _before_lead_in(current, ruler.text)
                if done:
                    yield done
                size = sum(map(ruler.measure, current))
                if current and size + part_size > limit:
                    yield current
                    current, size = [], 0
            current.append(part)
            size += part_size
    if current:
        yield current


def _by_heading(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    for piece in pieces:
        if piece.kind == "heading" and group and any(p.kind != "heading" for p in group):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _before_lead_in(pieces: Sequence[Piece], source: str) -> tuple[list[Piece], list[Piece]]:
    """The pieces, and apart from them those at the end that only introduce what comes next."""
    index = len(pieces)
    if pieces[-1].kind == "paragraph" and pieces[-1].text(source).rstrip().endswith(":"):
        index -= 1
    while index and pieces[index - 1].kind == "heading":
        index -= 1
    return list(pieces[:index]), list(pieces[index:])


def _fit(pieces: Sequence[Piece], limit: int, ruler: _Ruler) -> Iterator[Piece]:
    """The pieces, those of more than limit tokens in parts that fit, below their headings too."""
    headings = sum(ruler.measure(piece) for piece in pieces if piece.kind == "heading")
    room = max(limit - headings, limit // 2)
    for piece in pieces:
        if ruler.measure(piece) <= room:
            yield piece
        else:
            yield from _parts(piece, room, ruler)


def _parts(piece: Piece, limit: int, ruler: _Ruler) -> Iterator[Piece]:
    """One long piece in parts: by rows, items, lines or sentences, then between tokens."""
    text = ruler.text[piece.start : piece.end]
    lines = text.splitlines(keepends=True)
    if piece.head:
        spans = _spans(piece.start, lines)
    elif piece.kind == "table" and len(lines) > 2:
        head = "".join(lines[:2])
        compact = re.sub(r" {2,}", " ", re.sub(r"-{4,}", "---", head))
        piece = replace(piece, head=compact, start=piece.start + len(head))
        spans = _spans(piece.start, lines[2:])
    elif piece.kind == "fence" and len(lines) > 2:
        marks = lines[0].lstrip()
        mark = marks[: len(marks) - len(marks.lstrip(marks[0]))]
        ending = lines[-1].strip()
        closing = lines[-1] if ending.startswith(mark) and not ending.strip(mark[0]) else ""
        start, end = piece.start + len(lines[0]), piece.end - len(closing)
        piece = replace(piece, head=lines[0], tail=closing or f"{mark}\n", start=start, end=end)
        spans = _spans(start, ruler.text[start:end].splitlines(keepends=True))
    elif piece.kind == "list":
        spans = _item_spans(piece, text)
    elif piece.kind == "paragraph":
        spans = _spans(piece.start, sentencex.segment("en", text))
    else:
        spans = _spans(piece.start, lines)
    head_size = ruler.measure(replace(piece, start=piece.end))
    room = max(limit - head_size, limit // 2)
    fitting = [cut for span in spans for cut in _cut_span(span, room, ruler)]
    start = piece.start
    for index, (_, end) in enumerate(fitting):
        last = index + 1 == len(fitting)
        if last or ruler.between(start, fitting[index + 1][1]) > room:
            yield replace(piece, start=start, end=end)
            start = end


def _cut_span(span: tuple[int, int], limit: int, ruler: _Ruler) -> Iterator[tuple[int, int]]:
    """A row, item, line or sentence that is too long itself: by lines, by sentences, by tokens."""
    if ruler.between(*span) <= limit:
        yield span
        return
    lines = ruler.text[span[0] : span[1]].splitlines(keepends=True)
    if len(lines) > 1:
        for line in _spans(span[0], lines):
            yield from _cut_span(line, limit, ruler)
        return
    for sentence in _spans(span[0], sentencex.segment("en", lines[0])):
        yield from ruler.cut(*sentence, limit)


def _spans(start: int, parts: Sequence[str]) -> list[tuple[int, int]]:
    spans = []
    for part in parts:
        spans.append((start, start + len(part)))
        start += len(part)
    return spans


def _item_spans(piece: Piece, text: str) -> list[tuple[int, int]]:
    lines = _line_offsets(text)
    starts = [
        lines[token.map[0]]
        for token in _parser.parse(text)
        if token.type == "list_item_open" and token.level == 1 and token.map
    ]
    # A part of a list that was cut before may begin in the middle of an item.
    cuts = sorted({0, *starts, len(text)})
    return [(piece.start + a, piece.start + b) for a, b in pairwise(cuts)]


def _chunks(
    pieces: Sequence[Piece], source: str, chunk_tokens: int, ruler: _Ruler
) -> Iterator[Chunk]:
    for group in _pack(pieces, chunk_tokens, ruler, at_headings=False):
        text = _join(group, source)[0].strip("\n")
        if any(character.isalnum() for character in text):
            yield Chunk(text=text, heading_path=group[-1].heading_path)


def _join(pieces: Sequence[Piece], source: str) -> tuple[str, list[int]]:
    """The pieces' text with what stands between them, and where each piece's own begins in it.

    Parts of one cut piece stay apart.
    """
    text = ""
    starts = []
    for before, piece in zip([None, *pieces], pieces, strict=False):
        if before and not before.tail and not piece.head:
            text += source[before.end : piece.start]
        starts.append(len(text) + len(piece.head))
        text += piece.text(source)
    blank = len(text) - len(text.lstrip("\n"))
    return text.strip("\n") + "\n", [start - blank for start in starts]


def _shared_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    shared = paths[0]
    for path in paths[1:]:
        while path[: len(shared)] != shared:
            shared = shared[:-1]
    return shared
