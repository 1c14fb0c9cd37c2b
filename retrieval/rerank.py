"""Candidates to the evidence that their relevance is computed from."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from retrieval import search
from retrieval.late_interaction import Asked, Interaction
from retrieval.lexical import build_words, fold
from retrieval.literal import Literal
from retrieval.records import Candidate

Features = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A question's candidates with all that decides on them but the relevance model."""

    candidates: tuple[Candidate, ...]  # in the order of fusion
    features: tuple[Features, ...]  # of each reading of the question
    literal: Literal
    unknown: tuple[str, ...]  # names that it hinges on and no document mentions


class Reranker(Protocol):
    """What compares a question with each of its candidates; safe to use from several threads."""

    @property
    def name(self) -> str:
        """Differs wherever the features would: a relevance model holds for one name."""

    @property
    def ranking(self) -> Sequence[str]:
        """The names of the features that tell one candidate from another."""

    @property
    def certainty(self) -> Sequence[str]:
        """The names of those that tell, for the best candidate, whether it answers at all."""

    def measure(
        self,
        connection: Connection,
        asked: Asked,
        candidates: Sequence[Candidate],
        interactions: Mapping[int, Interaction],
    ) -> Features:
        """A row for every candidate: the features of ranking, then those of certainty."""


class LateInteraction:
    """The reranker that needs no model but the one that embeds."""

    name = "late-interaction"
    ranking = (
        "late_section",  # the question against all of the section, see Interaction
        "late_chunk",  # against its best chunk
        "cosine",  # of its nearest chunk
        "covered",  # share of the question's idf whose words stand in the section
        "named",  # … in the title and path of its document
        "identifier",  # score of the identifier leg
        "length",  # logarithm of the section's characters
    )
    certainty = (
        "rare_section",  # as late_section, each token weighted by the square root of its word's idf
        "nearness",  # the cosine
        "share",  # what is covered
        "question",  # logarithm of the question's tokens: of a long one, more finds no match
    )

    def measure(
        self,
        connection: Connection,
        asked: Asked,
        candidates: Sequence[Candidate],
        interactions: Mapping[int, Interaction],
    ) -> Features:
        """The features by what each candidate's interaction and postings tell."""
        idf = {word.stems: word.idf for word in asked.words if word.stems}
        rare = _weigh_by_rarity(asked)
        terms = frozenset(stem for stems in idf for stem in stems)
        ids = [candidate.section.section_id for candidate in candidates]
        if asked.is_counted:
            found = search.load_terms(connection, ids, terms)
        else:
            found = _read_terms(asked, candidates)
        rows = []
        for candidate in candidates:
            section = candidate.section
            interaction = interactions[section.section_id]
            identifier = candidate.hit("identifier")
            covered = _share(idf, {stems for stems in idf if stems & found[section.section_id]})
            named = set(build_words(f"{section.title} {section.path}").split())
            rows.append(
                [
                    interaction.section_score,
                    float(interaction.chunk_scores.max()),
                    interaction.cosine,
                    covered,
                    _share(
                        idf,
                        {word.stems for word in asked.words if fold(word.text) in named},
                    ),
                    identifier.score if identifier else 0.0,
                    float(np.log(len(section.text) + 1)),
                    float(interaction.similarities.max(axis=0) @ rare),
                    interaction.cosine,
                    covered,
                    float(np.log(asked.token_count + 1)),
                ]
            )
        width = len(self.ranking) + len(self.certainty)
        return np.array(rows, dtype=np.float64).reshape(-1, width)


def _read_terms(asked: Asked, candidates: Sequence[Candidate]) -> dict[int, set[str]]:
    """The stems of the words that stand in each section as they are asked, by section_id.

    Fewer than the index has: no section seems better for want of it.
    """
    found = {}
    for candidate in candidates:
        section = candidate.section
        said = set(build_words(" ".join([*section.heading_path, section.text])).split())
        held = (word.stems for word in asked.words if fold(word.text) in said)
        found[section.section_id] = {stem for stems in held for stem in stems}
    return found


def _weigh_by_rarity(asked: Asked) -> NDArray[np.float32]:
    """The weight of each question token by its word's idf; they add up to 1 or are all 0."""
    weights = np.zeros(asked.token_count, dtype=np.float32)
    for word in reversed(asked.words):  # of two words in one token the first counts
        weights[list(word.tokens)] = word.idf
    weights = np.sqrt(weights)
    return weights / max(float(weights.sum()), 1e-6)


def _share(idf: Mapping[frozenset[str], float], found: Collection[frozenset[str]]) -> float:
    """How much of the question's idf is found."""
    return sum(idf.get(stems, 0.0) for stems in found) / max(sum(idf.values()), 1e-6)
