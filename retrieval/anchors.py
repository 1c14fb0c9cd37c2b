"""The names by which a site's addresses point at the headings of a page."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from retrieval.records import Anchors

# {#id} at a heading's end, and MkDocs's {: #id .class }.
_EXPLICIT = re.compile(r"[ \t]*\{:?\s*#([^\s{}]+)[^{}]*\}\s*$")
_COUNTED = re.compile(r"(.*)_(\d+)")

_parser = MarkdownIt("commonmark").enable("table")


def find(text: str, style: Anchors) -> list[tuple[int, str | None]]:
    """For each heading, in order: the number of its line, from 0, and its anchor if it has one.

    An explicit one counts in every style. Headings in quotes and lists take part, since the
    site counts them, too.
    """
    headings = list(_find_headings(text))
    used = {explicit for _, _, explicit in headings if explicit}
    found: list[tuple[int, str | None]] = []
    counts: dict[str, int] = {}
    for line, words, explicit in headings:
        anchor = explicit
        if anchor is None and style == "github":
            anchor = _count_like_github(_slug_like_github(words), counts)
        elif anchor is None and style == "mkdocs":
            anchor = _count_like_mkdocs(_slug_like_mkdocs(words), used)
        found.append((line, anchor))
    return found


def _find_headings(text: str) -> Iterator[tuple[int, str, str | None]]:
    """The line of each heading, its words and its explicit anchor."""
    for token, inline in pairwise(_parser.parse(text)):
        if token.type == "heading_open" and token.map:
            explicit = _EXPLICIT.search(inline.content)
            words = _EXPLICIT.sub("", "".join(_words(inline)))
            yield token.map[0], words.strip(), explicit[1] if explicit else None


def _words(inline: Token) -> Iterator[str]:
    """What is read of a heading: no tags, no addresses, no pictures."""
    for child in inline.children or ():
        if child.type in ("text", "code_inline", "text_special"):
            yield child.content
        elif child.type in ("softbreak", "hardbreak"):
            yield " "


def _slug_like_github(words: str) -> str:
    """Letters, digits, - and _ in lower case, each blank a hyphen.

    Source: the table of contents of html-pipeline, which GitHub renders READMEs with.
    """
    kept = (
        character
        for character in words.lower()
        if character in "- "
        or unicodedata.category(character)[0] in "LM"
        or unicodedata.category(character) in ("Nd", "Pc")
    )
    return "".join(kept).replace(" ", "-")


def _count_like_github(slug: str, counts: dict[str, int]) -> str:
    anchor = slug
    while anchor in counts:
        counts[slug] += 1
        anchor = f"{slug}-{counts[slug]}"
    counts[anchor] = 0
    return anchor


def _slug_like_mkdocs(words: str) -> str:
    """ASCII letters, digits and _ in lower case, runs of blanks and hyphens one hyphen.

    Source: slugify of Python-Markdown's extension toc, as MkDocs has it by default.
    """
    ascii_only = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def _count_like_mkdocs(slug: str, used: set[str]) -> str:
    while slug in used or not slug:
        counted = _COUNTED.fullmatch(slug)
        slug = f"{counted[1]}_{int(counted[2]) + 1}" if counted else f"{slug}_1"
    used.add(slug)
    return slug
