"""Markdown that Slack renders itself, as it does what is streamed: nothing in it pings anybody.

How Slack takes escapes there is not documented, so what it could take for more than text is broken
up by a character that nobody sees. What is posted whole goes by `mrkdwn`, which has escapes.
"""

import re
from collections.abc import Iterator

from app import cleaning
from app.mrkdwn import LINE_BREAK, TAG
from retrieval.statements import Block, parse_blocks

APART = "\u200b"  # zero-width space

_HTML = re.compile(rf"(?P<line_break>{LINE_BREAK.pattern})|{TAG.pattern}", re.IGNORECASE)
# In prose whatever could be a tag, a mention or one of Slack's links, but for a bare address, which
# is a source's own; and what calls everybody, which is no e-mail address.
_IN_PROSE = re.compile(
    r"(?:<|&(?:lt|#0*60|#x0*3c);)(?=\\?[a-z/?!@#])(?!https?://[^|>\s]+>)"
    r"|(?<![^\W_])@(?=(?:channel|everyone|here)(?![^\W_]|\.\w))",
    re.IGNORECASE,
)
# In code only what is a mention in full: <!-- and <@Override are there to be copied.
_IN_CODE = re.compile(r"<(?=@[UW][A-Z0-9]+[|>]|#C[A-Z0-9]+[|>]|!(?:channel|everyone|here|subteam))")


def build(text: str) -> str:
    """The Markdown of an answer, whose links were checked, as Slack is to render it.

    What is left of it without APART is the same, but that HTML for looks is gone.
    """
    for edit in (_without_html, _apart):  # one after the other: <<b>!here> is <!here> without <b>
        code = list(cleaning.code_spans(text))
        edits = [
            each
            for block in parse_blocks(text, html=False)
            for span, is_code in _spans(block, code)
            for each in edit(text, block, span, is_code)
        ]
        text, _ = cleaning.apply(text, edits, [])
    return text


def _spans(block: Block, code: list[cleaning.Span]) -> Iterator[tuple[cleaning.Span, bool]]:
    """The parts of a block in order, each with whether it is code."""
    done, end = block.span
    for start, stop in (span for span in code if done <= span[0] < end):
        yield (done, start), False
        yield (start, stop), True
        done = stop
    yield (done, end), False


def _without_html(
    text: str, block: Block, span: cleaning.Span, is_code: bool
) -> Iterator[cleaning.Edit]:
    line_break = " " if block.kind == "table" else "  \n"
    for match in () if is_code else _HTML.finditer(text, *span):
        yield *match.span(), line_break if match["line_break"] else ""


def _apart(text: str, _: Block, span: cleaning.Span, is_code: bool) -> Iterator[cleaning.Edit]:
    for match in (_IN_CODE if is_code else _IN_PROSE).finditer(text, *span):
        yield match.end(), match.end(), APART
