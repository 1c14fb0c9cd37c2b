"""Markdown that Slack renders itself, as it does what is streamed: nothing in it pings anybody.

How Slack takes escapes there is not documented, so what it could take for more than text is broken
up by a character that nobody sees. What is posted whole goes by `mrkdwn`, which has escapes.
"""

import re
from collections.abc import Iterator

from app import cleaning
from retrieval.statements import parse_blocks

APART = "\u200b"  # zero-width space

# In prose whatever could be a tag, a mention or one of Slack's links, but for a bare address, which
# is a source's own; what calls everybody, which is no e-mail address; what defines a link; and a
# domain with a path, of which Slack might make a link although it has no scheme.
_IN_PROSE = re.compile(
    r"(?:<|&(?:lt|#0*60|#x0*3c);)(?=\\?(?:[a-z/?!@#]|&#?\w+;))(?!https?://[^|>\s]+>)"
    r"|(?<![^\W_])(?:@|&(?:commat|#0*64|#x0*40);)(?=(?:channel|everyone|here)(?![^\W_]|\.\w))"
    r"|\](?=:)"
    r"|(?<![\w@/.:-])(?:[\w-]{1,63}\.){1,8}(?=[^\W\d_]{2,24}(?::\d+)?[/?#])",
    re.IGNORECASE,
)
# In code only what is a mention in full: <!-- and <@Override are there to be copied.
_IN_CODE = re.compile(r"<(?=@[UW][A-Z0-9]+[|>]|#C[A-Z0-9]+[|>]|!(?:channel|everyone|here|subteam))")


def build(text: str) -> str:
    """The Markdown of an answer, whose links and HTML were checked, as Slack is to render it.

    Without APART it is the same.
    """
    built, _ = cleaning.apply(text, list(_edits(text)), [])
    return built


def _edits(text: str) -> Iterator[cleaning.Edit]:
    code = list(cleaning.code_spans(text))
    for block in parse_blocks(text, is_chat=True):
        done, end = block.span
        for start, stop in [*(span for span in code if done <= span[0] < end), (end, end)]:
            for pattern, first, last in ((_IN_PROSE, done, start), (_IN_CODE, start, stop)):
                for match in pattern.finditer(text, first, last):
                    yield match.end(), match.end(), APART
            done = stop
