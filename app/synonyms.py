"""Synonyms: what people call a thing and what the documents call it; a table per tenant."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import text

from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.records import Query

MAX_WORDS = 6  # of a phrase
MAX_CHARACTERS = 100  # of a phrase
MAX_VARIANTS = 3  # of a question: each is searched for and reranked against, 0.25 s on two cores

Way = tuple[str, str]  # a phrase, and what is searched for as well where it stands
Table = Mapping[str, Sequence[str]]  # phrase in normal form -> its meanings, first added first
Span = tuple[int, int]  # half-open

_PUNCTUATION = ".,;:!?…()[]{}\"'“”‘’«»"  # not + or #: C++ and C# are words
_SPECIAL = re.compile(r"[\\,]|=>|^#")  # in Solr's format


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """Where the phrase stands in a question, the meaning is searched for as well."""

    phrase: str
    meaning: str
    two_way: bool  # so is the phrase for the meaning

    @property
    def line(self) -> str:
        """As a line of Solr's format, which parse reads."""
        phrase, meaning = (_SPECIAL.sub(r"\\\g<0>", each) for each in (self.phrase, self.meaning))
        return f"{phrase}, {meaning}" if self.two_way else f"{phrase} => {meaning}"

    @property
    def ways(self) -> list[Way]:
        """One or two."""
        way = (self.phrase, self.meaning)
        return [way, way[::-1]] if self.two_way else [way]


def build(phrase: str, meaning: str, *, two_way: bool) -> Synonym:
    """A synonym that can be stored; raises ConfigError saying what is wrong with it."""
    phrase, meaning = _clean(phrase), _clean(meaning)
    if normalise(phrase) == normalise(meaning):
        raise ConfigError(f"“{phrase}” is no synonym of itself.")
    return Synonym(phrase=phrase, meaning=meaning, two_way=two_way)


def read_file(path: Path) -> list[Synonym]:
    """The synonyms of a file in Solr's format; raises ConfigError naming the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {type(error).__name__}.") from error
    found: list[Synonym] = []
    for number, line in enumerate(lines, 1):
        try:
            found += parse(line)
        except ConfigError as error:
            raise ConfigError(f"{path} line {number}: {error}") from error
    return found


def parse(line: str) -> Iterator[Synonym]:
    """The synonyms of one line in Solr's format; none of an empty line or a comment.

    `a, b, c` are three of one meaning. By `a, b => c` c is searched for where a or b stands, and
    what was asked as well: unlike Solr's, our synonyms never replace. A backslash before a comma,
    `=>` or a backslash makes it a part of the phrase. Raises ConfigError for anything else.
    """
    if not line.strip() or line.lstrip().startswith("#"):
        return
    left, *right = (
        [_unescape(phrase) for phrase in _split(side, ",")] for side in _split(line, "=>")
    )
    if len(right) > 1 or (not right and len(left) < 2):
        raise ConfigError("write `a, b` for two of one meaning, or `a => b` for one way.")
    for number, phrase in enumerate(left):
        for meaning in right[0] if right else left[number + 1 :]:
            # `a => a, b` is how Solr is told to keep the a, which we do anyway.
            if not right or normalise(phrase) != normalise(meaning):
                yield build(phrase, meaning, two_way=not right)


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators; each keeps its backslashes."""
    # A backslash is taken with what it stands before, so the comma of `\\,` does separate.
    parts = [""]
    for found in re.findall(rf"\\.|{separator}|.", text):
        if found == separator:
            parts.append("")
        else:
            parts[-1] += found
    return parts


def _unescape(phrase: str) -> str:
    return re.sub(r"\\(.)", r"\1", phrase)


def load(database: Database) -> list[Synonym]:
    """All synonyms of the tenant, those added first first."""
    with database.transaction() as connection:
        rows = connection.execute(text("SELECT phrase, meaning FROM synonyms ORDER BY synonym_id"))
        return _pair([(row.phrase, row.meaning) for row in rows])


def add(database: Database, synonyms: Sequence[Synonym]) -> int:
    """Store synonyms in one transaction; how many of them say something new."""
    ways = [way for synonym in synonyms for way in synonym.ways]
    with database.transaction() as connection:
        rows = connection.execute(
            text("""
                INSERT INTO synonyms (tenant_id, phrase, meaning, phrase_key, meaning_key)
                SELECT current_setting('footnote.tenant_id'), phrase, meaning, phrase_key,
                       meaning_key
                FROM unnest(CAST(:phrases AS text[]), CAST(:meanings AS text[]),
                            CAST(:phrase_keys AS text[]), CAST(:meaning_keys AS text[]))
                     WITH ORDINALITY AS added(phrase, meaning, phrase_key, meaning_key, ordinal)
                ORDER BY ordinal
                ON CONFLICT DO NOTHING
                RETURNING phrase_key, meaning_key
            """),
            {
                "phrases": [phrase for phrase, _ in ways],
                "meanings": [meaning for _, meaning in ways],
                "phrase_keys": [normalise(phrase) for phrase, _ in ways],
                "meaning_keys": [normalise(meaning) for _, meaning in ways],
            },
        )
        new = {(row.phrase_key, row.meaning_key) for row in rows}
    asked = {frozenset(map(_keys, synonym.ways)) for synonym in synonyms}
    return sum(not new.isdisjoint(each) for each in asked)


