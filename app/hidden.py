"""Characters that nobody sees and that change what is seen, or what a terminal does."""

import re
from collections.abc import Iterator

# All control characters but tab and line feed; what has no width but a meaning to other programs;
# what turns the direction of a text, so that a name or an address reads as another one; and tags,
# in which whole orders to a model may hide. The joiners of emoji and of Persian stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def find(text: str) -> Iterator[tuple[int, int]]:
    """Where the text has them, in order."""
    for match in _HIDDEN.finditer(text):
        yield match.span()


def remove(text: str) -> str:
    """The text without them."""
    return _HIDDEN.sub("", text)
