"""What of a text Slack could act on, by rules of our own: not by those that keep it out."""

import html
import re
import unicodedata
from collections.abc import Collection, Iterator

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_MENTION = re.compile(
    r"<(?:@[UW][A-Z0-9]+[|>]|#C[A-Z0-9]+[|>]|!(?:channel|everyone|here|subteam)).*"
)
_CALL = re.compile(r"(?<![^\W_])@(?:here|channel|everyone)(?![^\W_]|\.\w)|<[@!#].*")
_URL = re.compile(
    r"\w+://[^\s)<>]*|(?<![^\W_])www\.[^\s)<>]+|(?<![^\W_])(?:mailto|tel|javascript):[^\s\0]+"
    # Top-level domains that there are, and those that the attempts use.
    r"|\b[\w-]+(?:\.[\w-]+)*\.(?:app|cc|com|dev|example|info|io|me|md|mov|net|org|pl|ps|pub|py|rs"
    r"|sh|so|st|zip)\b(?:[/:?#]\S*)?"
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+(?!\S*[/:])")
_IGNORED = re.compile(  # letters and marks that have no shape, or that of a blank
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def find_unseen(text: str) -> list[str]:
    """The characters that nobody sees."""
    return [
        f"U+{ord(each):04X}"
        for each in text
        if _IGNORED.match(each)
        or (
            each not in "\n\t"
            and unicodedata.category(each) in ("Cc", "Cf", "Cn", "Co", "Zl", "Zp")
        )
    ]


def find_faults(text: str, urls: Collection[str]) -> list[str]:
    """What in Markdown Slack could take for more than text, but links to urls and mail addresses.

    Whatever it takes for code: a mention may be one there, too. What is styled is read as one.
    """
    linked = {*urls, *map(_MARKDOWN.normalizeLink, urls)}
    faults = _MENTION.findall(text)
    env: dict[str, object] = {}
    for token in _MARKDOWN.parse(text, env):
        seen = ""
        for inline in token.children or []:
            if inline.type in ("link_open", "image"):
                url = str(inline.attrs.get("href") or inline.attrs.get("src"))
                faults += [url] * (url not in linked)
            seen += {"text": inline.content, "code_inline": "\0"}.get(inline.type, "")
            seen += "\n" * inline.type.endswith("break")
        faults += _find_in_text(seen, linked)
    return faults + list(env.get("references") or ())  # type: ignore[call-overload]


def _find_in_text(text: str, linked: Collection[str]) -> Iterator[str]:
    seen = unicodedata.normalize("NFKC", html.unescape(text)).replace("。", ".")
    yield from _CALL.findall(seen)
    for url in sorted(linked, key=len, reverse=True):
        seen = re.sub(rf"{re.escape(url)}(?![\w/?#%&=-])", " ", seen)
    yield from _URL.findall(_MAIL.sub(" ", seen))
