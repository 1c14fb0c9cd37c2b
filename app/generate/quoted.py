"""Answers without a model: what the kept sections say, word for word."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import dedent

import numpy as np

from app import citations, cleaning
from app.records import Answer, Turn
from retrieval import identifiers
from retrieval.embedding import EmbeddedQuery, Embedder, Vectors
from retrieval.lexical import build_words
from retrieval.records import Candidate, Query
from retrieval.sources.markdown import plain_text
from retrieval.statements import Statement, parse

OPENING = "From the documents (no model is configured, so this is quoted):"
UNSURE = f"I'm not sure that this answers it. {OPENING}"

MAX_WORDS = 130  # of quotations in one answer; with the opening, under 150
PAGES = 2  # that are quoted; a third added one case of 140 of handbook dev
PARAGRAPH_WORDS = 40  # up to here a paragraph is quoted whole; 25 to 60 do alike
LIST_WORDS = 40  # up to here a list is quoted whole; likewise
STEPS_WORDS = 80  # … and steps or code; 0.626 against 0.617 with MAX_WORDS

READ = 5_000  # characters of the pages that the model reads, some 1,300 tokens; 8,000 do no better
WINDOW = 600  # … of them at a time, since the model cuts at 256 tokens
HEAD = 150  # … of title and headings

# Tried on handbook dev: words alone gave 0.547 of the answers, these 0.626. A lower SHARE gives
# more, but also quotes what nobody asked for. On 140 cases of it drawn by lot, LEXICAL from 0.2
# to 0.5 and BEHIND up to 0.08 made a difference of two cases at most.
LEXICAL = 0.3  # what all words of the question count, in cosine
BEHIND = 0.05  # … and what it costs to be on a page at 1/e of the best one's odds
SHARE = 0.7  # least score of a quotation, in that of the best
ABOVE = 0.8  # what a word above a statement counts, its own counting 1
NEAR = 0.5  # … and one in the statements round it
REACH = 3  # statements to either side that are round it
NAME = 0.5  # what an identifier adds, in rarest words
K1, B = 1.2, 0.3  # BM25; statements differ in length for better reasons than documents do
# Least score of the best quotation. On handbook dev 13% of the answers that were right fall below
# it, and 40% of the rest; the page's relevance tells somewhat more, but not of the statement.
SURE = 0.5

# Words that a question has for being one. Rare in documents, they would weigh most.
_FILLER = (
    "a about after all an and any anyone are as at be been being but by can could did do does "
    "doing don for from get getting got had has have he hello help her hey hi his how i if in "
    "into is it its just know let like lol m may me my need no not of on or our out please re "
    "s she should so some someone still t tell than thanks that the their them then there "
    "these they this those to up us use ve want was way we were what when where which who "
    "whom whose why will with won would you your"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """A kept section with its statements."""

    candidate: Candidate
    statements: tuple[Statement, ...]
    groups: dict[int, range]  # the indexes of the statements of each top-level block

    def size(self, indexes: Sequence[int]) -> int:
        return sum(len(self.statements[index].text.split()) for index in indexes)

    def leads(self, index: int) -> bool:
        """Whether a statement only introduces what comes next."""
        statement, following = self.statements[index], self.statements[index + 1 : index + 2]
        if statement.kind != "sentence" or not following or following[0].kind == "heading":
            return False
        return statement.text.rstrip("*_").endswith(":")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quote:
    """Statements that are read together, and how well the best of them matches."""

    rank: int  # of their section among those kept, from 0
    indexes: tuple[int, ...]  # ascending
    score: float


class Quoter:
    """Quotes by what a loaded model finds near the question; safe to use from several threads."""

    settings: Mapping[str, object] = {"generator": "quoted"}  # as the trace keeps them

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def generate(self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate]) -> Answer:
        """The statements of the kept sections that answer best, those of a section in its order.

        Sections come by their best quotation. Quotations are whole and as written (but for [n]
        in prose, which becomes (n): it would be taken for a marker), MAX_WORDS together unless
        the best one alone has more. Nothing kept, or nothing but headings: UNSUPPORTED.
        """
        pages = [_read(candidate) for candidate in kept]
        evidence = _Evidence(self._embedder, query, pages)
        chosen = _choose(pages, evidence)
        if not chosen:
            return Answer(text="", abstained_because="UNSUPPORTED")
        return _write(pages, chosen, OPENING if chosen[0].score >= SURE else UNSURE)


def _write(pages: Sequence[_Page], chosen: Sequence[_Quote], text: str) -> Answer:
    """The quotations under an opening, each page with a marker of its own."""
    marks, cited = [], []
    for marker, rank in enumerate(dict.fromkeys(quote.rank for quote in chosen), 1):
        page = pages[rank]
        indexes = sorted({i for quote in chosen if quote.rank == rank for i in quote.indexes})
        for quotation in _quotations(page, indexes):
            text += "\n\n" + quotation
            marks.append(citations.Mark(place=len(text), markers=(marker,)))
        # What leads in or heads a table stands first, but what was looked for is below it.
        best = next(quote for quote in chosen if quote.rank == rank)
        span = page.statements[best.indexes[-1]].span
        cited.append(citations.build_citation(page.candidate.section, span, marker))
    places = [mark.place for mark in marks]
    text, places = cleaning.apply(text, cleaning.neutralised_markers(text), places)
    marks = [
        citations.Mark(place=place, markers=mark.markers)
        for mark, place in zip(marks, places, strict=True)
    ]
    return Answer(text=citations.insert(text, marks), citations=tuple(cited))


def _read(candidate: Candidate) -> _Page:
    section = candidate.section
    statements = parse(section.text, under=section.heading_path)
    groups = {}
    for group, members in groupby(range(len(statements)), key=lambda i: statements[i].group):
        indexes = list(members)
        groups[group] = range(indexes[0], indexes[-1] + 1)
    return _Page(candidate=candidate, statements=statements, groups=groups)


# Which statements


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Statements of one page that the model reads together, under title and headings."""

    rank: int
    text: str
    spans: tuple[tuple[int, int, int], ...]  # index of a statement, where it is in text, half-open


