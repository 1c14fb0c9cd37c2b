"""Plain text to Markdown that reads the same: paragraphs stay, and what is no markup is none."""

import re

from retrieval.sources.reads import Page

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
