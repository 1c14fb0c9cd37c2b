"""Which of the pages that are new are pages that are gone, moved; pure."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from retrieval import lexical, shingles
from retrieval.records import Document
from retrieval.stored import Stored

# Of the runs of words that either page has, how many both must have; chosen. Pages that were only
# made from one template have fewer in common.
ALIKE = 0.5

Key = Callable[[Stored | Document], Hashable]
P = TypeVar("P", Stored, Document)


def find(gone: Iterable[Stored], new: Iterable[Document]) -> dict[str, Stored]:
    """What each page that was moved is in the index, by its path now.

    A page is known again by title and text, else by its text, if as many pages have them on either
    side; those are told apart by the order of their paths. One that was edited, too, is known by
    its title or the name of its file, if no other has that and most of its words are there.
    """
    left, wanted = {page.path: page for page in gone}, {page.path: page for page in new}
    moved: dict[str, Stored] = {}
    for key, is_exact in _WAYS:
        for before, now in list(_match(left.values(), wanted.values(), key)):
            if is_exact or (len(before) == 1 and _is_edited(before[0].text, now[0].text)):
                for was, page in zip(before, now, strict=True):
                    moved[page.path] = left.pop(was.path)
                    del wanted[page.path]
    return moved


def _match(
    gone: Iterable[Stored], new: Iterable[Document], key: Key
) -> Iterator[tuple[list[Stored], list[Document]]]:
    """The pages that have a key in common, where there are as many on either side, by path."""
    before, now = _group(gone, key), _group(new, key)
    for value, pages in before.items():
        if len(pages) == len(now.get(value, ())):
            yield pages, now[value]


def _group(pages: Iterable[P], key: Key) -> dict[Hashable, list[P]]:
    groups: dict[Hashable, list[P]] = defaultdict(list)
    for page in sorted(pages, key=lambda page: page.path):
        groups[key(page)].append(page)
    return groups


def _name(page: Stored | Document) -> str:
    return page.path.rsplit("/", 1)[-1]


def _is_edited(before: str, now: str) -> bool:
    """Whether one text was made of the other, by the runs of words that they share."""
    return shingles.find_similarity(_build_runs(before), _build_runs(now)) >= ALIKE


def _build_runs(text: str) -> frozenset[str]:
    return shingles.build([word.text for word in lexical.find_words(text)])


# With whether pages that have the key in common say the same.
_WAYS: tuple[tuple[Key, bool], ...] = (
    (lambda page: (page.title, page.text), True),
    (lambda page: page.text, True),
    (lambda page: (page.title, _name(page)), False),
    (lambda page: page.title, False),
    (_name, False),
)
