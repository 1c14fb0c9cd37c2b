"""The notice at the top of a page that says that it no longer holds."""

import re
from collections.abc import Iterator
from itertools import islice

LINES = 8  # below the title, where such a notice stands; chosen
_GONE = (
    r"(?:deprecated|superseded|obsolete|archived|outdated|out of date|replaced|retired|withdrawn"
    r"|no longer (?:maintained|valid|current|in use|up to date|applies|in force))"
)
_PAGE = (
    r"(?:page|document|doc|article|policy|guide|guideline|handbook|runbook|playbook|procedure"
    r"|process|version|wiki|content|information|standard|manual|faq|section)"
)
_END = r"(?=\s*(?:[.!;:,(–—-]|$)|\s+(?:since|as of|on|from|and|by|in favou?r of|see|use|please)\b)"
_NOTICE = re.compile(
    rf"(?:this|the)\s+(?:\w+\s+)?{_PAGE}\s+(?:is|was|has been)\s+(?:now\s+)?{_GONE}{_END}"
    rf"|(?:status:?\s+)?{_GONE}(?=\s*(?:[.!;:(]|$))"
    r"|(?:status:?\s+)?(?:deprecated|superseded|obsolete|replaced)\s+"
    r"(?:by|in favou?r of|since|as of)\s"
    r"|archived\s+(?:on|since)\s",
    re.IGNORECASE,
)
_SUCCESSOR = re.compile(
    r"\b(?:by|in favou?r of)\s+(\[[^\[\]]+\]\([^()\s]+\)|.+?)"
    r"(?=[.!;,](?:\s|$)|\s+(?:on|since|as of|from|in)\s|[*_|\s]*$)",
    re.IGNORECASE,
)
_REPLACED = re.compile(r"superseded|replaced|in favou?r of", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]]+)\]\(<?([^()\s>]+)>?[^()]*\)")
_VAGUE = re.compile(r"here|this|this page|the new (?:page|version|one)|link|new version", re.I)
# Marks of a quote, an alert, a list, a cell or emphasis, and the word that opens a notice.
_MARKS = re.compile(
    r"^(?:[\s>*_|!:~\\-]|\[!\w+\]|(?:warning|caution|note|notice|important|attention|info|danger"
    r"|admonition)\b[\s:*_-]*|[^\w\s\[(\"'`#]+)+",
    re.IGNORECASE,
)


def find(text: str) -> tuple[bool, str | None]:
    """Whether the first lines say that the page no longer holds, and what they name instead."""
    is_gone = False
    for line in islice(_top_lines(text), LINES):
        plain = re.sub(r"\*\*|__", "", _MARKS.sub("", line)).rstrip(" |*_")
        if not _NOTICE.match(plain):
            continue
        named = _SUCCESSOR.search(plain) if _REPLACED.search(plain) else None
        if successor := _name_successor(named[1]) if named else _link_in(plain):
            return True, successor
        is_gone = True  # and the next line may say what holds instead
    return is_gone, None


def _top_lines(text: str) -> Iterator[str]:
    """The lines of text before the second heading, unless that is the page's status."""
    headings = 0
    for line in text[:5_000].split("\n"):
        headings += bool(re.match(r"#{1,6}\s+(?!Status\s*$)", line))
        if headings > 1:
            return
        if line.strip() and not line.startswith("#") and any(map(str.isalpha, line)):
            yield line


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
