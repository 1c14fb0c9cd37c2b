"""Synonyms that questions and documents suggest; none counts until somebody adds it."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, text

from app import abbreviations, synonyms
from app.rewrite import STOP_WORDS
from app.synonyms import Way
from retrieval.db import Database

RARE = 3  # pages at most have a word that the documents do not use; chosen, not measured
MEANINGS_A_WORD = 2  # proposed for one word of one question
LONGEST_MEANING = 4  # words of a heading
MOST = 20  # suggestions of each kind

_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A pair that may be a synonym."""

    phrase: str
    meaning: str
    met_in: Literal["questions", "documents"]
    count: int  # of these
    doc: str  # path of a page that was right, or that defines the abbreviation

    @property
    def command(self) -> str:
        """What adds it, to be pasted into a shell."""
        return f"footnote synonyms add {shlex.quote(self.phrase)} {shlex.quote(self.meaning)}"


def build_text(suggestion: Suggestion) -> str:
    """What speaks for the pair, and below it the command that adds it."""
    phrase, meaning, doc = suggestion.phrase, suggestion.meaning, suggestion.doc
    if suggestion.met_in == "questions":
        why = f"{suggestion.count} × “{phrase}” was asked, “{meaning}” is in a heading of {doc}"
    else:
        why = f"{suggestion.count} × {phrase} is defined as “{meaning}”, as in {doc}"
    return f"{why}\n    {suggestion.command}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Miss:
    """A question that was not answered, or flagged, and a page that is right."""

    question: str
    rephrased: str  # the question that was answered from the page; "" where somebody named it
    doc: str
    headings: tuple[str, ...]  # the title first


@dataclass(frozen=True, slots=True, kw_only=True)
class _Documents:
    """What all documents say."""

    frequency: Mapping[str, int]  # stem -> documents that have it
    stems: Mapping[str, Set[str]]  # of the documents that were asked for, by path
    defined: Mapping[Way, Sequence[str]]  # abbreviation and long form -> paths that define it


def suggest(database: Database) -> list[Suggestion]:
    """Pairs from questions, then abbreviations from documents; of each the most frequent first.

    A word of a question that was abstained from or flagged is paired with words of the right
    page's title and headings, if few pages have it and that page has it not. The page is that of
    the question's eval case, or what the next question of the thread was answered from. What is a
    synonym already is left out.
    """
    with database.transaction() as connection:
        misses = _load_misses(connection)
        documents = _load_documents(connection, {miss.doc for miss in misses})
    asked: dict[Way, list[str]] = {}
    for miss in misses:
        for pair in dict.fromkeys(_pair(miss, documents)):
            asked.setdefault(pair, []).append(miss.doc)
    known = {
        (synonyms.normalise(phrase), synonyms.normalise(meaning))
        for each in synonyms.load(database)
        for phrase, meaning in each.ways
    }
    return [
        *_build(asked, known, met_in="questions"),
        *_build(documents.defined, known, met_in="documents"),
    ]


def _load_misses(connection: Connection) -> list[_Miss]:
    rows = connection.execute(
        text("""
            WITH missed AS (
                SELECT trace_id, channel_id, thread_ts, asked_at, question FROM traces
                WHERE is_shown(traces) AND NOT settings ?| ARRAY['failed_legs', 'instead_of']
                AND (outcome = 'abstained' OR EXISTS (
                    SELECT FROM feedback
                    WHERE feedback.trace_id = traces.trace_id AND vote < 0
                ))
            )
            SELECT missed.question, '' AS rephrased, path AS doc, ARRAY[title] AS headings
            FROM missed JOIN case_traces USING (trace_id) JOIN eval_cases USING (case_id)
            CROSS JOIN LATERAL jsonb_array_elements(gold_any || gold_all) AS gold
            JOIN documents ON path = gold ->> 'doc'
            WHERE state <> 'dismissed'
            UNION
            SELECT missed.question, answered.question, cited ->> 'path',
                   ARRAY[cited ->> 'title', cited -> 'heading_path' ->> -1]
            FROM missed CROSS JOIN LATERAL (
                SELECT trace_id, question, outcome, citations FROM traces
                WHERE traces.channel_id = missed.channel_id
                AND traces.thread_ts = missed.thread_ts AND traces.asked_at > missed.asked_at
                ORDER BY traces.asked_at LIMIT 1
            ) AS answered
            CROSS JOIN LATERAL jsonb_array_elements(answered.citations) AS cited
            WHERE answered.outcome = 'answered' AND NOT EXISTS (
                SELECT FROM feedback WHERE feedback.trace_id = answered.trace_id AND vote < 0
            )
            ORDER BY question, doc
        """)
    )
    return [
        _Miss(
            question=row.question,
            rephrased=row.rephrased,
            doc=row.doc,
            headings=tuple(filter(None, row.headings)),
        )
        for row in rows
    ]


