"""Which characters of a PDF's page are seen as its text: no white ones, no watermark."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

SMALLEST = 2.0  # points; chosen: footnotes have 6
_WHITE = ((1,), (1, 1, 1), (0, 0, 0, 0))  # in grey, in RGB and in CMYK


def drop_unseen(page: Any) -> tuple[Any, int]:
    """The page with the characters that are seen, and stand as most do; how many are not seen.

    What is white is seen on a picture or on a ground of another colour. Text that is not drawn at
    all stays: it is what was recognized (OCR) in a picture that is seen.
    """
    grounds = [each for each in (*page.rects, *page.curves) if _is_coloured(each)] + page.images
    unseen = {id(char) for char in page.chars if not _is_seen(char, grounds)}
    directions = Counter(map(_find_direction, page.chars))
    if len(directions) < 2 and not unseen:
        return page, 0
    common = max(directions, key=lambda direction: directions[direction])

    def is_kept(element: Any) -> bool:
        return element["object_type"] != "char" or (
            id(element) not in unseen and _find_direction(element) == common
        )

    return page.filter(is_kept), len(unseen)


def _find_direction(char: Any) -> tuple[int, int]:
    """Where a line of such characters goes, as a step along and a step up of -1, 0 or 1."""
    along, up = char["matrix"][:2]
    length = max(abs(along), abs(up)) or 1
    return round(along / length), round(up / length)


def _is_coloured(ground: Any) -> bool:
    colour = ground["non_stroking_color"]
    return bool(ground["fill"]) and colour is not None and not _is_white(colour)


def _is_white(colour: Any) -> bool:
    return isinstance(colour, tuple) and colour in _WHITE


def _is_seen(char: Any, grounds: Sequence[Any]) -> bool:
    if char["size"] < SMALLEST:
        return False
    if not _is_white(char["non_stroking_color"]):
        return True
    x, y = (char["x0"] + char["x1"]) / 2, (char["top"] + char["bottom"]) / 2
    return any(
        ground["x0"] <= x <= ground["x1"] and ground["top"] <= y <= ground["bottom"]
        for ground in grounds
    )