def remove(database: Database, phrase: str, meaning: str | None = None) -> list[Synonym]:
    """Forget one meaning of a phrase, or all of them, both ways; what was forgotten."""
    with database.transaction() as connection:
        rows = connection.execute(
            text("""
                WITH unwanted AS (
                    SELECT phrase_key, meaning_key FROM synonyms
                    WHERE phrase_key = :phrase
                    AND (CAST(:meaning AS text) IS NULL OR meaning_key = :meaning)
                )
                DELETE FROM synonyms USING unwanted
                WHERE (synonyms.phrase_key, synonyms.meaning_key)
                      IN ((unwanted.phrase_key, unwanted.meaning_key),
                          (unwanted.meaning_key, unwanted.phrase_key))
                RETURNING synonym_id, phrase, meaning
            """),
            {
                "phrase": normalise(phrase),
                "meaning": None if meaning is None else normalise(meaning),
            },
        )
        return _pair([(phrase, meaning) for _, phrase, meaning in sorted(map(tuple, rows))])


def build_table(synonyms: Sequence[Synonym]) -> Table:
    """What to look phrases up in."""
    table: dict[str, list[str]] = {}
    for synonym in synonyms:
        for phrase, meaning in synonym.ways:
            table.setdefault(normalise(phrase), []).append(meaning)
    return table


def expand(query: Query, table: Table) -> Query:
    """The query with up to MAX_VARIANTS more: each has a meaning where a phrase stands.

    The variants are reranked against as well: measured with invented words for what the pages
    say, only that let sections win that nothing but a synonym found. A phrase is whole words in
    any case, the longest first; no part of an identifier or a path is one. The first meaning of
    each phrase comes before the second of any. What a synonym brings is not looked up again, and
    a meaning that is asked for already brings nothing.
    """
    readings = query.readings or (query.text,)
    found = [(text, *each) for text in readings for each in _find_phrases(text, table)]
    worded = dict.fromkeys(
        _replace(text, spans, meaning)
        for rank in range(MAX_VARIANTS)
        for text, spans, meanings in found
        for meaning in meanings[rank : rank + 1]
    )
    added = tuple(worded)[:MAX_VARIANTS]
    if not added:
        return query
    variants = tuple(dict.fromkeys((*query.variants, *added)))
    return replace(query, variants=variants, readings=readings + added)


def _find_phrases(text: str, table: Table) -> list[tuple[list[Span], Sequence[str]]]:
    """Where each phrase of the table stands in the text, with its meanings that do not."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    places: dict[str, list[Span]] = {}
    start = 0
    while start < len(words):
        for size in range(min(MAX_WORDS, len(words) - start), 0, -1):
            span = (words[start][0], words[start + size - 1][1])
            if bare := _find_phrase(text, span, table):
                places.setdefault(normalise(text[slice(*bare)]), []).append(bare)
                break
        start += size
    asked = normalise(text)
    return [
        (spans, [meaning for meaning in table[phrase] if not _holds(asked, normalise(meaning))])
        for phrase, spans in places.items()
    ]


def _find_phrase(text: str, span: Span, table: Table) -> Span | None:
    """The span, or that without the punctuation at its ends, if it is a phrase of the table."""
    start, end = span
    raw = text[start:end]
    bare = (end - len(raw.lstrip(_PUNCTUATION)), start + len(raw.rstrip(_PUNCTUATION)))
    return next((each for each in (span, bare) if normalise(text[slice(*each)]) in table), None)


def _holds(text: str, phrase: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text))


def _replace(text: str, spans: Sequence[Span], meaning: str) -> str:
    for start, end in reversed(spans):
        text = text[:start] + meaning + text[end:]
    return text


def _pair(ways: Sequence[Way]) -> list[Synonym]:
    """The synonyms that are stored as these ways, each where its first way stands."""
    keys = set(map(_keys, ways))
    done: set[Way] = set()
    synonyms = []
    for way in ways:
        back = _keys(way)[::-1]
        if back not in done:
            done.add(_keys(way))
            synonyms.append(Synonym(phrase=way[0], meaning=way[1], two_way=back in keys))
    return synonyms


def _keys(way: Way) -> Way:
    return normalise(way[0]), normalise(way[1])


def normalise(phrase: str) -> str:
    """What is compared: case, white space and ways to write a character make no difference."""
    return " ".join(unicodedata.normalize("NFKC", phrase).casefold().split())


def _clean(phrase: str) -> str:
    """A phrase as it is stored; raises ConfigError when it is none."""
    words = phrase.split()
    cleaned = " ".join(words)
    if not re.search(r"\w", cleaned):
        raise ConfigError("A synonym has a word on each side.")
    if len(words) > MAX_WORDS or len(cleaned) > MAX_CHARACTERS:
        raise ConfigError(
            f"“{cleaned[:MAX_CHARACTERS]}” is too long: a phrase has at most {MAX_WORDS} words"
            f" and {MAX_CHARACTERS} characters."
        )
    if not cleaned.isprintable():
        raise ConfigError("A phrase holds only characters that can be seen.")
    return cleaned
