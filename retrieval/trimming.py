"""A section to what of it bears on the question, in whole blocks."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from retrieval import chunking
from retrieval.chunking import Piece
from retrieval.late_interaction import Interaction
from retrieval.records import StoredSection

GAP = "…"  # stands where blocks were left out

# On handbook dev these raise recall@1200t from 0.779 to 0.802, and no answer is lost. With BEHIND
# 0.15 a seventh of the tokens is left out, and one answer with them.
LEAST = 1_200  # characters that are left, some 300 tokens
BEHIND = 0.2  # a chunk's score behind the best one's, up to which it stays
SHARE = 0.05  # … or of the question that has its best place in the chunk, from which on it stays

MIN_LINE = 20  # characters from which on a line tells which block it is from

# How a step begins: `3.`, `**Step 3:**`, `c)`; not `3-day`, nor `Q.` and `A.`, which count nothing.
_STEP = re.compile(
    r"[ >*_-]*(?P<word>[^\W\d_]+ )?\(?(?:(?P<number>\d+) ?[.):–—*_-]+|(?P<letter>[a-z])[.)][*_]*)"
    r"(?=\s|$)"
)


def trim(section: StoredSection, interactions: Sequence[Interaction]) -> StoredSection:
    """The section with the blocks of its best chunks alone, GAP between those that do not adjoin.

    What is among the best against any reading of the question stays. Blocks are whole: a list, a
    table or a fence is never cut, headings and lead-ins stay with what they are about, and steps
    with those that they go on from. A section of LEAST characters or fewer stays as it is.
    """
    if len(section.text) <= LEAST:
        return section
    chunks = [chunk for interaction in interactions for chunk in _choose(interaction)]
    pieces = chunking.parse_pieces(section.text)
    stays = [any(_overlap(piece.text(section.text), chunk) for chunk in chunks) for piece in pieces]
    stays = _complete(section.text, pieces, stays)
    if all(stays) or not any(stays):
        return section
    text, kept = _join(section.text, pieces, stays)
    places = [(_find_place(place, kept), url) for place, url in section.urls]
    urls = tuple((place, url) for place, url in places if place is not None)
    return replace(section, text=text, urls=urls)


def _choose(interaction: Interaction) -> list[str]:
    """The texts of the chunks that stay, in order."""
    scores = interaction.chunk_scores
    places = interaction.similarities.argmax(axis=0)
    shares = np.bincount(places, weights=interaction.weights, minlength=len(scores))
    stays = (shares >= SHARE) | (scores >= scores.max() - BEHIND)
    texts = interaction.chunk_texts
    length = sum(len(text) for text, stay in zip(texts, stays, strict=True) if stay)
    for index in np.argsort(-scores, kind="stable").tolist():
        if length >= LEAST:
            break
        if not stays[index]:
            stays[index] = True
            length += len(texts[index])
    return [text for text, stay in zip(texts, stays, strict=True) if stay]


def _overlap(piece: str, chunk: str) -> bool:
    """Whether one holds a line of the other; a chunk may hold several blocks, or part of one."""
    return any(line in chunk for line in _lines(piece)) or any(
        line in piece for line in _lines(chunk)
    )


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    return [line for line in lines if len(line) >= MIN_LINE] or lines


def _complete(text: str, pieces: Sequence[Piece], stays: Sequence[bool]) -> list[bool]:
    """What stays, with what it belongs to and the headings above it."""
    kept: list[bool] = []
    for run in _runs(text, pieces):
        kept += [any(stays[index] for index in run)] * len(run)
    for index, piece in enumerate(pieces):
        if piece.kind == "heading":
            depth = len(piece.heading_path)
            kept[index] = any(
                stay
                and other.kind != "heading"
                and other.heading_path[:depth] == piece.heading_path
                for other, stay in zip(pieces, kept, strict=True)
            )
    return kept


def _runs(text: str, pieces: Sequence[Piece]) -> list[range]:
    """The indexes of all pieces, by what is of no use apart."""
    runs: list[range] = []
    for index in range(len(pieces)):
        first = _find_first(text, pieces, index)
        start = index
        while runs and runs[-1].stop > first:
            start = runs.pop().start
        runs.append(range(start, index + 1))
    return runs


def _find_first(text: str, pieces: Sequence[Piece], index: int) -> int:
    """Where that begins which a piece goes on with: its lead-in, or the steps before a note."""
    piece = pieces[index]
    word, number = _read_step(text, piece)
    if number > 1:
        for earlier in range(index - 1, -1, -1):
            other = pieces[earlier]
            if other.heading_path != piece.heading_path:
                break
            # Substeps may stand between two steps, and are counted otherwise.
            if _read_step(text, other)[0] == word:
                return earlier
    if not index or piece.kind == "heading":
        return index
    before = pieces[index - 1]
    introduces = before.kind == "paragraph" and before.text(text).rstrip().endswith(":")
    return index - 1 if introduces else index


def _read_step(text: str, piece: Piece) -> tuple[str | None, int]:
    """How the steps are marked of which a piece begins one, and its number; None, 0: it is none."""
    found = _STEP.match(text, piece.start, piece.end)
    if not found:
        return None, 0
    word = (found["word"] or "").casefold()
    if found["letter"]:
        return f"{word}a", ord(found["letter"]) - ord("a") + 1
    return f"{word}1", int(found["number"])


def _join(
    text: str, pieces: Sequence[Piece], stays: Sequence[bool]
) -> tuple[str, list[tuple[Piece, int]]]:
    """The pieces that stay, as they stand in the text, with GAP where others were; and each of them
    with where it begins now."""
    joined = ""
    kept: list[tuple[Piece, int]] = []
    end = 0  # of what is accounted for
    for piece, stay in zip(pieces, stays, strict=True):
        if stay:
            left_out = text[end : piece.start].strip()
            between = f"{GAP}\n\n" if left_out else text[end : piece.start]
            joined = (joined.rstrip("\n") + "\n\n" if left_out and joined else joined) + between
            kept.append((piece, len(joined)))
            joined += text[piece.start : piece.end]
            end = piece.end
    if text[end:].strip():
        joined = joined.rstrip("\n") + f"\n\n{GAP}\n"
    return joined, kept


def _find_place(place: int, kept: Sequence[tuple[Piece, int]]) -> int | None:
    """Where now stands what stood at a place in the text or, where that is left out, what follows
    it; None where nothing does."""
    for piece, start in kept:
        if place < piece.end:
            return start + max(place - piece.start, 0)
    return None