def _windows(pages: Sequence[_Page]) -> Iterator[_Window]:
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


def _measure(
    embedder: Embedder, query: Query, pages: Sequence[_Page], weights: Mapping[str, float]
) -> Mapping[tuple[int, int], float]:
    """How near statements are to the question, by rank of page and index; of those read.

    The mean over the question's tokens, by the weights of their words, of the best cosine among
    the statement's; each token as it is meant where it stands: under its headings, between its
    neighbours.

    Source: Khattab and Zaharia, ColBERT, SIGIR 2020 (MaxSim).
    """
    question = embedder.embed_query(query.text)
    shares = _token_shares(question, weights)
    windows = list(_windows(pages))
    embeddings = embedder.embed_documents([window.text for window in windows])
    near = {}
    for window, embedding in zip(windows, embeddings, strict=True):
        similarities = embedding.token_vectors @ question.embedding.token_vectors.T
        starts = embedder.token_starts(window.text)[: len(similarities)]
        for index, start, end in window.spans:
            own = similarities[bisect_left(starts, start) : bisect_left(starts, end)]
            if own.size:
                near[window.rank, index] = float(own.max(axis=0) @ shares)
    return near


def _token_shares(question: EmbeddedQuery, weights: Mapping[str, float]) -> Vectors:
    """What each token of the question counts, by the word that it is in; adds up to 1."""
    by_place = [0.0] * len(question.text)
    for match in re.finditer(r"[^\W_]+", question.text):
        weight = max((weights.get(word, 0.0) for word in _words(match.group())), default=0.0)
        by_place[slice(*match.span())] = [weight] * len(match.group())
    shares = np.array([by_place[start] for start, _ in question.token_spans], dtype=np.float32)
    # A question of marks alone has no words.
    return shares / shares.sum() if shares.any() else np.full_like(shares, 1 / max(len(shares), 1))


