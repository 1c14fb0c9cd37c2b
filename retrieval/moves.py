"""Which of the pages that are new are pages that are gone, moved; pure."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from retrieval.records import Document
from retrieval.stored import Stored

# Of the runs of words that either page has, how many both must have; chosen. Pages that were only
# made from one template have fewer in common.
ALIKE = 0.5
RUN_WORDS = 3

Key = Callable[[Stored | Document], Hashable]
P = TypeVar("P", Stored, Document)


def find(gone: Iterable[Stored], new: Iterable[Document]) -> dict[str, Stored]:
    """What each page that was moved is in the index, by its path now.

    A page is known again by title and text, else by its text, if there is one page alone on either
    side that has them. One that was edited, too, is known by its title or by the name of its
    file, if most of its words are still there.
    """
    left, wanted = {page.path: page for page in gone}, {page.path: page for page in new}
    moved: dict[str, Stored] = {}
    for key, is_alike in _WAYS:
        for before, now in list(_match(left.values(), wanted.values(), key)):
            if is_alike(before.text, now.text):
                moved[now.path] = left.pop(before.path)
                del wanted[now.path]
    return moved


def _match(
    gone: Iterable[Stored], new: Iterable[Document], key: Key
) -> Iterator[tuple[Stored, Document]]:
    """The pairs that have a key that no other page has on their side."""
    before, now = _group(gone, key), _group(new, key)
    for value, pages in before.items():
        if len(pages) == len(now.get(value, ())) == 1:
            yield pages[0], now[value][0]


def _group(pages: Iterable[P], key: Key) -> dict[Hashable, list[P]]:
    groups: dict[Hashable, list[P]] = defaultdict(list)
    for page in pages:
        groups[key(page)].append(page)
    return groups


def _name(page: Stored | Document) -> str:
    return page.path.rsplit("/", 1)[-1]


def _is_same(_before: str, _now: str) -> bool:
    return True  # by its key


def _is_edited(before: str, now: str) -> bool:
    """Whether one text was made of the other, by the runs of words that they share."""
    first, second = _runs(before.split()), _runs(now.split())
    return len(first & second) >= ALIKE * len(first | second)


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    length = min(RUN_WORDS, len(words))
    return {tuple(words[n : n + length]) for n in range(len(words) - length + 1)}


_WAYS: tuple[tuple[Key, Callable[[str, str], bool]], ...] = (
    (lambda page: (page.title, page.text), _is_same),
    (lambda page: page.text, _is_same),
    (lambda page: (page.title, _name(page)), _is_edited),
    (lambda page: page.title, _is_edited),
    (_name, _is_edited),
)
