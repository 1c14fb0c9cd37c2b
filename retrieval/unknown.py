"""The names that a question hinges on and that stand in no document."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sqlalchemy import Connection

from retrieval import identifiers, names, search
from retrieval.embedding import EmbeddedQuery
from retrieval.generations import Generation
from retrieval.names import Name
from retrieval.records import Candidate, Query, StoredSection

LEAST_SERIES = 3  # numbers of a kind that show it to be counted; chosen, not measured
CLOSE = 0.9  # difflib's ratio: two letters of 20 are others; chosen, not measured

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]+|\d+")
_LETTERS_AND_NUMBER = re.compile(r"([a-z]{2,})(\d+)")
_DIGITS = re.compile(r"\d+")


def find(
    connection: Connection,
    query: Query,
    embedded: EmbeddedQuery,
    generation: Generation,
    candidates: Sequence[Candidate],
) -> tuple[str, ...]:
    """The names, as typed, without which no document can answer, and which none has.

    Empty as soon as one of them is known, mistyped or known in part. Besides the index, the
    candidates are read: whatever was found by all of the question is near to its names.
    """
    asked = names.find(query.question, rare=names.find_rare(embedded))
    if not names.hinges(query.text, asked) or _is_replaced(asked, query.variants):
        return ()
    standing = search.load_standing(
        connection,
        generation,
        identifiers=frozenset().union(*(name.forms for name in asked)),
        words=frozenset(word for name in asked for word in name.words),
    )
    if any(name.forms & standing.identifiers for name in asked):
        return ()
    asked = tuple(name for name in asked if not name.words or set(name.words) - standing.words)
    texts = [_read(candidate.section) for candidate in candidates]
    asked = tuple(name for name in asked if _is_one_of_many(name, texts))
    if not names.hinges(query.text, asked):
        return ()
    if any(_mentions(each, name) for each in texts for name in asked):
        return ()
    misspelt = {
        word: identifiers.find_near(word)
        for name in asked
        for word in set(name.words) - standing.words
        if len(word) > 5
    }
    near = search.load_standing(
        connection,
        generation,
        identifiers=frozenset().union(*map(_find_near, asked)),
        words=frozenset().union(*misspelt.values()),
    )
    words = standing.words.union(word for word in misspelt if misspelt[word] & near.words)
    if near.identifiers or any(name.words and words.issuperset(name.words) for name in asked):
        return ()
    return tuple(name.text for name in asked)


def find_among(
    query: Query, embedded: EmbeddedQuery, candidates: Sequence[Candidate]
) -> tuple[str, ...]:
    """The names without which no document can answer, and which none of the candidates has.

    For when the index cannot be asked: another document may have them.
    """
    asked = names.find(query.question, rare=names.find_rare(embedded))
    if not names.hinges(query.text, asked) or _is_replaced(asked, query.variants):
        return ()
    texts = [_read(candidate.section) for candidate in candidates]
    has_one = any(
        name.forms & each.identifiers
        or (name.words and each.words.issuperset(name.words))
        or _mentions(each, name)
        for each in texts
        for name in asked
    )
    asked = tuple(name for name in asked if _is_one_of_many(name, texts))
    if has_one or not names.hinges(query.text, asked):
        return ()
    return tuple(name.text for name in asked)


def _is_replaced(asked: Iterable[Name], variants: Iterable[str]) -> bool:
    """Whether a variant says something else for a name: then it is known as that."""
    squashed = [identifiers.squash(variant) for variant in variants]
    return any(identifiers.squash(name.text) not in each for name in asked for each in squashed)


def _find_near(name: Name) -> frozenset[str]:
    """Forms under which a document may hold a name that was mistyped, or typed with more to it."""
    squashed = identifiers.squash(name.text)
    parts = _PARTS.findall(name.text)
    shorter = (parts[:-1], parts[1:]) if len(parts) > 2 else ()
    near = identifiers.find_near(squashed) if len(squashed) > 3 else frozenset()
    return near.union(identifiers.squash(" ".join(rest)) for rest in shorter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A section as it is searched for mentions of a name."""

    squashed: str
    identifiers: frozenset[str]
    words: frozenset[str]  # runs of letters or of digits, in lower case


def _read(section: StoredSection) -> _Text:
    found = identifiers.extract(section.text) | identifiers.extract_from_path(section.path)
    return _Text(
        squashed=identifiers.squash(section.text),
        identifiers=found,
        words=frozenset(_LETTERS_OR_DIGITS.findall(section.text.casefold())),
    )


def _mentions(text: _Text, name: Name) -> bool:
    """Whether a text mentions a name otherwise than as an identifier of the same letters: in
    words of its prose, within a longer name, two slips away, or with its number standing apart."""
    squashed = identifiers.squash(name.text)
    start = r"(?<!\d)" if squashed[0].isdigit() else ""
    end = r"(?!\d)" if squashed[-1].isdigit() else ""
    if re.search(start + re.escape(squashed) + end, text.squashed):
        return True
    code = None if name.series else _LETTERS_AND_NUMBER.fullmatch(squashed)
    if code and text.words.issuperset(code.groups()):
        return True
    digits = _DIGITS.findall(squashed)
    alike = [
        form
        for form in text.identifiers
        if abs(len(form) - len(squashed)) < 3 and _DIGITS.findall(form) == digits
    ]
    return bool(get_close_matches(squashed, alike, n=1, cutoff=CLOSE))


def _is_one_of_many(name: Name, texts: Iterable[_Text]) -> bool:
    """Whether the texts show that a number is of a series, or a version one of several.

    Else "week 12" is no name, and 3.12.1 is one of all that is said of 3.12.
    """
    if not name.series and not name.twins:
        return True
    like = re.compile(name.twins or rf"{re.escape(name.series)}\d+")
    found = {form for text in texts for form in text.identifiers if like.fullmatch(form)}
    return len(found) >= (1 if name.twins else LEAST_SERIES)
