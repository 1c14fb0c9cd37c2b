"""How well the statements of kept sections match a question: by meaning, words and page."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from app.generate.pages import Page
from app.generate.quotations import STEPS_WORDS
from app.records import Turn
from retrieval import identifiers
from retrieval.embedding import EmbeddedQuery, Embedder, Vectors
from retrieval.lexical import build_words
from retrieval.records import Query
from retrieval.sources.markdown import plain_text

READ = 5_000  # characters of the pages that the model reads, some 1,300 tokens; 8,000 do no better
WINDOW = 600  # … of them at a time, since the model cuts at 256 tokens
HEAD = 150  # … of title and headings

# Handbook dev, share of the answers that are quoted, the other numbers as they then were: 0.628
# without PASSAGE and 0.660 with it, 0.664 with 1.2 (at 121 words an answer, not 119); NEAR of 0.5
# gave 0.635, of 0.3 0.649; BEHIND of 0 0.631, of 0.05 0.660, of 0.1 0.649. LEXICAL of 0.5 does like
# 0.3. The rest is chosen.
LEXICAL = 0.3  # what all words of the question count, in cosine
PASSAGE = 0.8  # … and that of the passage round a statement, WINDOW characters, to the question
BEHIND = 0.05  # … and what it costs to be on a page at 1/e of the best one's odds
STEPS = 0.4  # … and a step or code, if asked how, on a page that names the whole question
ODDS = 0.1  # … and the page's odds being e times as high, for being sure
ABOVE = 0.8  # what a word above a statement counts, its own counting 1
NEAR = 0.3  # … and one in the statements round it
REACH = 3  # statements to either side that are round it
NAME = 0.5  # what an identifier adds, in rarest words
TOPIC = 0.4  # what a word of an earlier turn counts, one of the last counting 1
K1, B = 1.2, 0.3  # BM25; statements differ in length for better reasons than documents do

_ASKS_HOW = re.compile(r"\bhow (?:do|does|to|can|should|would|could)\b|\bsteps\b", re.IGNORECASE)
_SUBJECT = re.compile(r"\A([\s|*+-]*[^|:–—(]*).*\Z", re.DOTALL)

# Words that a question has for being one. Rare in documents, they would weigh most.
_FILLER = (
    "a about after all an and any anyone are as at be been being between but by can could did "
    "difference do does doing don for from get getting got had has have he hello help her hey hi "
    "his how i if in into is it its just know let like lol m may me my need no not of on or our "
    "out please re s she should so some someone still t tell than thanks that the their them then "
    "there these they this those to up us use ve want was way we were what when where which who "
    "whom whose why will with won would you your"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """What words and names can be found in."""

    words: frozenset[str]
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A statement with what stands above it."""

    own: _Text
    heading: _Text  # the nearest
    above: _Text  # title, all headings, a table's head
    is_answer: bool  # to its heading, which asks


class Evidence:
    """How well statements match a question, by its best reading.

    The words count by BM25 over the statements of all kept sections (Robertson and Zaragoza,
    2009). One that stands not in a statement but above it (title, headings, a table's head) or
    near it counts less.
    """

    def __init__(
        self, embedder: Embedder, turns: Sequence[Turn], query: Query, pages: Sequence[Page]
    ) -> None:
        known = [[_know(page, index) for index in range(len(page.statements))] for page in pages]
        topic = frozenset(word for turn in turns[:-1] for word in _find_words(turn.text))
        topic -= _find_words(query.question)
        # A follow-up's own words weigh half of it, so that an old topic does not hide a new one.
        embed = cache(embedder.embed_query)  # the three are mostly one
        asked = [embed(text).embedding.vector for text in (query.text, query.question)]
        windows = list(_windows(pages))
        embeddings = embedder.embed_documents([window.text for window in windows])
        starts = [embedder.token_starts(window.text) for window in windows]
        vectors = {
            (window.rank, index): embedding.token_vectors[
                bisect_left(first, start) : bisect_left(first, end)
            ]
            for window, embedding, first in zip(windows, embeddings, starts, strict=True)
            for index, start, end in window.spans
        }
        self._passages = {
            (window.rank, index): float(embedding.vector @ np.mean(asked, axis=0))
            for window, embedding in zip(windows, embeddings, strict=True)
            for index, _, _ in window.spans
        }
        self._pages, self._topic = pages, topic
        self._asks_how = bool(_ASKS_HOW.search(query.question))
        self._units = [
            [_unit(page, at, self._asks_how) for at in range(len(page.statements))]
            for page in pages
        ]
        self._readings = [
            _Reading(embed(text), topic, pages, known, self._units, vectors)
            for text in query.readings or (query.text,)
        ]
        names = identifiers.extract_from_question(query.text)
        self.others = _name_others(pages, names)

    def score(self, rank: int, index: int) -> float | None:
        """What statements are compared by; None for one that was not read."""
        if (rank, index) not in self._passages:
            return None
        page = self._pages[rank]
        match = max(reading.score(rank, index) for reading in self._readings)
        behind = _log_odds(self._pages[0]) - _log_odds(page)
        unit = ((rank, at) for at in self._units[rank][index])
        passage = PASSAGE * max(self._passages.get(at, -1.0) for at in unit) - BEHIND * behind
        if self._asks_how and (page.statements[index].kind == "code" or page.counts_steps(index)):
            passage += STEPS * self._readings[0].share_above(rank, index)
        return match + passage

    def sureness(self, rank: int, index: int) -> float:
        """How likely a statement is to be the answer, on no scale; of those that were read."""
        best = max(reading.sureness(rank, index) for reading in self._readings)
        return best + ODDS * _log_odds(self._pages[rank])

    def shares(self, rank: int, indexes: Sequence[int]) -> dict[str, float]:
        """The words of the last turn that statements have themselves, with their share of it."""
        reading = self._readings[0]
        held = {word for index in indexes for word in reading.own[rank][index] - self._topic}
        total = sum(reading.weights.values())
        return {word: reading.weights[word] / total for word in sorted(held)}


