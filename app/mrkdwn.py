"""Markdown to Slack's mrkdwn, in which nothing pings anybody and nothing is a link but sources.

Rendered from a parse tree: the converters on PyPI (markdown-to-mrkdwn 0.3.3, md2mrkdwn 0.4.5) go
by regular expressions a line, keep every link and escape nothing.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from app import hidden

TABLE_WIDTH = 48  # characters that fit a line of code in a thread beside its channel; chosen
URL_LENGTH = 1_500  # so that a source's line fits a block; longer ones are not linked

# HTML stays text, or <service> in "restart <service>" would be lost as a tag; a definition such as
# "[1]: …" stays text, or every marker [1] would be a link to it.
_PARSER = MarkdownIt("commonmark", {"html": False})
_PARSER.enable(["table", "strikethrough"]).disable("reference")

# The look-behinds keep it linear: a run of spaces, or a long word, is tried from its start only.
LINE_BREAK = re.compile(r"(?<![ \t])[ \t]*<br\s*/?>[ \t]*", re.IGNORECASE)
TAG = re.compile(
    r"</?(?:a|b|center|code|details|div|em|font|h[1-6]|hr|i|img|kbd|li|ol|p|pre|small|span|strong"
    r"|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_UNSAFE_IN_URL = re.compile(r"[\s|<>\"`]")
# What a cut must leave whole: a link, an escape, inline code, a word.
_ATOM = re.compile(r"<[^<>]*>|&\w+;|`[^`\n]*`|\s|[^\s<&`]+|.")
# A mark of style, which within a word Slack takes for text; and ours: a footnote's, and what stands
# between facts.
_MARK = re.compile(r"(?<!\w)[*_~]|[*_~](?!\w)|`|\[\d+\]|·")
_STYLES = {"strong": "*", "em": "_", "s": "~"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    text: str
    is_code: bool = False
    is_tight: bool = False  # stands on the line after the piece before it


def build_parts(markdown: str, *, urls: Collection[str], limit: int) -> list[str]:
    """Markdown as texts of at most limit characters, cut between paragraphs where possible.

    A longer paragraph is cut between lines, else words; longer code is fenced anew. Only links
    to one of urls stay links; of the others the label is left.
    """
    linked = {_PARSER.normalizeLink(url) for url in urls}
    parts: list[str] = []
    for piece in _pieces(SyntaxTreeNode(_PARSER.parse(markdown)).children, linked):
        for text in _fit(piece, limit):
            joint = "\n" if piece.is_tight else "\n\n"
            if parts and len(parts[-1]) + len(joint) + len(text) <= limit:
                parts[-1] += joint + text
            else:
                parts.append(text)
    return parts


def escape(text: str) -> str:
    """Text that Slack shows as it is: no mention, no link, nothing that is not seen."""
    return hidden.remove(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_and_link_emails(text: str) -> str:
    """The same, but that e-mail addresses can be clicked."""
    return EMAIL.sub(r"<mailto:\g<0>|\g<0>>", escape(text))


def link(url: str, label: str) -> str:
    """A link with a flat label; the label alone when the URL is not one for the web."""
    flat = escape(" ".join(label.split()).replace("|", "¦"))
    if not url.startswith(("https://", "http://")) or len(url) > URL_LENGTH:
        return flat
    safe = _UNSAFE_IN_URL.sub(lambda found: f"%{ord(found[0]):02X}", url)
    return f"<{safe.replace('&', '&amp;')}|{flat}>"


def link_or_quote(url: str, label: str, length: int, *, most: int) -> str:
    """A link, or the label alone where it leads nowhere or the link is longer than most."""
    shown = link(url, flatten(label, length))
    return shown if shown.startswith("<") and len(shown) <= most else quote(label, length)


def quote(text: str, length: int) -> str:
    """Somebody's words on one line, at most length characters before they are escaped.

    As code where a character could be taken for a mark. Not for the start of a line, where others
    mean something.
    """
    words = flatten(text, length)
    if not _MARK.search(words):
        return escape(words)
    unquoted = words.replace("`", "'")  # mrkdwn has no way to quote a backtick
    return f"`{escape(unquoted)}`"


def flatten(text: str, length: int) -> str:
    """Text on one line, cut to length, without what is not seen but changes what is."""
    flat = " ".join(hidden.remove(text).split())
    shown = "".join(filter(str.isprintable, flat))
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def join_lines(lines: Iterable[str], limit: int) -> list[str]:
    """Lines as texts of at most limit characters, in as few as take them; no line is longer."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + 1 + len(line) <= limit:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line)
    return texts


def build_section(text: str) -> dict[str, Any]:
    """A block with this mrkdwn, all of it shown."""
    return {**build_folding(text), "expand": True}


def build_folding(text: str) -> dict[str, Any]:
    """A block with this mrkdwn, of which Slack folds what is long behind "See more"."""
    return {"type": "section", "text": _build_text(text)}


def build_context(text: str) -> dict[str, Any]:
    """The same in small print."""
    return {"type": "context", "elements": [_build_text(text)]}


def _build_text(text: str) -> dict[str, Any]:
    # verbatim: Slack makes no links and mentions of its own from plain text.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _pieces(nodes: Iterable[SyntaxTreeNode], urls: Collection[str]) -> Iterator[_Piece]:
    for node in nodes:
        if node.type in ("fence", "code_block"):
            yield _Piece(text=escape(node.content.rstrip("\n")), is_code=True)
        elif node.type == "table":
            yield from _table(node, urls)
        elif node.type in ("bullet_list", "ordered_list"):
            yield from _list(node, urls)
        elif node.type == "blockquote":
            for piece in _pieces(node.children, urls):
                yield piece if piece.is_code else _indent(piece, "> ", "> ")
        elif node.type == "heading":
            text = _inline(node.children, urls, within="strong").strip()
            yield from [_Piece(text=f"*{text}*")] if text else []
        elif text := _inline(node.children, urls).strip():
            yield _Piece(text=text)


