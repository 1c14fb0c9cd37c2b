"""Text to the abbreviations that it defines: "Modernisation Platform (MP)"; pure.

Source: Schwartz and Hearst, A Simple Algorithm for Identifying Abbreviation Definitions in
Biomedical Text, PSB 2003. Ours asks for two capitals, as prose has many other brackets.
"""

import re
from collections.abc import Iterator

_LINK = re.compile(r"\[([^\[\]\n]*)\]\([^()\s]*\)")
_MARKUP = re.compile(r"[*_`\[\]]")
_SHORT = re.compile(r"\((?P<short>[A-Za-z0-9][\w&/-]{1,9})\)")
_LITTLE_WORD = re.compile(r"(?:of|the|and|for|an?|to|in|on|by) ")
_LONGEST = 120  # characters before the bracket
_SENTENCE_END = re.compile(r"[().;:|\n]")


def find(markdown: str) -> Iterator[tuple[str, str]]:
    """Each abbreviation with what it stands for, where that is said, in order."""
    plain = _MARKUP.sub("", _LINK.sub(r"\1", markdown))
    for match in _SHORT.finditer(plain):
        short = match["short"]
        if len(re.findall(r"[A-Z]", short)) < 2:
            continue
        before = plain[max(0, match.start() - _LONGEST) : match.start()]
        words = _SENTENCE_END.split(before)[-1].split()
        long = find_long_form(short, " ".join(words[-min(len(short) + 5, len(short) * 2) :]))
        # "Office of Acquisition (OA)": the shortest end would be "of Acquisition".
        if long and len(long) > len(short) and not _LITTLE_WORD.match(long):
            yield short, long


def find_long_form(short: str, text: str) -> str | None:
    """The shortest end of the text that has the letters of the abbreviation in order, the first
    at the start of a word; None where it has none."""
    place = len(text)
    for number, letter in reversed(list(enumerate(short.casefold()))):
        if not letter.isalnum():
            continue
        place -= 1
        while place >= 0 and not (
            text[place].casefold() == letter
            and (number > 0 or place == 0 or not text[place - 1].isalnum())
        ):
            place -= 1
        if place < 0:
            return None
    return text[text.rfind(" ", 0, place + 1) + 1 :].strip(" ,/–—-\"'“”‘’")
