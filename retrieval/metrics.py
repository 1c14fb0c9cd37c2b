"""What a retrieval is worth, by what answers a case as judged by a person.

A result hits a gold entry when it comes from that document and holds the span. Both texts are
compared as runs of words in lower case, so markup and white space do not count; a span that a
section's end cut is held when at least 60% of its words stand in the result in one run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import log2

SPAN_HELD = 0.6
CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """What answers a case; without a span the document alone is enough."""

    doc: str
    span: str | None = None
    source: str | None = None  # of the document, where known; what is measured goes by doc alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One section found, as the model would read it."""

    doc: str
    text: str


def words(text: str) -> list[str]:
    """What of a text is compared."""
    return re.findall(r"\w+", text.lower().replace("_", " "))


def hits(result: Result, gold: Gold) -> bool:
    """Whether the result comes from the gold document and holds its span."""
    if result.doc != gold.doc:
        return False
    if not gold.span:
        return True
    text, span = words(result.text), words(gold.span)
    if f" {' '.join(span)} " in f" {' '.join(text)} ":
        return True
    run = SequenceMatcher(None, text, span, autojunk=False).find_longest_match().size
    return run >= SPAN_HELD * len(span)


def answers(gold_any: Sequence[Gold], gold_all: Sequence[Gold]) -> tuple[tuple[Gold, ...], ...]:
    """What has to be found, each with the places that are as good as one another."""
    alternatives = (tuple(gold_any),) if gold_any else ()
    return alternatives + tuple((gold,) for gold in gold_all)


def find_firsts(results: Sequence[Result], wanted: Sequence[Sequence[Gold]]) -> list[int | None]:
    """The index of the first result that hits each answer; None where none does."""
    return [
        next((i for i, r in enumerate(results) if any(hits(r, gold) for gold in answer)), None)
        for answer in wanted
    ]


def recall(results: Sequence[Result], gold_any: Sequence[Gold], gold_all: Sequence[Gold]) -> float:
    """With gold_all the share of its entries hit, else 1 for any entry of gold_any hit."""
    if gold_all:
        return sum(any(hits(r, gold) for r in results) for gold in gold_all) / len(gold_all)
    return float(any(hits(r, gold) for r in results for gold in gold_any))


def reciprocal_rank(relevant: Sequence[bool]) -> float:
    """1 / rank of the first hit; 0 without one."""
    return next((1 / rank for rank, hit in enumerate(relevant, 1) if hit), 0.0)


def ndcg(firsts: Sequence[int | None], k: int) -> float:
    """Normalised discounted cumulative gain over k results, by the index that each answer is at.

    A result gains 1 if it is the first with some answer, so what says the same again gains nothing.
    The ideal has these results first, and behind them one for each answer that is missing.

    Source: Järvelin and Kekäläinen, TOIS 2002.
    """
    found = {first for first in firsts if first is not None}
    ideal = range(min(len(found) + firsts.count(None), k))
    return sum(map(_discount, found)) / sum(map(_discount, ideal))


def _discount(index: int) -> float:
    return 1 / log2(index + 2)  # of the rank plus one


def cut_to_tokens(results: Sequence[Result], tokens: int) -> Iterator[Result]:
    """The results as far as a reader of so many tokens gets, at four characters a token."""
    left = tokens * CHARACTERS_A_TOKEN
    for result in results:
        text = result.text[:left]
        if not text:
            return
        yield Result(doc=result.doc, text=text)
        left -= len(text)


def score(
    candidates: Sequence[Result],
    kept: Sequence[Result],
    gold_any: Sequence[Gold],
    gold_all: Sequence[Gold],
) -> Mapping[str, float]:
    """Every metric of one case by its name; those that do not apply are left out.

    candidates in the order before reranking, kept as handed over. A case that nothing answers
    has only `refused`.
    """
    candidates, kept = candidates[:30], kept[:5]
    gold = [*gold_any, *gold_all]
    if not gold:
        return {"refused": float(not kept)}
    relevant = [any(hits(result, each) for each in gold) for result in kept]
    same_document = [Gold(doc=each.doc) for each in gold]
    values = {
        "recall@3": recall(kept[:3], gold_any, gold_all),
        "recall@5": recall(kept, gold_any, gold_all),
        "recall@30": recall(candidates, gold_any, gold_all),
        "recall@1200t": recall(list(cut_to_tokens(kept, 1200)), gold_any, gold_all),
        "recall@2500t": recall(list(cut_to_tokens(kept, 2500)), gold_any, gold_all),
        "doc@5": recall(
            kept,
            same_document if gold_any else [],
            [Gold(doc=each.doc) for each in gold_all],
        ),
        "mrr@5": reciprocal_rank(relevant),
        "nDCG@5": ndcg(find_firsts(kept, answers(gold_any, gold_all)), 5),
        "answered": float(bool(kept)),
    }
    if kept:
        values["precision"] = sum(relevant) / len(kept)
    return values
