"""Markdown that Slack renders itself, as it does what is streamed: whether it can be left to that.

How Slack takes escapes there is not documented, nor what it makes a link of, so what holds anything
that could become a tag, a mention or a link to anything but a source is not streamed. It is posted
whole by `mrkdwn`, which has escapes.
"""

import html
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app import hidden
from app.mrkdwn import EMAIL

_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

# What files end in and hosts do not: md, py, rs, sh and zip are top-level domains.
_FILE = (
    "cfg|conf|cpp|css|csv|docx?|env|exe|go|html?|ini|java|jpe?g|js|json|kts?|lock|log|pdf|php"
    "|png|pptx?|ps1|rb|sql|svg|toml|tsx?|txt|xlsx?|xml|ya?ml"
)
_FULL_STOP = re.compile(r"(?<=[a-z0-9])。|。(?=[a-z0-9])", re.IGNORECASE)  # a dot to browsers, too
_MAIL = "\ue000"  # in place of an e-mail address, which may be linked; no text has it
# A name alone is a host's but for a file's, or where more follows it; of two parts at least.
_MORE_THAN_TEXT = re.compile(
    r"<[a-z/?!@#]|(?<![^\W_])@(?:channel|everyone|here)(?![^\W_]|\.\w)"
    rf"|://|{_MAIL}(?:/|:\d|[?#]\w)|(?<![^\W_])www\."
    r"|(?<![^\W_])(?:callto|data|file|ftp|javascript|mailto|slack|sms|tel):\S"
    r"|(?<![\w-])\d{1,3}(?:\.\d{1,3}){3}(?:/|:\d)"
    r"|(?<![\w-])(?:[\w-]{1,63}\.){1,8}[^\W\d_][\w-]{1,62}(?:/|[?#]\w|:\d)"
    r"|(?<![\w-])(?:[\w-]{1,63}\.){2,8}[^\W\d_]{2}"
    rf"|(?<![\w-])[\w-]{{1,63}}\.(?!(?:{_FILE})\b)[^\W\d_]{{2}}",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\bhttps?://[^\s<>]+")
# In code only what is a mention in full: <!-- and <@Override are there to be copied.
_MENTION = re.compile(r"<(?:@[UW][A-Z0-9]+[|>]|#C[A-Z0-9]+[|>]|!(?:channel|everyone|here|subteam))")


def is_plain(text: str, urls: Collection[str]) -> bool:
    """Whether the Markdown is nothing but text, code, e-mail addresses and links to urls."""
    linked = {*urls, *map(_PARSER.normalizeLink, urls)}
    env: dict[str, object] = {}
    tokens = _PARSER.parse(text, env)
    return not env.get("references") and all(_is_plain(token, linked) for token in tokens)


def _is_plain(token: Token, linked: Collection[str]) -> bool:
    if token.type == "fence" and token.markup.startswith("`"):
        return not (_MENTION.search(token.content) or _is_more(token.info))
    if token.type in ("fence", "code_block", "html_block"):  # Slack may not take these for code
        return token.type != "html_block" and not _is_more(f"{token.info}\n{token.content}")
    return not _is_more("".join(_read(token.children or (), linked)))


def _is_more(text: str) -> bool:
    seen = unicodedata.normalize("NFKC", hidden.remove(html.unescape(text)))
    return bool(_MORE_THAN_TEXT.search(_FULL_STOP.sub(".", seen)))


def _read(tokens: Sequence[Token], linked: Collection[str]) -> Iterator[str]:
    """What is seen of a line, without what is linked and with _MAIL for e-mail addresses."""

    def leave_out(url: re.Match[str]) -> str:
        return " " if url[0].rstrip(".,;:!?)") in linked else url[0]

    for token in tokens:
        if token.type == "text":
            yield _ADDRESS.sub(leave_out, EMAIL.sub(_MAIL, token.content))
        elif token.type == "code_inline":
            yield "\n".join(["", *_MENTION.findall(token.content), ""])
        elif token.type in ("softbreak", "hardbreak"):
            yield "\n"
        elif token.type in ("link_open", "image"):
            url = str(token.attrs.get("href") or token.attrs.get("src"))
            yield token.content if url in linked else "<a"
        else:
            yield token.content
