"""Candidates judged by their evidence, over the sample documents."""

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import text

from retrieval import generations, rerank
from retrieval.relevance import FEATURES
from retrieval.retrieve import Retriever
from tests.retrieval.pages import ask

QUESTION = ask("what does err 2041 mean?")


def test_reranking_keeps_every_candidate_and_sorts_them(retriever: Retriever) -> None:
    candidates, measured = retriever.measure(QUESTION)
    embedded = retriever.embedder.embed_query(QUESTION.text)
    with retriever.database.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        found = rerank.rerank(connection, generation, embedded, candidates, retriever.model)
        assert rerank.rerank(connection, generation, embedded, [], retriever.model) == []
    expected = retriever.model.relevance(measured.features)
    assert [each.relevance for each in found] == pytest.approx(sorted(expected, reverse=True))
    assert sorted(each.section.section_id for each in found) == sorted(
        each.section.section_id for each in candidates
    )
    assert candidates[0].relevance is None  # what was given is as it was


def test_equal_relevance_keeps_the_order_given(retriever: Retriever) -> None:
    nothing_counts = replace(retriever.model, weights=dict.fromkeys(FEATURES, 0.0))
    candidates, _ = retriever.measure(QUESTION)
    found = replace(retriever, model=nothing_counts).retrieve(QUESTION).candidates
    assert [each.section for each in found] == [each.section for each in candidates]


def test_features_are_within_what_they_mean(retriever: Retriever) -> None:
    candidates, measured = retriever.measure(QUESTION)
    values = dict(zip(FEATURES, measured.features.T, strict=True))
    for name in ("late_section", "late_chunk", "rare_section", "rare_chunk"):
        assert (np.abs(values[name]) <= 1.05).all()
    # A whole section has at least what its best chunk has.
    assert (values["late_section"] >= values["late_chunk"] - 1e-5).all()
    for name in ("covered", "title"):
        assert ((values[name] >= 0) & (values[name] <= 1 + 1e-6)).all()
    with_hit = [each.hit("identifier") is not None for each in candidates]
    assert (values["identifier"] > 0).tolist() == with_hit


def test_the_chunk_that_answers_comes_first(retriever: Retriever) -> None:
    best = retriever.retrieve(QUESTION).candidates[0]
    with retriever.database.transaction() as connection:
        rows = connection.execute(
            text("SELECT chunk_id, text FROM chunks WHERE section_id = :section_id"),
            {"section_id": best.section.section_id},
        ).all()
    texts = {row.chunk_id: row.text for row in rows}
    assert sorted(best.chunk_ids) == sorted(texts) and len(texts) > 1
    assert "ERR_2041" in texts[best.chunk_ids[0]]


@pytest.mark.parametrize("question", ["", "of the", "🦩", "?!"])
def test_a_question_without_rare_words_is_judged_too(retriever: Retriever, question: str) -> None:
    candidates, measured = retriever.measure(ask(question))
    assert len(candidates) > 0
    assert np.isfinite(measured.features).all()


def test_the_same_words_count_once_however_often_they_are_typed(retriever: Retriever) -> None:
    once = retriever.measure(ask("printer printer printer"))[1].features
    covered = FEATURES.index("covered")
    assert set(np.round(once[:, covered], 6)) <= {0.0, 1.0}
