"""What the stored token vectors of sections say about a question: late interaction.

The question's tokens are compared with all tokens of a section, each finding its best place; that
is nearly what a cross-encoder does, at the price of a product of matrices.

Source: Khattab and Zaharia, ColBERT, SIGIR 2020 (MaxSim).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from sqlalchemy import Connection, text

from retrieval import search, token_vectors
from retrieval.embedding import EmbeddedQuery
from retrieval.generations import Generation
from retrieval.lexical import find_words
from retrieval.records import Hit

# A token of a stop word, or of no word, beside 1 for the others. Cross-validated on handbook dev,
# the reranker has recall@5 0.898 with it, 0.884 where all count alike, and 0.861 where they count
# by the square root of their word's idf.
STOP_WORD_WEIGHT = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedWord:
    """A word of a question, and what the index tells of it."""

    text: str
    stems: frozenset[str]  # any of them is the word; none where it is a stop word
    idf: float  # 0 of a stop word
    tokens: tuple[int, ...]  # those of the question that it is made of, by their number


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question with its words as the index has them."""

    query: EmbeddedQuery
    words: tuple[AskedWord, ...]
    is_counted: bool = True  # or the index cannot tell how rare they are, nor where they stand

    @property
    def token_count(self) -> int:
        return len(self.query.token_spans)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interaction:
    """A question against one section."""

    chunk_ids: tuple[int, ...]  # in the section's order
    chunk_texts: tuple[str, ...]
    cosine: float  # of its nearest chunk, by their whole vectors
    similarities: NDArray[np.float32]  # (chunks, question tokens): the best of each chunk's tokens
    weights: NDArray[np.float32]  # (question tokens,); they add up to 1

    @property
    def section_score(self) -> float:
        """The mean, over the question's tokens, of the best similarity anywhere in the section."""
        return float(self.similarities.max(axis=0) @ self.weights)

    @property
    def chunk_scores(self) -> NDArray[np.float32]:
        """The same within each chunk, shape (chunks,)."""
        scores: NDArray[np.float32] = self.similarities @ self.weights
        return scores

    def best_chunks_first(self) -> tuple[int, ...]:
        """The ids of the chunks by their scores."""
        order = np.argsort(-self.chunk_scores, kind="stable")
        return tuple(self.chunk_ids[index] for index in order)


def load_asked(connection: Connection, generation: Generation, query: EmbeddedQuery) -> Asked:
    """A query with its words as the index has them."""
    words = [word.text for word in find_words(query.text)]
    return _build_asked(query, search.load_rarity(connection, words, generation))


def load_uncounted(connection: Connection, generation: Generation, query: EmbeddedQuery) -> Asked:
    """The same without a posting being read: its words are as rare as one another."""
    words = [word.text for word in find_words(query.text)]
    stems = search.load_stems(connection, words, generation)
    asked = _build_asked(query, [(each, float(bool(each))) for each in stems])
    return replace(asked, is_counted=False)


def _build_asked(query: EmbeddedQuery, rarity: Sequence[tuple[frozenset[str], float]]) -> Asked:
    return Asked(
        query=query,
        words=tuple(
            AskedWord(
                text=word.text,
                stems=stems,
                idf=idf,
                tokens=tuple(
                    number
                    for number, (start, end) in enumerate(query.token_spans)
                    if word.span[0] < end and start < word.span[1]
                ),
            )
            for word, (stems, idf) in zip(find_words(query.text), rarity, strict=True)
        ),
    )


def interact(
    connection: Connection,
    generation: Generation,
    asked: Asked,
    section_ids: Sequence[int],
) -> dict[int, Interaction]:
    """The question against every section, by section_id."""
    rows = connection.execute(
        text("""
            SELECT section_id, chunk_id, text, token_vectors, 1 - (embedding <=> :vector) AS cosine
            FROM chunks WHERE section_id = ANY(:section_ids) ORDER BY section_id, ordinal
        """),
        {"section_ids": list(section_ids), "vector": HalfVector(asked.query.embedding.vector)},
    ).all()
    projected = token_vectors.project(asked.query.embedding.token_vectors, generation.projection)
    similarities = token_vectors.max_similarities(projected, [row.token_vectors for row in rows])
    weights = _weigh(asked)
    interactions = {}
    for section_id, own in groupby(range(len(rows)), key=lambda index: rows[index].section_id):
        indexes = list(own)
        chunks = [rows[index] for index in indexes]
        interactions[section_id] = Interaction(
            chunk_ids=tuple(chunk.chunk_id for chunk in chunks),
            chunk_texts=tuple(chunk.text for chunk in chunks),
            cosine=max(float(chunk.cosine) for chunk in chunks),
            similarities=similarities[indexes],
            weights=weights,
        )
    return interactions


def rank(interactions: Mapping[int, Interaction]) -> list[Hit]:
    """The sections as hits of a leg of its own, best first: by the whole and by the best chunk."""
    scores = {
        section_id: each.section_score + float(each.chunk_scores.max())
        for section_id, each in interactions.items()
    }
    order = sorted(scores, key=lambda section_id: (-scores[section_id], section_id))
    return [
        Hit(section_id=section_id, leg="late", rank=place, score=scores[section_id])
        for place, section_id in enumerate(order, 1)
    ]


def _weigh(asked: Asked) -> NDArray[np.float32]:
    """What each token of the question counts; they add up to 1."""
    weights = np.full(asked.token_count, STOP_WORD_WEIGHT, dtype=np.float32)
    for word in asked.words:
        if word.stems:
            weights[list(word.tokens)] = 1.0
    return weights / max(float(weights.sum()), 1e-6)
