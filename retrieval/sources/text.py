"""Plain text to Markdown that reads the same: paragraphs stay, and what is no markup is none."""

import re

from retrieval.sources.reads import Page

_RAISED = dict(zip("0123456789+-\u2212=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱ", strict=True))

_MARKUP = re.compile(r"^([ \t]*)(#{1,6}(?=\s|$)|```|~~~|>)", re.MULTILINE)


def read(text: str) -> Page:
    """The text; in one that does not begin with a heading, a line with # is not taken for one."""
    text = text.replace("\f", "\n\n")
    if re.match(r"\s*#{1,6}\s\S", text):
        return Page(text=text)
    return Page(text=escape(text))


def escape(text: str) -> str:
    """The text with what would begin a heading, a quote or a fence escaped."""
    return _MARKUP.sub(r"\1\\\2", text)


def raise_up(text: str) -> str:
    """A number that stands above the line as it must be written on it: 10⁶ and not 106.

    Anything else stays as it is: 1st and Mr read right on the line.
    """
    words = text.strip()
    if not re.search(r"[0-9]", words) or not all(each in _RAISED for each in words):
        return text
    return text.replace(words, "".join(map(_RAISED.__getitem__, words)))
