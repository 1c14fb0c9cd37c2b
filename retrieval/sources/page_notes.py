"""The footnotes of an HTML page to where they are referred to; nothing of their marks stays."""

import copy
import re
from collections.abc import Iterator, Sequence

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString, PageElement

from retrieval.sources import furniture
from retrieval.sources.furniture import HEADINGS

# Links back to the text, as the programs that write them have them.
ARROWS = re.compile(r"[\s↑↩⏎⤴^\ufe0e\ufe0f]*")
# What a note is referred to by; "note" and such, where a page has notes and sources.
_LABEL = re.compile(r"[\[(]?(?:\w{1,12}\.? )?(?:\d{1,4}|[a-z]{1,2}|[*†‡§]{1,3})[\])]?[.:^↑]?")
_BLOCKS = ("p", "li", "td", "th", "dd", "dt", "blockquote", "figcaption", "caption", "div")
_LARGE = ["table", "pre", "ul", "ol", "dl"]  # what does not fit into a paragraph
_WHOLE = ["section", "article", "main", "body", *HEADINGS]  # what has more in it than a note
_KEPT = ("body", "html", "td", "th", "tr", "main", "[document]")


def place(soup: BeautifulSoup) -> None:
    """Put each note's words, in parentheses, at the end of the paragraph that refers to it.

    A note is what a number links to and what links back, as Word's, MkDocs's, MediaWiki's, Sphinx's
    and pandoc's do; one with a list, a table or code in it stays where it is.
    """
    targets = {str(element["id"]): element for element in soup.select("[id]")}
    references: dict[int, tuple[Tag, list[Tag]]] = {}
    for link in soup.select('a[href^="#"]'):
        note = targets.get(str(link["href"])[1:])
        if note is not None and _LABEL.fullmatch(_say([link])) and _is_note(note, link):
            references.setdefault(id(note), (note, []))[1].append(link)
    for note, links in references.values():
        is_large = note.name in ("table", "dt") or note.find(_LARGE)
        words = None if is_large else list(_find_words(note))
        for link in links:
            if words:
                _put(words, link)
            _remove(link)
        if words is not None:
            _remove(note)


def _is_note(note: Tag, link: Tag) -> bool:
    """Whether a link's target links back to the link, or to what is round it."""
    if note.name in ("a", *_WHOLE) or note.find(_WHOLE) or note in link.parents:
        return False
    if any(map(furniture.is_hidden, (note, *note.parents))):
        return False
    names = {str(each["id"]) for each in (link, *list(link.parents)[:2]) if each.get("id")}
    names |= {str(each["id"]) for each in link.select("[id]")}
    return any(str(back["href"])[1:] in names for back in note.select('a[href^="#"]'))


def _find_words(note: Tag) -> Iterator[PageElement]:
    """What the note says, without its number and its links back."""
    note = copy.copy(note)
    for back in note.select('a[href^="#"]'):
        if ARROWS.fullmatch(back.get_text()) or _LABEL.fullmatch(_say([back])):
            _remove(back)
    for label in note.select(".label, .fn-bracket, .mw-cite-backlink"):
        label.decompose()
    paragraphs = note.find_all("p") or [note]
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield NavigableString(" ")
        yield from list(paragraph.children)


def _put(words: list[PageElement], link: Tag) -> None:
    """Append a note to the innermost paragraph, item or cell that a link is in, once."""
    block = link.find_parent((*_BLOCKS, *HEADINGS))
    said = _say(words)
    if not said or block is None or said in _say([block]):
        return
    note = Tag(name="span")
    note.extend([" (", *(copy.copy(each) for each in words), ")"])
    _strip(note)
    # Before an item's own list, and in the middle of what has paragraphs of its own.
    inner = next((child for child in block.find_all(_LARGE) if child.parent is block), None)
    if block.name in HEADINGS:
        note.name = "p"
        block.insert_after(note)
    elif block.find(_BLOCKS):
        (link.find_parent("sup") or link).insert_after(note)
    elif inner is not None:
        inner.insert_before(note)
    else:
        block.append(note)


def _strip(note: Tag) -> None:
    """Take the blanks within the parentheses off."""
    for place, strip in ((1, str.lstrip), (-2, str.rstrip)):
        part = note.contents[place]
        if isinstance(part, NavigableString):
            part.replace_with(NavigableString(strip(part)))


def _say(elements: Sequence[PageElement]) -> str:
    return " ".join("".join(each.get_text() for each in elements).split())


def _remove(element: Tag) -> None:
    """Take an element out, with what is left empty round it."""
    parent = element.parent
    element.decompose()
    while isinstance(parent, Tag) and parent.parent is not None and parent.name not in _KEPT:
        if parent.get_text(strip=True).strip("[]") or parent.find("img"):
            return
        parent, gone = parent.parent, parent
        gone.decompose()
