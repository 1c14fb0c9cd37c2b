"""Markdown: front matter, headings and the words without the markup."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

import yaml
from markdown_it import MarkdownIt

from retrieval.sources import fields
from retrieval.sources.reads import Page, UnknownReaders

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?\n)??---[ \t]*(?:\n|\Z)", re.DOTALL)
_AUDIENCE = re.compile(r"^[ \t]*[\"']?audience[\"']?[ \t]*[:=]", re.IGNORECASE | re.MULTILINE)
# What was meant as front matter: not closed, after an empty line, or TOML.
_HIDDEN_AUDIENCE = re.compile(
    r"\s*(?:---|\+\+\+)[ \t]*\n(?:.*\n){0,100}?" + _AUDIENCE.pattern, re.IGNORECASE | re.MULTILINE
)

_ANCHOR = re.compile(r"\{#[^\s{}]+\}[ \t]*$")

# A tag of HTML, one with attributes, or a link's bare address.
_TAG = re.compile(
    r"</?(?:a|abbr|b|blockquote|body|br|center|code|dd|del|details|div|dl|dt|em|figure|figcaption"
    r"|font|h[1-6]|hr|html|i|img|ins|kbd|li|mark|ol|p|pre|s|samp|small|span|strong|sub|summary|sup"
    r"|table|tbody|td|tfoot|th|thead|tr|u|ul|var)(?:\s[^<>]*)?/?>"
    r"|<[A-Za-z][\w.:-]*\s[^<>]*=[^<>]*>|<\w+:[^<>\s]*>",
    re.IGNORECASE,
)

_parser = MarkdownIt("commonmark").disable("inline")


def read(text: str) -> Page:
    """One Markdown file as it was written, without its front matter.

    Front matter that is not valid YAML stays in the text. Raises UnknownReaders when it names an
    audience: the page must not be read by more people than it says.
    """
    match = _FRONT_MATTER.match(text)
    if not match:
        if _HIDDEN_AUDIENCE.match(text):
            raise UnknownReaders(
                "it names an audience above its text, but not in front matter; mend it"
            )
        return Page(text=text)
    stated = _load_fields(match[1] or "")
    if stated is None:
        if _AUDIENCE.search(match[1]):
            raise UnknownReaders(
                "its front matter names an audience and is not valid YAML; mend it"
            )
        return Page(text=text, notes=("front matter is not valid YAML; its fields are not used",))
    body = text[match.end() :]
    # A page of nothing but front matter still says something.
    return Page(text=body if body.strip() else text, stated=stated)


def _load_fields(front_matter: str) -> Mapping[str, Any] | None:
    """The fields by name, as fields.normalize has it; None where they cannot be read."""
    try:
        stated = yaml.safe_load(front_matter)
    # PyYAML's constructors raise whatever they meet: ValueError for 2026-02-31, KeyError for
    # `!!bool maybe`, AttributeError for `!!timestamp x`, RecursionError for deep nesting.
    except Exception:
        return None
    if stated is None:
        return {}
    return fields.normalize(stated) if isinstance(stated, dict) else None


def first_heading(text: str) -> str | None:
    """The text of the first heading of level 1, wherever it stands."""
    tokens = _parser.parse(text)
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h1":
            return plain_heading(inline.content) or None
    return None


def plain_heading(markdown: str) -> str:
    """A heading's text on one line without its markup, {#anchors} among it."""
    return " ".join(plain_text(re.sub(r"\{#[^}]*\}", "", markdown)).split())


def plain_text(markdown: str) -> str:
    """The words of a Markdown text: link targets, tags, rules and emphasis marks are left out.

    For searching, where a link's address would take the place of words. Never for showing.
    What only looks like a tag is a word: <timeout>, <maxConnections>, <your-token>.
    """
    # Beyond the last end of a comment there is none to look for, again and again.
    closed, end, rest = markdown.rpartition("-->")
    text = re.sub(r"<!--.*?-->", "", closed + end, flags=re.DOTALL) + rest
    text = re.sub(
        r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s\"[^\"]*\")?\)|\[[^\]]*\])",
        r"\1",
        text,
    )
    text = re.sub(r"^#{1,6} .*\{#.*$", lambda line: _ANCHOR.sub("", line[0]), text, flags=re.M)
    text = _TAG.sub(" ", text)
    text = re.sub(r"(?<![ \t])[ \t]*\|[ \t:|-]*", " | ", text)
    text = re.sub(r"[*`]+|(?<!\w)_+|_+(?!\w)|([-=~#.])\1{2,}|^#+", "", text, flags=re.MULTILINE)
    return re.sub(r"[ \t]{2,}", " ", text).strip()
