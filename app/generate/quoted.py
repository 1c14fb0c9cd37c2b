"""Answers without a model: what the kept sections say, word for word."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app import citations, cleaning, hidden
from app.generate.evidence import Evidence
from app.generate.generator import Write, write_nowhere
from app.generate.pages import Page, count, read
from app.generate.quotations import points_back, show, surround
from app.records import Answer, Citation, Turn
from retrieval.embedding import Embedder
from retrieval.records import Candidate, Query
from retrieval.sources.markdown import plain_text

OPENING = "From the documents (no model is configured, so this is quoted):"
INSTEAD = "From the documents (no model has answered, so this is quoted):"  # of as many words
_DOUBT = "I'm not sure that this answers it."
UNSURE = f"{_DOUBT} {OPENING}"

MAX_WORDS = 150  # of an answer, with opening and markers
PAGES = 2  # that are quoted; a third changes nothing on handbook dev

SHARE = 0.7  # least score of a quotation, in that of the best; chosen
# Least score of one that adds no word of the question, likewise. Handbook dev: 0.75 gives 0.644 of
# the answers at 113 words, 0.77 0.635 at 111; ALIKE of 0.75 no more answers but 4 words.
LIKE = 0.75
ALIKE = 0.9  # … and is in the same list, table or paragraph as one before it
GAIN = 0.1  # least share of the question that any other adds; chosen
SURE = 0.5  # least sureness of the best quotation
TOGETHER = 40  # most words of sentences that are one passage; chosen

_COMMENT = re.compile(r"[ \t]*<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quote:
    """Statements that are read together, and how well the best of them matches."""

    rank: int  # of their section among those kept, from 0
    index: int  # of the one that matches
    indexes: tuple[int, ...]  # ascending
    score: float


class Quoter:
    """Quotes by what a loaded model finds near the question; safe to use from several threads."""

    settings: Mapping[str, object] = {"generator": "quoted"}  # as the trace keeps them

    def __init__(self, embedder: Embedder, opening: str = OPENING) -> None:
        """opening says why this is quoted, and is of as many words as OPENING."""
        self._embedder = embedder
        self._opening = opening

    def generate(
        self,
        turns: Sequence[Turn],
        query: Query,
        kept: Sequence[Candidate],
        write: Write = write_nowhere,
    ) -> Answer:
        """The statements of the kept sections that answer best, those of a section in its order.

        Sections come by their best quotation. Quotations are whole and as written, but that [n]
        in prose becomes (n), since it would be taken for a marker, and that comments are left out;
        what is too long is cut and says so. At most MAX_WORDS in all. Nothing kept, or nothing but
        headings: UNSUPPORTED. write is given nothing: this takes no time.
        """
        pages = [read(candidate) for candidate in kept]
        evidence = Evidence(self._embedder, turns, query, pages)
        chosen = _choose(pages, evidence)
        if not chosen:
            return Answer(text="", abstained_because="UNSUPPORTED")
        is_sure = _is_sure(pages, evidence, chosen[0])
        opening = self._opening if is_sure else f"{_DOUBT} {self._opening}"
        return replace(_write(pages, chosen, opening), is_sure=is_sure)

    def passages(
        self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate]
    ) -> list[Citation]:
        """All of the sections that could answer, the best first and none twice, word for word.

        Each is a statement; a sentence has those with it that it is quoted with, if they are short.
        """
        pages = [read(candidate) for candidate in kept]
        evidence = Evidence(self._embedder, turns, query, pages)
        quotes = sorted(_quotes(pages, evidence), key=lambda quote: quote.score, reverse=True)
        spans = dict.fromkeys((quote.rank, _join(pages[quote.rank], quote)) for quote in quotes)
        return [
            citations.build_citation(pages[rank].candidate.section, span, marker)
            for marker, (rank, span) in enumerate(spans, 1)
        ]


def _join(page: Page, quote: _Quote) -> tuple[int, int]:
    """Where a passage stands: what matches, or a sentence as far as it is read together."""
    best = page.statements[quote.index]
    said = [page.statements[index] for index in quote.indexes]
    span = min(each.span[0] for each in said if each.kind != "heading"), said[-1].span[1]
    is_short = count(plain_text(page.candidate.section.text[slice(*span)])) <= TOGETHER
    return span if best.kind == "sentence" and is_short else best.span


def _is_sure(pages: Sequence[Page], evidence: Evidence, quote: _Quote) -> bool:
    if evidence.sureness(quote.rank, quote.index) < SURE:
        return False
    page, held = pages[quote.rank], evidence.shares(quote.rank, [quote.index]).keys()
    left_out = set(page.block(quote.index)) - {*quote.indexes, *evidence.others[quote.rank]}
    # A row that is not shown may be the one that was asked for.
    return page.statements[quote.index].kind != "row" or not any(
        held <= evidence.shares(quote.rank, [other]).keys() for other in left_out
    )


# Which statements


def _choose(pages: Sequence[Page], evidence: Evidence) -> list[_Quote]:
    """The best quotations, best first, as long as there is room and each has something to add."""
    quotes = sorted(_quotes(pages, evidence), key=lambda quote: quote.score, reverse=True)
    chosen: list[_Quote] = []
    for quote in quotes:
        if not chosen:
            chosen.append(_trim(pages, quote))
        elif quote.score < SHARE * chosen[0].score:
            break
        elif _adds(pages, evidence, chosen, quote) and _fits(pages, [*chosen, quote]):
            chosen.append(quote)
    return chosen


def _quotes(pages: Sequence[Page], evidence: Evidence) -> Iterator[_Quote]:
    """For each statement that can answer, what is quoted when it is the one that does."""
    for rank, page in enumerate(pages):
        for index, statement in enumerate(page.statements):
            if page.sizes[index] and statement.kind not in ("heading", "head"):
                score = evidence.score(rank, index)
                if score is not None and index not in evidence.others[rank]:
                    indexes = surround(page, index, without=evidence.others[rank])
                    indexes = _under_heading(page, evidence, rank, indexes)
                    yield _Quote(rank=rank, index=index, indexes=tuple(indexes), score=score)


def _under_heading(page: Page, evidence: Evidence, rank: int, indexes: list[int]) -> list[int]:
    """With the nearest heading, where nothing else says what the statements are about."""
    heading = page.headings[indexes[0]]
    *_, title = ("", *page.statements[indexes[0]].heading_path)
    if heading is None or title in ("", page.candidate.section.title):
        return indexes
    unclear = points_back(page, indexes[0]) or not evidence.shares(rank, indexes)
    return [heading, *indexes] if unclear or title.endswith("?") else indexes


def _adds(
    pages: Sequence[Page], evidence: Evidence, chosen: Sequence[_Quote], quote: _Quote
) -> bool:
    """Whether a further quotation says something else about what was asked."""
    page = pages[quote.rank]
    shown = {(each.rank, index) for each in chosen for index in each.indexes}
    said = {pages[rank].statements[index].text for rank, index in shown}
    new = [index for index in quote.indexes if page.statements[index].text not in said]
    blocks = [page.block(each.index) for each in chosen if each.rank == quote.rank]
    if not new or len({quote.rank, *(each.rank for each in chosen)}) > PAGES:
        return False
    same_block = page.block(quote.index) in blocks
    if (same_block and page.counts_steps(quote.index)) or points_back(page, quote.indexes[0]):
        return False  # A list of steps is shown as one run; what points back is not understood.
    covered = {word for each in chosen for word in evidence.shares(each.rank, each.indexes)}
    shares = evidence.shares(quote.rank, quote.indexes)
    gain = sum(share for word, share in shares.items() if word not in covered)
    return gain >= GAIN or quote.score >= (ALIKE if same_block else LIKE) * chosen[0].score


def _trim(pages: Sequence[Page], quote: _Quote) -> _Quote:
    """As much of a quotation as fits alone, with what matches in it."""
    while len(quote.indexes) > 1 and not _fits(pages, [quote]):
        *rest, last = quote.indexes
        quote = replace(quote, indexes=tuple(rest) if last != quote.index else quote.indexes[1:])
    return quote


def _fits(pages: Sequence[Page], quotes: Sequence[_Quote]) -> bool:
    texts = [f"{text} [1]" for _, text in _show(pages, quotes)]
    shown = "\n\n".join([UNSURE, *texts])
    return max(count(plain_text(shown)), len(shown.split())) <= MAX_WORDS


# How they are shown


def _show(pages: Sequence[Page], chosen: Sequence[_Quote]) -> Iterator[tuple[int, str]]:
    """The quotations, each with the rank of its page."""
    for rank in dict.fromkeys(quote.rank for quote in chosen):
        indexes = sorted({i for quote in chosen if quote.rank == rank for i in quote.indexes})
        for text in show(pages[rank], indexes):
            yield rank, text


def _write(pages: Sequence[Page], chosen: Sequence[_Quote], text: str) -> Answer:
    """The quotations under an opening, each page with a marker of its own."""
    markers = {rank: at for at, rank in enumerate(dict.fromkeys(each.rank for each in chosen), 1)}
    places = []
    ranks = []
    for rank, quotation in _show(pages, chosen):
        text += "\n\n" + quotation
        places.append(len(text))
        ranks.append(rank)
    unseen = [(start, end, "") for start, end in hidden.find(text)]
    text, places = cleaning.apply(text, unseen, places)
    text, places = cleaning.apply(text, _comments(text), places)
    text, places = cleaning.apply(text, cleaning.neutralised_markers(text), places)
    marks = [
        citations.Mark(place=place, markers=(markers[rank],))
        for place, rank in zip(places, ranks, strict=True)
    ]
    best = {quote.rank: quote for quote in reversed(chosen)}
    cited = tuple(
        citations.build_citation(
            pages[rank].candidate.section, pages[rank].statements[best[rank].index].span, marker
        )
        for rank, marker in markers.items()
    )
    return Answer(text=citations.insert(text, marks), citations=cited)


def _comments(text: str) -> Iterator[cleaning.Edit]:
    """The edits that take out what a page's author wrote for nobody to read; not of code."""
    code = list(cleaning.code_spans(text))
    for match in _COMMENT.finditer(text):
        if not any(start <= match.start() < end for start, end in code):
            yield *match.span(), ""
