"""What each stage of the search brings: the same cases through more and more of it.

Every stage is run by the code that answers questions, with what comes after it left out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Literal

import numpy as np
from sqlalchemy import text

from retrieval import fusion, metrics, search
from retrieval.embedding import Embedder, Vectors
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase, fused_order, read_result
from retrieval.metrics import Result
from retrieval.records import Candidate, Hit, Query
from retrieval.retrieve import Retriever

WINDOW_TOKENS = 512  # what tutorials cut documents into
BATCH = 64  # windows embedded at once; the vectors of their tokens are not kept

Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a stage finds for one query, as the metrics take it."""

    candidates: Sequence[Result]  # in the order before reranking
    kept: Sequence[Result]


Stage = Callable[[Query], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One stage over all cases that have an answer."""

    stage: str
    values: Mapping[str, float]  # means, rounded as those of a run are
    median_ms: float  # from a query's text to what is kept


def measure(name: str, stage: Stage, queries: Sequence[tuple[EvalCase, Query]]) -> Row:
    """What a stage is worth on cases, each with its query; those without an answer do not count.

    Raises ConfigError when no case has one.
    """
    asked = [(case, query) for case, query in queries if case.answers]
    if not asked:
        raise ConfigError("No case has an answer, so no stage can be measured.")
    times, values = [], []
    for case, query in asked:
        start = perf_counter()
        found = stage(query)
        times.append((perf_counter() - start) * 1000)
        values.append(metrics.score(found.candidates, found.kept, case.gold_any, case.gold_all))
    return Row(
        stage=name,
        values={
            metric: round(sum(each[metric] for each in values) / len(values), 4)
            for metric in ("recall@5", "recall@30", "mrr@5")
        },
        median_ms=round(median(times), 1),
    )


def search_legs(retriever: Retriever, *legs: Literal["dense", "lexical"]) -> Stage:
    """One leg, or the two fused, without what else the search has."""

    def stage(query: Query) -> Found:
        embedded = retriever.embedder.embed_query(query.text)
        with retriever.opened() as (connection, generation):
            hits: list[list[Hit]] = []
            if "dense" in legs:
                vector = embedded.embedding.vector
                hits.append(search.dense(connection, vector, generation, retriever.tuning))
            if "lexical" in legs:
                hits.append(search.lexical(connection, query.text, generation, retriever.tuning))
            fused = fusion.fuse(hits, rrf_k=retriever.tuning.rrf_k, weights={})
            ids = [found[0].section_id for found, _ in fused]
            sections = search.load_sections(connection, ids)
        results = [Result(doc=sections[each].path, text=sections[each].text) for each in ids]
        return Found(candidates=results, kept=results[: retriever.tuning.keep])

    return stage


def search_all_legs(retriever: Retriever) -> Stage:
    """All legs, fused."""
    return lambda query: _take_first(retriever.search(query), retriever)


def narrow(retriever: Retriever) -> Stage:
    """All legs, fused once more with the ranks of late interaction."""
    return lambda query: _take_first(retriever.narrow(query), retriever)


def rerank(retriever: Retriever) -> Stage:
    """The most relevant candidates, whatever their relevance is."""

    def stage(query: Query) -> Found:
        candidates = retriever.retrieve(query).candidates
        kept = _read(candidates[: retriever.tuning.keep])
        return Found(candidates=_read(fused_order(candidates)), kept=kept)

    return stage


def retrieve(retriever: Retriever) -> Stage:
    """The whole search."""

    def stage(query: Query) -> Found:
        retrieval = retriever.retrieve(query)
        candidates = _read(fused_order(retrieval.candidates))
        return Found(candidates=candidates, kept=_read(retrieval.kept))

    return stage


def search_windows(retriever: Retriever, progress: Progress) -> Stage:
    """The search of a tutorial: documents in windows of tokens, by one vector for each.

    Embeds every document of the index, which takes minutes; of a window the model reads as much
    as it was made for.
    """
    embedder = retriever.embedder
    windows = [
        window
        for document in _load_documents(retriever)
        for window in cut_to_windows(document, embedder)
    ]
    vectors = _embed([window.text for window in windows], embedder, progress)

    def stage(query: Query) -> Found:
        embedded = embedder.embed_query(query.text)
        order = np.argsort(-(vectors @ embedded.embedding.vector), kind="stable")
        results = [windows[index] for index in order[: retriever.tuning.candidates]]
        return Found(candidates=results, kept=results[: retriever.tuning.keep])

    return stage


def cut_to_windows(document: Result, embedder: Embedder) -> list[Result]:
    """A document in pieces of WINDOW_TOKENS tokens, wherever that cuts; the last may be shorter."""
    starts = embedder.token_starts(document.text)[WINDOW_TOKENS::WINDOW_TOKENS]
    cuts = [0, *starts, len(document.text)]
    return [Result(doc=document.doc, text=document.text[a:b]) for a, b in pairwise(cuts)]


def _load_documents(retriever: Retriever) -> list[Result]:
    with retriever.database.snapshot() as connection:
        rows = connection.execute(text("SELECT path, text FROM documents ORDER BY document_id"))
        return [Result(doc=row.path, text=row.text) for row in rows]


def _embed(texts: Sequence[str], embedder: Embedder, progress: Progress) -> Vectors:
    """The vectors of the texts, shape (len(texts), dimension)."""
    vectors: list[Vectors] = []
    for start in range(0, len(texts), BATCH):
        embedded = embedder.embed_documents(texts[start : start + BATCH])
        vectors += [each.vector for each in embedded]
        progress(len(vectors), len(texts))
    return np.array(vectors, dtype=np.float32).reshape(-1, embedder.dimension)


def _take_first(candidates: Sequence[Candidate], retriever: Retriever) -> Found:
    results = _read(candidates)
    return Found(candidates=results, kept=results[: retriever.tuning.keep])


def _read(candidates: Iterable[Candidate]) -> list[Result]:
    return list(map(read_result, candidates))
