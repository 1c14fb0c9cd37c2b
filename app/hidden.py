"""Characters that nobody sees and that change what is seen, or what a terminal does."""

import re
from collections.abc import Iterator

# All control characters but tab and line feed; what has no width but a meaning to other programs;
# what turns the direction of a text, so that a name or an address reads as another one; blanks that
# count as letters; and tags and selectors of variants, in which whole orders to a model may hide.
_ALWAYS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# What joins emoji and the letters of some languages, and what colours emoji, stays behind these,
# one at a time; tags in the flags of England, Scotland and Wales.
_HIDDEN = re.compile(
    "(?P<flag>\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)"
    f"\U000e007f)|[{_ALWAYS}]"
    "|(?<![\u0590-\u1fff\u203c-\u2bff\u3030-\ufdff\U00010000-\U000dffff])"
    "(?<![\u203c-\u3299\U0001f000-\U0001faff]\ufe0f)[\u200c\u200d]"
    "|(?<![#*0-9©®\u203c-\u2bff\u3030-\u3299\U0001f000-\U0001faff])\ufe0f|(?P<mark>[\u200e\u200f])"
)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


def find(text: str) -> Iterator[tuple[int, int]]:
    """Where the text has them, in order.

    The marks of direction stay where there are letters from right to left: these do the same.
    """
    is_marked = bool(_RIGHT_TO_LEFT.search(text))
    for match in _HIDDEN.finditer(text):
        if match["flag"] is None and not (match["mark"] and is_marked):
            yield match.span()


def remove(text: str) -> str:
    """The text without them."""
    parts, done = [], 0
    for start, end in find(text):
        parts.append(text[done:start])
        done = end
    return "".join([*parts, text[done:]])