class _Evidence:
    """How well statements match the question: by meaning, by words, by their page.

    The words count by BM25 over the statements of all kept sections (Robertson and Zaragoza,
    2009). One that stands not in a statement but above it (title, headings, a table's head) or
    near it counts less.
    """

    def __init__(self, embedder: Embedder, query: Query, pages: Sequence[_Page]) -> None:
        words = _words(query.text)
        self._pages = pages
        self._words = [[_words(each.text) for each in page.statements] for page in pages]
        self._above = [[_words(_context(page, each)) for each in page.statements] for page in pages]
        names = identifiers.extract_from_question(query.text)
        self._names = [
            [bool(identifiers.extract(each.text) & names) for each in page.statements]
            for page in pages
        ]
        counts = Counter(word for page in self._words for own in page for word in own)
        total = sum(map(len, self._words))
        self._weights = {
            word: math.log(1 + (total - counts[word] + 0.5) / (counts[word] + 0.5))
            for word in sorted((words - _words(_FILLER)) or words)
        }
        self._mean_length = sum(counts.values()) / max(total, 1)
        self._near = _measure(embedder, query, pages, self._weights)

    def score(self, rank: int, index: int) -> float:
        """About 0.2 to 1 for what was read, 0 for what was not."""
        near = self._near.get((rank, index))
        if near is None:
            return 0.0
        behind = _log_odds(self._pages[0]) - _log_odds(self._pages[rank])
        return near + LEXICAL * self._lexical(rank, index) - BEHIND * behind

    def _lexical(self, rank: int, index: int) -> float:
        """The share of the question that a statement has in its words, and somewhat more.

        0 for a statement without any word of the question, whatever stands round it.
        """
        own = self._words[rank][index]
        if not own & self._weights.keys():
            return 0.0
        norm = 1 - B + B * len(own) / self._mean_length
        full = (1 + K1) / (1 + K1 * norm)
        score = sum(
            weight * (full if word in own else self._around(rank, index, word))
            for word, weight in self._weights.items()
        )
        rarest = max(self._weights.values())
        return (score + NAME * rarest * self._names[rank][index]) / sum(self._weights.values())

    def _around(self, rank: int, index: int, word: str) -> float:
        if word in self._above[rank][index]:
            return ABOVE
        if self._pages[rank].statements[index].kind == "row":
            return 0.0  # The row below says nothing of this one.
        near = self._words[rank][max(index - REACH, 0) : index + REACH + 1]
        return NEAR if any(word in words for words in near) else 0.0


def _log_odds(page: _Page) -> float:
    relevance = page.candidate.relevance
    return math.log(relevance / (1 - relevance)) if relevance else 0.0


def _context(page: _Page, statement: Statement) -> str:
    return " ".join([page.candidate.section.title, *statement.heading_path, statement.head])


def _words(text: str) -> frozenset[str]:
    return frozenset(
        re.sub(r"(?:ing|ed|es|s|e)$", "", word) if len(word) > 3 else word
        for word in build_words(text).split()
    )


def _choose(pages: Sequence[_Page], evidence: _Evidence) -> list[_Quote]:
    """The best quotations, best first, as long as there is room and none says the same again."""
    quotes = sorted(_quotes(pages, evidence), key=lambda quote: quote.score, reverse=True)
    quotes = [each for each in quotes if pages[each.rank].size(each.indexes) <= MAX_WORDS] or quotes
    chosen: list[_Quote] = []
    seen: set[tuple[int, int]] = set()
    said: set[str] = set()
    left = MAX_WORDS
    for quote in quotes:
        page = pages[quote.rank]
        new = [index for index in quote.indexes if (quote.rank, index) not in seen]
        texts = {page.statements[index].text for index in new}
        size = page.size(new)
        if quote.score < SHARE * quotes[0].score:
            break
        ranks = {quote.rank, *(each.rank for each in chosen)}
        if texts <= said or (chosen and (size > left or len(ranks) > PAGES)):
            continue
        chosen.append(quote)
        seen.update((quote.rank, index) for index in new)
        said |= texts
        left -= size
    return chosen


def _quotes(pages: Sequence[_Page], evidence: _Evidence) -> Iterator[_Quote]:
    """For each statement that can answer, what is quoted when it is the one that does."""
    for rank, page in enumerate(pages):
        for index, statement in enumerate(page.statements):
            if statement.kind not in ("heading", "head", "markup"):
                score = evidence.score(rank, index)
                if score > 0:
                    indexes = tuple(_with_surroundings(page, index))
                    yield _Quote(rank=rank, indexes=indexes, score=score)


