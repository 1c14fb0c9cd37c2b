"""Candidates to the same candidates with a calibrated relevance, best first.

Late interaction over the stored token vectors of each candidate's chunks, and a small logistic
model over that and other honest features.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from retrieval import search, token_vectors
from retrieval.embedding import EmbeddedQuery
from retrieval.generations import Generation
from retrieval.lexical import build_words
from retrieval.records import Candidate
from retrieval.relevance import FEATURES, Features, RelevanceModel

_WORD = re.compile(r"[^\W_]+")


def rerank(
    connection: Connection,
    generation: Generation,
    query: EmbeddedQuery,
    candidates: Sequence[Candidate],
    model: RelevanceModel,
) -> list[Candidate]:
    """Every candidate with its relevance and its chunks' ids, the best chunk first.

    Best first; equal relevance keeps the order given. No candidates: an empty list.
    """
    measured = measure(connection, generation, query, candidates)
    relevance = model.relevance(measured.features)
    reranked = [
        replace(candidate, relevance=float(value), chunk_ids=measured.chunk_ids[index])
        for index, (candidate, value) in enumerate(zip(candidates, relevance, strict=True))
    ]
    return sorted(reranked, key=lambda candidate: -(candidate.relevance or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the relevance of some candidates is computed from, in their order."""

    features: Features  # (candidates, FEATURES)
    chunk_ids: list[tuple[int, ...]]  # of each candidate, best first


def measure(
    connection: Connection,
    generation: Generation,
    query: EmbeddedQuery,
    candidates: Sequence[Candidate],
) -> Measured:
    """The features of every candidate."""
    words = list(_WORD.finditer(query.text))
    rarity = search.load_rarity(connection, [word.group() for word in words], generation)
    weights = _token_weights(query, [word.span() for word in words], [idf for _, idf in rarity])
    ids = [candidate.section.section_id for candidate in candidates]
    loaded = _load_chunks(connection, ids)
    chunks = [loaded[section_id] for section_id in ids]
    found = _load_terms(connection, ids, [stem for stem, _ in rarity])
    asked = set(build_words(query.text).split())
    projected = token_vectors.project(query.embedding.token_vectors, generation.projection)
    similar = _split_by_section(
        token_vectors.max_similarities(
            projected, [vectors for own in chunks for _, vectors in own]
        ),
        [len(own) for own in chunks],
    )
    features, chunk_ids = [], []
    for candidate, own, best in zip(candidates, chunks, similar, strict=True):
        section = candidate.section
        late, rare = best @ weights["late"], best @ weights["rare"]
        whole = best.max(axis=0)
        identifier = candidate.hit("identifier")
        values = {
            "late_section": float(whole @ weights["late"]),
            "late_chunk": float(late.max()),
            "rare_section": float(whole @ weights["rare"]),
            "rare_chunk": float(rare.max()),
            "covered": _covered(dict(rarity), found[section.section_id]),
            "title": _share(set(build_words(section.title).split()), asked),
            "identifier": identifier.score if identifier else 0.0,
            "length": float(np.log(len(section.text) + 1)),
        }
        features.append([values[name] for name in FEATURES])
        chunk_ids.append(tuple(own[index][0] for index in np.argsort(-late, kind="stable")))
    return Measured(
        features=np.array(features, dtype=np.float64).reshape(-1, len(FEATURES)),
        chunk_ids=chunk_ids,
    )


def _split_by_section(
    rows: NDArray[np.float32], counts: Sequence[int]
) -> list[NDArray[np.float32]]:
    return np.split(rows, np.cumsum(counts)[:-1]) if counts else []


def _token_weights(
    query: EmbeddedQuery, words: Sequence[tuple[int, int]], idf: Sequence[float]
) -> Mapping[str, NDArray[np.float32]]:
    """The weight of each query token, all alike and by rarity; each adds up to 1 or is all 0."""
    rare = [
        next(
            (value for (a, b), value in zip(words, idf, strict=True) if a < end and b > start), 0.0
        )
        for start, end in query.token_spans
    ]
    return {
        "late": _normalise(np.ones(len(rare), dtype=np.float32)),
        "rare": _normalise(np.sqrt(np.array(rare, dtype=np.float32))),
    }


def _normalise(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    return weights / max(float(weights.sum()), 1e-6)


def _load_chunks(
    connection: Connection, section_ids: Sequence[int]
) -> Mapping[int, list[tuple[int, bytes]]]:
    rows = connection.execute(
        text("""
            SELECT section_id, chunk_id, token_vectors FROM chunks
            WHERE section_id = ANY(:section_ids) ORDER BY section_id, ordinal
        """),
        {"section_ids": list(section_ids)},
    )
    chunks: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for row in rows:
        chunks[row.section_id].append((row.chunk_id, row.token_vectors))
    return chunks


def _load_terms(
    connection: Connection, section_ids: Sequence[int], stems: Sequence[str]
) -> Mapping[int, set[str]]:
    """Which of the stems stand in each section."""
    rows = connection.execute(
        text("""
            SELECT section_id, term FROM lexical_postings
            WHERE section_id = ANY(:section_ids) AND term = ANY(:stems)
        """),
        {"section_ids": list(section_ids), "stems": list(stems)},
    )
    found: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        found[row.section_id].add(row.term)
    return found


def _covered(idf: Mapping[str, float], found: set[str]) -> float:
    return sum(idf[stem] for stem in found) / max(sum(idf.values()), 1e-6)


def _share(words: set[str], asked: set[str]) -> float:
    return len(words & asked) / max(len(words), 1)