def _list(node: SyntaxTreeNode, urls: Collection[str]) -> Iterator[_Piece]:
    start = int(node.attrs.get("start", 1))
    for number, item in enumerate(node.children):
        mark = f"{start + number}. " if node.type == "ordered_list" else "• "
        pieces = list(_pieces(item.children, urls))
        if not pieces or pieces[0].is_code:
            pieces.insert(0, _Piece(text=""))
        for place, piece in enumerate(pieces):
            shown = piece if piece.is_code else _indent(piece, "    " if place else mark, "    ")
            yield replace(shown, is_tight=number + place > 0)


def _indent(piece: _Piece, first: str, rest: str) -> _Piece:
    return replace(piece, text=first + piece.text.replace("\n", f"\n{rest}"))


def _table(node: SyntaxTreeNode, urls: Collection[str]) -> Iterator[_Piece]:
    """A table as aligned code, or, too wide for that, each row as a list item."""
    cells = [row.children for part in node.children for row in part.children]
    head, *rows = [[_text(cell) for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    if sum(widths) + 2 * len(widths) <= TABLE_WIDTH:
        lines = [head, ["─" * width for width in widths], *rows]
        aligned = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
        yield _Piece(text=escape("\n".join(aligned)), is_code=True)
        return
    for number, row in enumerate(cells[1:]):
        yield _Piece(text="\n    ".join(_row(head, row, urls)), is_tight=number > 0)


def _row(
    head: Sequence[str], cells: Sequence[SyntaxTreeNode], urls: Collection[str]
) -> Iterator[str]:
    """A row's first cell, in bold, then each other one that says something under its name."""
    first = _inline(cells[:1], urls, within="strong").replace("\n", " ")
    yield f"• *{first}*" if first.strip() else "•"
    for name, cell in zip(head[1:], cells[1:], strict=True):
        if _text(cell).strip(" -–—"):
            yield f"{escape(name)}: {_inline([cell], urls)}".replace("\n", " ")


def _inline(nodes: Iterable[SyntaxTreeNode], urls: Collection[str], *, within: str = "") -> str:
    return "".join(_inline_node(node, urls, within) for node in nodes)


def _inline_node(node: SyntaxTreeNode, urls: Collection[str], within: str) -> str:
    if node.type == "text":
        return escape_and_link_emails(_without_tags(node.content, "\n"))
    if node.type == "code_inline":
        code = escape(node.content)
        return code if "`" in code else f"`{code}`"  # mrkdwn has no way to quote a backtick
    if node.type in ("softbreak", "hardbreak"):
        return "\n" if node.type == "hardbreak" and not within else " "
    if node.type in _STYLES and node.type != within:
        inner = _inline(node.children, urls, within=node.type)
        mark = "" if _is_in_word(node) or not inner.strip() else _STYLES[node.type]
        return mark + inner + mark
    if node.type == "link":
        return _link_node(node, urls, within)
    if node.type == "image":
        return escape(node.content)
    return _inline(node.children, urls, within=within)


def _is_in_word(node: SyntaxTreeNode) -> bool:
    """Whether a letter or digit stands right beside it: there Slack would show the marks."""
    before, after = node.previous_sibling, node.next_sibling
    return bool(
        (before and before.content[-1:].isalnum()) or (after and after.content[:1].isalnum())
    )


def _link_node(node: SyntaxTreeNode, urls: Collection[str], within: str) -> str:
    url, label = str(node.attrs.get("href", "")), _text(node)
    if label.isdecimal():  # a marker that the model has made a link of
        return f"[{label}]"
    if url in urls and label:
        return link(url, label)
    inner = _inline(node.children, urls, within=within)
    address = url.removeprefix("mailto:").partition("?")[0]
    if url.startswith("mailto:") and EMAIL.fullmatch(address) and address not in label:
        return f"{inner} ({escape_and_link_emails(address)})"
    return inner


def _text(node: SyntaxTreeNode) -> str:
    """What a node says on one line, without any style."""
    if node.type == "code_inline":
        return node.content
    if node.type in ("text", "image"):
        return _without_tags(node.content, " ")
    if node.type in ("softbreak", "hardbreak"):
        return " "
    return "".join(map(_text, node.children))


def _without_tags(text: str, line_break: str) -> str:
    return TAG.sub("", LINE_BREAK.sub(line_break, text))


def _fit(piece: _Piece, limit: int) -> Iterator[str]:
    if piece.is_code:
        for part in _split(piece.text, limit - len("```\n\n```")):
            yield f"```\n{part}\n```"
    else:
        yield from _split(piece.text, limit)


def _split(text: str, limit: int) -> Iterator[str]:
    while text:
        cut = len(text) if len(text) <= limit else _find_cut(text, limit)
        if part := text[:cut].rstrip():
            yield part
        text = text[cut:]


def _find_cut(text: str, limit: int) -> int:
    """Where to end a part: after a line, else a word, else at the limit."""
    ends = (found.end() for found in _ATOM.finditer(text))
    within = list(takewhile(lambda end: end <= limit, ends))
    lines = [end for end in within if text[end - 1] == "\n"]
    words = [end for end in within if text[end - 1].isspace()]
    return (lines or words or within or [limit])[-1]