class _Reading:
    """How well statements match one wording of the question."""

    def __init__(
        self,
        question: EmbeddedQuery,
        topic: frozenset[str],
        pages: Sequence[Page],
        known: Sequence[Sequence[_Known]],
        units: Sequence[Sequence[Sequence[int]]],
        vectors: Mapping[tuple[int, int], Vectors],
    ) -> None:
        self._pages, self._known = pages, known
        self._units = units
        self._forms = {
            _stem(word): identifiers.extract_from_question(word)
            for word in build_words(question.text).split()
        }
        filler = _find_words(_FILLER)
        asked = sorted(self._forms.keys() - filler or self._forms)
        self._forms = {word: self._forms[word] for word in asked}
        self._names = identifiers.extract_from_question(question.text)
        self.own = [[self._find(each.own) for each in page] for page in known]
        self._heading = [[self._find(each.heading) for each in page] for page in known]
        self._above = [[self._find(each.above) for each in page] for page in known]
        counts = Counter(word for page in self.own for own in page for word in own)
        total = sum(map(len, known))
        self.weights = {
            word: math.log(1 + (total - counts[word] + 0.5) / (counts[word] + 0.5))
            * (TOPIC if word in topic else 1)
            for word in asked
        }
        self._found = {word: weight for word, weight in self.weights.items() if counts[word]}
        lengths = [len(each.own.words) for page in known for each in page]
        self._mean_length = sum(lengths) / max(total, 1)
        self._shares = _token_shares(question, self.weights)
        tokens = question.embedding.token_vectors
        self._nearest = {
            place: (own @ tokens.T).max(axis=0) for place, own in vectors.items() if own.size
        }

    def score(self, rank: int, index: int) -> float:
        return self._near(rank, index) + LEXICAL * self._lexical(rank, index)

    def sureness(self, rank: int, index: int) -> float:
        """The score, with the words that no statement has counted as missing."""
        found = sum(self._found.values()) / sum(self.weights.values())
        return self._near(rank, index) + LEXICAL * self._lexical(rank, index) * found

    def share_above(self, rank: int, index: int) -> float:
        """Which share of the question stands in title and headings."""
        held = sum(self.weights[word] for word in self._above[rank][index])
        return held / sum(self.weights.values())

    def _near(self, rank: int, index: int) -> float:
        """How near a statement is to the question; 0 if it was not read.

        The mean over the question's tokens, by the weights of their words, of the best cosine
        among the statement's; each token as it is meant where it stands: under its headings,
        between its neighbours.

        Source: Khattab and Zaharia, ColBERT, SIGIR 2020 (MaxSim).
        """
        if (rank, index) not in self._nearest:
            return 0.0
        unit = [(rank, at) for at in self._units[rank][index] if (rank, at) in self._nearest]
        nearest = np.max([self._nearest[place] for place in unit], axis=0)
        heading = self._pages[rank].headings[index]
        if self._known[rank][index].is_answer and heading is not None:
            nearest = np.maximum(nearest, self._nearest.get((rank, heading), nearest))
        return float(nearest @ self._shares)

    def _lexical(self, rank: int, index: int) -> float:
        """The share of the question that a statement has in its words, and somewhat more.

        0 for one without any word of the question, in itself or its heading, whatever stands
        round it.
        """
        known, own = self._known[rank][index], self._held(rank, index)
        if known.is_answer:
            own |= self._heading[rank][index]
        if not own | self._heading[rank][index]:
            return 0.0
        norm = 1 - B + B * len(known.own.words) / self._mean_length
        full = (1 + K1) / (1 + K1 * norm)
        around = self._around(rank, index)
        above = self._above[rank][index]
        score = sum(
            weight * (full if word in own else ABOVE if word in above else NEAR * (word in around))
            for word, weight in self._found.items()
        )
        named = bool(known.own.names & self._names)
        score += NAME * max(self._found.values(), default=0.0) * named
        return score / (sum(self._found.values()) or 1)

    def _held(self, rank: int, index: int) -> frozenset[str]:
        return frozenset().union(*(self.own[rank][at] for at in self._units[rank][index]))

    def _around(self, rank: int, index: int) -> frozenset[str]:
        """The words of the statements round one, under the same headings."""
        statements = self._pages[rank].statements
        if statements[index].kind == "row":
            return frozenset()  # The row below says nothing of this one.
        path = statements[index].heading_path
        first, last = max(index - REACH, 0), min(index + REACH + 1, len(statements))
        return frozenset().union(
            *(
                self.own[rank][at]
                for at in range(first, last)
                if statements[at].heading_path == path
            )
        )

    def _find(self, text: _Text) -> frozenset[str]:
        """The words of the question that a text has, as such or as an identifier's other form."""
        return frozenset(
            word for word, forms in self._forms.items() if word in text.words or forms & text.names
        )


