"""Plain text to Markdown that reads the same: paragraphs stay, and what is no markup is none."""

import re

from retrieval.sources.reads import Page

_RAISED = dict(zip("0123456789+-\u2212=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱ", strict=True))
# Other formulas, and the letters of notes. 1st and Acme TM read right on the line, and 2e as well.
_FORMULA = re.compile(r"[^\W\d_eo]|[\w+*/.,()\u2212-]*\d[\w+*/.,()\u2212-]*")

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
    """What stands above the line as it must be written on it: 10⁶ and x^k, not 106 and xk."""
    words = text.strip()
    raised = words
    if all(each in _RAISED for each in words) and (len(words) == 1 or not words.isalpha()):
        raised = "".join(map(_RAISED.__getitem__, words))
    elif _FORMULA.fullmatch(words):
        raised = f"^{words}" if words.isalnum() else f"^({words})"
    return text.replace(words, raised)
