"""Questions against sections, token by token: by hand, and over the sample documents."""

from collections.abc import Sequence

import numpy as np
import pytest

from retrieval import generations, late_interaction
from retrieval.late_interaction import STOP_WORD_WEIGHT, Interaction
from retrieval.retrieve import Retriever
from tests.retrieval.pages import ask

QUESTION = "who is on call for the warehouse?"


def interaction(
    similarities: Sequence[Sequence[float]], weights: Sequence[float] = (0.5, 0.5)
) -> Interaction:
    """Chunks 10, 11, … against the tokens of a question."""
    return Interaction(
        chunk_ids=tuple(range(10, 10 + len(similarities))),
        chunk_texts=("",) * len(similarities),
        cosine=0.0,
        similarities=np.array(similarities, dtype=np.float32),
        weights=np.array(weights, dtype=np.float32),
    )


def interact(
    retriever: Retriever, question: str, section_ids: Sequence[int]
) -> dict[int, Interaction]:
    embedded = retriever.embedder.embed_query(question)
    with retriever.database.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        asked = late_interaction.load_asked(connection, generation, embedded)
        return late_interaction.interact(connection, generation, asked, section_ids)


def find_sections(retriever: Retriever, question: str) -> list[int]:
    return [each.section.section_id for each in retriever.narrow(ask(question))]


def test_each_token_finds_its_best_place_in_chunk_or_section() -> None:
    found = interaction([(0.9, 0.1), (0.2, 0.8)], weights=(0.75, 0.25))
    # 0.75 * 0.9 + 0.25 * 0.1; 0.75 * 0.2 + 0.25 * 0.8; 0.75 * 0.9 + 0.25 * 0.8
    assert found.chunk_scores == pytest.approx([0.7, 0.35])
    assert found.section_score == pytest.approx(0.875)


def test_chunks_come_best_first_and_equal_ones_in_order() -> None:
    found = interaction([(0.5, 0.5), (0.5, 0.5), (0.9, 0.9), (0.5, 0.5)])
    assert found.best_chunks_first() == (12, 10, 11, 13)


def test_sections_rank_by_the_whole_and_the_best_chunk() -> None:
    hits = late_interaction.rank(
        {
            9: interaction([(0.75, 0.375)]),  # 0.5625 + 0.5625: as much as 7
            7: interaction([(0.75, 0.0), (0.0, 0.75)]),  # 0.75 + 0.375
            5: interaction([(0.625, 0.625)]),  # 0.625 + 0.625
        }
    )
    assert [(hit.section_id, hit.leg, hit.rank) for hit in hits] == [
        (5, "late", 1),
        (7, "late", 2),
        (9, "late", 3),
    ]
    assert [hit.score for hit in hits] == pytest.approx([1.25, 1.125, 1.125])


def test_equal_sections_rank_alike_in_whatever_order_they_come() -> None:
    alike = {number: interaction([(0.5, 0.5)]) for number in (3, 1, 2)}
    assert [hit.section_id for hit in late_interaction.rank(alike)] == [1, 2, 3]


def test_nothing_ranks_of_nothing() -> None:
    assert late_interaction.rank({}) == []


def test_a_stop_word_counts_less_than_any_other(retriever: Retriever) -> None:
    (section_id, *_) = find_sections(retriever, QUESTION)
    weights = interact(retriever, QUESTION, [section_id])[section_id].weights
    spans = retriever.embedder.embed_query(QUESTION).token_spans
    by_word = {
        QUESTION[start:end]: float(weight)
        for (start, end), weight in zip(spans, weights, strict=True)
    }
    assert sum(by_word.values()) == pytest.approx(1)
    assert by_word["warehouse"] == pytest.approx(by_word["call"])
    for stop_word in ("who", "is", "on", "for", "the", "?"):
        assert by_word[stop_word] == pytest.approx(STOP_WORD_WEIGHT * by_word["call"])


def test_every_section_is_compared_by_all_its_chunks(retriever: Retriever) -> None:
    candidates = retriever.narrow(ask(QUESTION))
    found = interact(retriever, QUESTION, [each.section.section_id for each in candidates])
    assert len(found) == len(candidates) > 10
    for candidate in candidates:
        own = found[candidate.section.section_id]
        assert own.similarities.shape == (len(own.chunk_ids), len(own.weights))
        assert list(own.chunk_ids) == sorted(own.chunk_ids)
        for chunk in own.chunk_texts:
            assert all(line in candidate.section.text for line in chunk.splitlines())
        dense = candidate.hit("dense")
        if dense:
            assert own.cosine == pytest.approx(dense.score, abs=1e-3)
            assert dense.chunk_id in own.chunk_ids


def test_a_section_is_compared_alike_whatever_else_is(retriever: Retriever) -> None:
    ids = find_sections(retriever, QUESTION)
    together, backwards = (
        interact(retriever, QUESTION, ids),
        interact(retriever, QUESTION, ids[::-1]),
    )
    for section_id in ids:
        assert (together[section_id].similarities == backwards[section_id].similarities).all()
    for section_id in ids[:3]:
        alone = interact(retriever, QUESTION, [section_id])[section_id]
        assert alone.similarities == pytest.approx(together[section_id].similarities, abs=1e-5)


@pytest.mark.parametrize("question", ["", "of the", "🦩", "?!", "so on " * 500])
def test_any_question_can_be_compared(retriever: Retriever, question: str) -> None:
    ids = find_sections(retriever, QUESTION)
    found = interact(retriever, question, ids)
    assert list(found) == sorted(ids)
    for own in found.values():
        assert np.isfinite(own.section_score) and np.isfinite(own.chunk_scores).all()
    assert [hit.rank for hit in late_interaction.rank(found)] == [*range(1, len(ids) + 1)]


def test_nothing_is_compared_with_nothing(retriever: Retriever) -> None:
    assert interact(retriever, QUESTION, []) == {}