def _load_documents(connection: Connection, wanted: Set[str]) -> _Documents:
    frequency: Counter[str] = Counter()
    stems: dict[str, Set[str]] = {}
    defined: dict[Way, list[str]] = {}
    spellings: dict[Way, Way] = {}
    rows = connection.execution_options(yield_per=500).execute(
        text("SELECT path, title, text FROM documents ORDER BY path, source")
    )
    for path, title, body in rows:
        own = set(map(_stem, _WORD.findall(f"{title}\n{body}")))
        frequency.update(own)
        if path in wanted:
            stems[path] = stems.get(path, set()) | own
        for pair in {
            (short, long.casefold()): (short, long) for short, long in abbreviations.find(body)
        }.items():
            defined.setdefault(spellings.setdefault(*pair), []).append(path)
    return _Documents(frequency=frequency, stems=stems, defined=defined)


def _pair(miss: _Miss, documents: _Documents) -> Iterator[Way]:
    """Words of the question that the page lacks, with words of its headings that were not asked."""
    asked = [word for word in _WORD.findall(miss.question) if word.casefold() not in STOP_WORDS]
    own = documents.stems.get(miss.doc, set())
    unknown = [
        word.casefold()
        for word in asked
        if documents.frequency.get(_stem(word), 0) <= RARE
        and _stem(word) not in own
        and not re.search(r"\d\d", word)  # a number or a code has no other name
    ]
    rephrased = synonyms.normalise(miss.rephrased)
    meanings = sorted(
        _split(miss.headings, without=set(map(_stem, asked))),
        key=lambda meaning: (
            synonyms.normalise(meaning) not in rephrased,
            max(documents.frequency.get(_stem(word), 0) for word in _WORD.findall(meaning)),
        ),
    )
    for word in unknown:
        for meaning in meanings[:MEANINGS_A_WORD]:
            yield word, meaning


def _split(headings: Iterable[str], without: Set[str]) -> list[str]:
    """The runs of words in headings that mean something and are none of these stems."""
    runs: list[str] = []
    for heading in headings:
        run: list[str] = []
        for word in [*_WORD.findall(heading), ""]:
            if word and word.casefold() not in STOP_WORDS and _stem(word) not in without:
                run.append(word)
            elif run:
                runs.append(" ".join(run[-LONGEST_MEANING:]))
                run = []
    return list(dict.fromkeys(runs))


def _build(
    pairs: Mapping[Way, Sequence[str]],
    known: Set[Way],
    *,
    met_in: Literal["questions", "documents"],
) -> list[Suggestion]:
    """The most frequent pairs that are new; each pair comes with the paths that it was met for."""
    new = [
        Suggestion(phrase=phrase, meaning=meaning, met_in=met_in, count=len(docs), doc=docs[0])
        for (phrase, meaning), docs in pairs.items()
        if (synonyms.normalise(phrase), synonyms.normalise(meaning)) not in known
    ]
    return sorted(new, key=lambda each: -each.count)[:MOST]


def _stem(word: str) -> str:
    """Enough to take "vaults" and "vault" for one."""
    folded = word.casefold().removesuffix("'s").removesuffix("’s")
    return folded[:-1] if len(folded) > 3 and folded.endswith("s") else folded
