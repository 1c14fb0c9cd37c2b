"""The notice at the top of a page that says that it no longer holds."""

import re
from collections.abc import Iterator
from itertools import islice

from retrieval.sources.fields import GONE, is_filler

LINES = 8  # below the title, where such a notice stands; chosen
_PAGE = r"(?:page|document|doc|article|policy|guide|guideline|handbook|runbook|playbook|wiki|faq)"
# "The process was replaced" may tell how things are done, "this process" is the page.
_OWN = (
    rf"(?:the\s+{_PAGE}|this\s+(?:\w+\s+)?"
    rf"(?:{_PAGE}|procedure|process|version|content|information|standard|manual|section))"
)
_END = r"(?=\s*(?:[.!;:,(|–—-]|$)|\s+(?:since|as of|on|from|and|by|in favou?r of|see|use|please)\b)"
_SENTENCE = re.compile(
    rf"{_OWN}\s+(?:is|was|has been)\s+(?:now\s+)?{GONE}{_END}|status\s*[:=–—-]\s*{GONE}{_END}",
    re.IGNORECASE,
)
# In a list or a table the same words speak of one of many things. Elsewhere, too, a bare word
# says it of the page only where it is all, or where what follows says what to read.
_ITEM = re.compile(r"[\s>]*(?:(?:[-+*•:]|\d+[.)])\s|(?:\|[^|\n]*[^|\s][^|\n]*){2})")
# Code, or name(…), that is described below it, as a function is: then they speak of that.
_CALL = r"[^\s:.(]+(?:\.[^\s:.(]+)*\(.*\)"
_PART = re.compile(rf"\s*(?:\*\*{_CALL}\*\*|__{_CALL}__|(?:\*\*|__)?`[^`]+`(?:\*\*|__)?)\s*")
_BRIEFLY = re.compile(
    rf"{GONE}(?:[.!](?=\s|$)|$)"
    rf"|{GONE}\s*[:;,–—-]\s*(?:please\s+)?"
    rf"(?:(?:see|use|read|go to)\b.*\]\(|(?:superseded|replaced) by\s|moved to\s|{_OWN}\b)"
    r"|(?:deprecated|superseded|obsolete|replaced)\s+(?:by|in favou?r of|since|as of)\s"
    r"|archived\s+(?:on|since)\s+(?:\w+\s+)?\d",
    re.IGNORECASE,
)
_SUCCESSOR = re.compile(
    r"\b(?:by|in favou?r of)\s+(\[[^\[\]]+\]\([^()\s]+\)|.+?)"
    r"(?=[.!;,](?:\s|$)|\s+(?:on|since|as of|from|in)\s|[*_|\s]*$)",
    re.IGNORECASE,
)
_REPLACED = re.compile(r"superseded|replaced|in favou?r of", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]]+)\]\(<?([^()\s>]+)>?[^()]*\)")
# What is left, without its links, of the links that a wiki puts above its pages: "› Docs".
_PATH = re.compile(r"\s*(?:[>»›/|·→][^.!?]*)?")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)\s*")
_VAGUE = re.compile(r"here|this|this page|the new (?:page|version|one)|link|new version", re.I)
# Marks of a quote, an alert, a list, a cell or emphasis, and the word that opens a notice.
_MARKS = re.compile(
    r"^(?:[\s>*_|!:~\\-]|\[!\w+\]|(?:warning|caution|note|notice|important|attention|info|danger"
    r"|admonition)\b[\s:*_-]*|[^\w\s\[(\"'`#]+)+",
    re.IGNORECASE,
)


def find(text: str) -> tuple[bool, str | None]:
    """Whether the first lines say that the page no longer holds, and what they name instead."""
    is_gone = is_of_part = False
    for line in islice(_top_lines(text), LINES):
        plain = re.sub(r"\*\*|__", "", _MARKS.sub("", line)).rstrip(" *_")
        is_brief = not is_of_part and not _ITEM.match(line) and _BRIEFLY.match(plain)
        if not is_brief and not _SENTENCE.match(plain):
            is_of_part = is_of_part or bool(plain and _PART.fullmatch(line))
            continue
        named = _SUCCESSOR.search(plain) if _REPLACED.search(plain) else None
        successor = _name_successor(named[1]) if named else _link_in(plain)
        if successor and not is_filler(successor):
            return True, successor
        is_gone = is_gone or successor is None  # and the next line may say what holds instead
    return is_gone, None


def _top_lines(text: str) -> Iterator[str]:
    """The lines of text before the second heading, and the page's status as "Status: …".

    Below a text that has no heading, the first is the second, unless it is a title. Neither a title
    that is underlined nor a line of links is such a text.
    """
    headings = 0
    has_begun = False
    opens = ""
    lines = text[:5_000].split("\n")
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("#"):
            is_status = re.match(r"#{1,6}\s+Status\s*(?:\{#|$)", line)
            if not is_status and re.match(r"#{1,6}\s", line):
                headings += 2 if has_begun and line.startswith("##") else 1
            opens = "Status: " if is_status else ""
        elif any(map(str.isalpha, line)):
            is_above = _UNDERLINE.fullmatch(below) or (
                _LINK.match(line) and _PATH.fullmatch(_LINK.sub("", line))
            )
            has_begun = has_begun or not is_above
            yield opens + _MARKS.sub("", line) if opens else line
            opens = ""
        if headings > 1:
            return


def _name_successor(words: str) -> str:
    """The page named: by its link's text where that is a name, else by its address."""
    if link := _LINK.search(words):
        return link[2] if _VAGUE.fullmatch(link[1].strip("*_ ")) else link[1].strip("*_` ")
    return words.strip(" *_`\"'“”<>").rstrip(".!;:").removeprefix("the ")


def _link_in(line: str) -> str | None:
    """What a notice links to in a later sentence: "See the new policy" and the like."""
    see = re.search(r"\b(?:see|use|read|go to|refer to|moved to|now in)\b(.*)", line, re.IGNORECASE)
    link = _LINK.search(see[1]) if see else None
    return _name_successor(link[0]) if link else None