def _with_surroundings(page: _Page, index: int) -> list[int]:
    """A statement with what it cannot be understood without."""
    statement = page.statements[index]
    group = page.groups[statement.group]
    first = group[0]
    if statement.kind == "row":
        indexes = [first, index]
    elif statement.depth:
        indexes = _items(page, index, group)
    elif statement.kind == "sentence":
        first = index if page.size(group) > PARAGRAPH_WORDS else first
        indexes = _sentences(page, first, group)
    else:
        indexes = [index]
    if page.leads(indexes[-1]):
        following = page.groups[page.statements[indexes[-1] + 1].group]
        indexes += following if page.size(following) <= _limit(page, following) else following[:1]
    if first and first == group[0] and page.leads(first - 1):
        indexes.insert(0, first - 1)
    return indexes


def _sentences(page: _Page, first: int, group: range) -> list[int]:
    """The sentences of a paragraph from the first on, but not too many."""
    indexes = [first]
    while indexes[-1] < group[-1] and page.size([*indexes, indexes[-1] + 1]) <= PARAGRAPH_WORDS:
        indexes.append(indexes[-1] + 1)
    return indexes


def _limit(page: _Page, group: range) -> int:
    """Up to how many words a block is quoted whole: what counts steps or is code, further."""
    first = page.statements[group[0]]
    return STEPS_WORDS if first.kind == "code" or first.text[:1].isdigit() else LIST_WORDS


def _items(page: _Page, index: int, group: range) -> list[int]:
    """The whole list where it is short or counts steps, else the item with all that is in it."""
    if page.size(group) <= _limit(page, group):
        return list(group)

    def opens(at: int, depth: int) -> bool:
        return page.statements[at].kind == "item" and page.statements[at].depth <= depth

    depth = page.statements[index].depth
    start = next((at for at in range(index, group[0], -1) if opens(at, depth)), group[0])
    depth = page.statements[start].depth
    end = next((at for at in range(start + 1, group[-1] + 1) if opens(at, depth)), group[-1] + 1)
    return list(range(start, end))


# How they are shown


def _quotations(page: _Page, indexes: Sequence[int]) -> Iterator[str]:
    """The statements as written, one quotation a paragraph, list, table or code block.

    Of a list or table, what is left out leaves no trace; what leads in stays with it.
    """
    quotation = ""
    before: int | None = None
    for index in indexes:
        end = page.statements[index].span[1]
        if before is None:
            quotation = _indented(page, index)
        elif quotation[:1].isspace() and not _indented(page, index)[:1].isspace():
            # Together they would not be dedented, and so be shown as code.
            yield dedent(quotation)
            quotation = _indented(page, index)
        elif index == before + 1 and (_same_block(page, before, index) or page.leads(before)):
            quotation += page.candidate.section.text[page.statements[before].span[1] : end]
        elif _same_block(page, before, index) and _can_be_apart(page.statements[index]):
            quotation += "\n" + _indented(page, index)
        elif _introduces(page, before, index):
            quotation += "\n\n" + _indented(page, index)
        else:
            yield dedent(quotation)
            quotation = _indented(page, index)
        before = index
    if before is not None:
        yield dedent(quotation)


def _can_be_apart(statement: Statement) -> bool:
    """Whether it may follow, in one list or table, on what does not come right before it.

    Steps would be numbered anew when shown: 4. and 6. as 4. and 5.
    """
    return statement.kind == "row" or (statement.kind == "item" and not statement.text[0].isdigit())


def _introduces(page: _Page, before: int, index: int) -> bool:
    """Whether a lead-in stands before the list of an item that is not nested."""
    following = page.statements[before + 1].group if page.leads(before) else None
    statement = page.statements[index]
    return statement.group == following and statement.depth == 1


def _same_block(page: _Page, one: int, other: int) -> bool:
    return page.statements[one].group == page.statements[other].group


def _indented(page: _Page, index: int) -> str:
    """A statement with the blanks before it on its line, by which a nested item is one."""
    text = page.candidate.section.text
    start, end = page.statements[index].span
    line = text.rfind("\n", 0, start) + 1
    return text[start if text[line:start].strip() else line : end]