def _unit(page: Page, index: int, asks_how: bool) -> Sequence[int]:
    """What answers together: a table that is quoted whole, steps if asked how; else one alone."""
    if not page.sizes[index]:
        return (index,)
    block = page.block(index)
    is_table = page.statements[index].kind == "row" and page.size(block) <= STEPS_WORDS
    return block if is_table or (asks_how and page.counts_steps(index)) else (index,)


def _know(page: Page, index: int) -> _Known:
    statement = page.statements[index]
    *_, heading = ("", *statement.heading_path)
    title = page.candidate.section.title
    above = " ".join([title, *statement.heading_path, statement.head])
    return _Known(
        own=_read_text(statement.text),
        heading=_read_text(heading),
        above=_read_text(above),
        is_answer=statement.kind != "heading" and heading.endswith("?"),
    )


def _read_text(text: str) -> _Text:
    return _Text(words=_find_words(text), names=identifiers.extract(text))


def _name_others(pages: Sequence[Page], names: frozenset[str]) -> list[frozenset[int]]:
    """By page, rows about something else where a row is about what was asked; items likewise.

    What they are about is named in a row's first cell, or where an item begins. Items count within
    their list alone: other lists are about other things.
    """
    about = [
        {
            at: identifiers.extract(_SUBJECT.sub(r"\1", statement.text))
            for at, statement in enumerate(page.statements)
            if page.sizes[at] and statement.kind in ("row", "item") and not page.counts_steps(at)
        }
        for page in pages
    ]
    asked = [{at for at, subject in own.items() if subject & names} for own in about]
    rows = any(
        pages[rank].statements[at].kind == "row" for rank, own in enumerate(asked) for at in own
    )

    def has_asked(rank: int, index: int) -> bool:
        page = pages[rank]
        return not asked[rank].isdisjoint(page.block(index)) or (
            rows and page.statements[index].kind == "row"
        )

    return [
        frozenset(
            at
            for at, subject in own.items()
            if subject and at not in asked[rank] and has_asked(rank, at)
        )
        for rank, own in enumerate(about)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Statements of one page that the model reads together, under title and headings."""

    rank: int
    text: str
    spans: tuple[tuple[int, int, int], ...]  # index of a statement, where it is in text, half-open


def _windows(pages: Sequence[Page]) -> Iterator[_Window]:
    """The pages' statements in order, until READ characters are reached."""
    left = READ
    for rank, page in enumerate(pages):
        section = page.candidate.section
        head = text = " > ".join([section.title, *section.heading_path])[:HEAD]
        spans: list[tuple[int, int, int]] = []
        for index, statement in enumerate(page.statements):
            plain = plain_text(statement.text)
            if spans and len(text) + len(plain) > WINDOW:
                yield _Window(rank=rank, text=text, spans=tuple(spans))
                left -= len(text)
                text, spans = head, []
            if left <= 0:
                return
            spans.append((index, len(text) + 1, len(text) + 1 + len(plain)))
            text += "\n" + plain
        if spans:
            yield _Window(rank=rank, text=text, spans=tuple(spans))
            left -= len(text)


def _token_shares(question: EmbeddedQuery, weights: Mapping[str, float]) -> Vectors:
    """What each token of the question counts, by the word that it is in; adds up to 1."""
    by_place = [0.0] * len(question.text)
    for match in re.finditer(r"[^\W_]+", question.text):
        weight = max((weights.get(word, 0.0) for word in _find_words(match.group())), default=0.0)
        by_place[slice(*match.span())] = [weight] * len(match.group())
    shares = np.array([by_place[start] for start, _ in question.token_spans], dtype=np.float32)
    # A question of marks alone has no words.
    return shares / shares.sum() if shares.any() else np.full_like(shares, 1 / max(len(shares), 1))


def _log_odds(page: Page) -> float:
    relevance = page.candidate.relevance
    return math.log(relevance / (1 - relevance)) if relevance else 0.0


def _find_words(text: str) -> frozenset[str]:
    return frozenset(map(_stem, build_words(text).split()))


def _stem(word: str) -> str:
    return re.sub(r"(?:ing|ed|es|s|e)$", "", word) if len(word) > 3 else word
