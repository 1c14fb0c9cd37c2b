"""Two columns of a PDF's page: where the gutter between them is, and what is read when."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from statistics import median
from typing import Any

# Chosen: narrower than between columns, and wider than between the words of a justified line.
GUTTER = 8  # points
CROSSING = 0.1  # of the lines at most: those of headings and pictures' captions over both columns
# Of each column, or what looks like one is a table without lines, or a list of contents.
LEAST_LINES = 6
LEAST_WORDS = 3  # of most of its lines
FILLED = 0.6  # of its width, by most of its lines
LEAST_WIDTH = 0.2  # of the page's

Words = list[Any]  # of pdfplumber


def group(words: Sequence[Any]) -> Iterator[Words]:
    """The words that stand on one line together, from top to bottom."""
    line: Words = []
    for word in sorted(words, key=lambda word: (round(word["bottom"]), word["x0"])):
        if line and word["bottom"] - line[0]["bottom"] > word["size"] / 3:
            yield line
            line = []
        line.append(word)
    if line:
        yield line


def find_gutter(words: Sequence[Any], width: float) -> float | None:
    """Where a page is parted in two columns of running text; None where that is not clear."""
    lines = list(group(words))
    starts = [0] * (int(width) + 2)  # how many words begin at each point, less those that end
    for word in words:
        starts[min(max(int(word["x0"]), 0), int(width))] += 1
        starts[min(max(int(word["x1"]) + 1, 0), int(width) + 1)] -= 1
    crossing = list(accumulate(starts))
    best: tuple[int, int] = (0, 0)
    begin = 0
    for point in range(int(width)):
        if not 0.3 * width < point < 0.7 * width or crossing[point] > CROSSING * len(lines):
            begin = point + 1
        best = max(best, (point + 1 - begin, point))
    size, last = best
    gutter = last - size / 2
    return gutter if size >= GUTTER and _are_columns(lines, gutter, width) else None


def _are_columns(lines: Sequence[Words], gutter: float, width: float) -> bool:
    sides = [
        [[word for word in line if (word["x0"] > gutter) == is_right] for line in lines]
        for is_right in (False, True)
    ]
    for side in sides:
        filled = [line for line in side if line]
        if len(filled) < LEAST_LINES or median(map(len, filled)) < LEAST_WORDS:
            return False
        left = min(word["x0"] for line in filled for word in line)
        ends = sorted(max(word["x1"] for word in line) - left for line in filled)
        widest = ends[int(0.9 * (len(ends) - 1))]  # a heading over both columns begins in one
        if widest < LEAST_WIDTH * width or median(ends) < FILLED * widest:
            return False
    return True


def split(words: Sequence[Any], gutter: float | None) -> Iterator[Words]:
    """The words of each line, which ends at the gutter unless it runs over both columns."""
    if gutter is None:
        yield from group(words)
        return
    sides: tuple[Words, Words] = ([], [])
    for line in group(words):
        left = [word for word in line if word["x1"] <= gutter]
        right = [word for word in line if word["x0"] > gutter]
        ends = max((word["x1"] for word in left), default=-GUTTER)
        begins = min((word["x0"] for word in right), default=gutter + GUTTER)
        if len(left) + len(right) < len(line) or begins - ends < GUTTER:
            yield line
        else:
            sides[0].extend(left)
            sides[1].extend(right)
    for side in sides:
        yield from group(side)
