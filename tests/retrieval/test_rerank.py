"""The evidence of late interaction, over the sample documents."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import text

from retrieval import generations, relevance
from retrieval.late_interaction import load_asked
from retrieval.records import Candidate, Query
from retrieval.rerank import LateInteraction
from retrieval.retrieve import Retriever
from tests.retrieval.pages import ask

QUESTION = ask("what does err 2041 mean?")
NAMES = (*LateInteraction.ranking, *LateInteraction.certainty)


def measure(
    retriever: Retriever, query: Query
) -> tuple[tuple[Candidate, ...], Mapping[str, NDArray[np.float64]]]:
    """The candidates and, by name, the values of their features."""
    measured = retriever.measure(query)
    (features,) = measured.features
    return measured.candidates, dict(zip(NAMES, features.T, strict=True))


def test_a_search_ranks_the_candidates_by_what_was_measured(retriever: Retriever) -> None:
    question = ask("who is on call for the warehouse?")  # without an identifier that goes first
    measured = retriever.measure(question)
    (features,) = measured.features
    model = relevance.load_packaged(retriever.basis)
    assert model is not None
    expected = model.relevance(features)
    order = np.argsort(-model.scores(features), kind="stable")
    found = retriever.retrieve(question).candidates
    assert [each.section.section_id for each in found] == [
        measured.candidates[index].section.section_id for index in order
    ]
    assert [each.relevance for each in found] == pytest.approx(expected[order])


def test_equal_scores_keep_the_order_of_fusion(retriever: Retriever) -> None:
    question = ask("who is on call for the warehouse?")
    model = relevance.load_packaged(retriever.basis)
    assert model is not None
    alike = dict.fromkeys(LateInteraction.ranking, 0.0)
    with retriever.database.transaction() as connection:
        relevance.save(connection, replace(model, weights=alike))
    found = retriever.retrieve(question).candidates
    fused = retriever.measure(question).candidates
    assert [each.section for each in found] == [each.section for each in fused]


def test_nothing_is_measured_of_nothing(retriever: Retriever) -> None:
    embedded = retriever.embedder.embed_query(QUESTION.text)
    with retriever.database.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        asked = load_asked(connection, generation, embedded)
        features = retriever.reranker.measure(connection, asked, [], {})
    assert features.shape == (0, len(NAMES))


def test_features_are_within_what_they_mean(retriever: Retriever) -> None:
    candidates, values = measure(retriever, QUESTION)
    for name in ("late_section", "late_chunk", "cosine", "rare_section"):
        assert (np.abs(values[name]) <= 1.05).all()
    # A whole section has at least what its best chunk has.
    assert (values["late_section"] >= values["late_chunk"] - 1e-5).all()
    for name in ("covered", "named"):
        assert ((values[name] >= 0) & (values[name] <= 1 + 1e-6)).all()
    with_hit = [each.hit("identifier") is not None for each in candidates]
    assert (values["identifier"] > 0).tolist() == with_hit
    assert values["length"] == pytest.approx(
        [np.log(len(each.section.text) + 1) for each in candidates]
    )
    assert values["nearness"].tolist() == values["cosine"].tolist()
    assert values["share"].tolist() == values["covered"].tolist()
    assert len(set(values["question"])) == 1


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
    candidates, values = measure(retriever, ask(question))
    assert len(candidates) > 0
    assert all(np.isfinite(each).all() for each in values.values())


def test_the_same_words_count_once_however_often_they_are_typed(retriever: Retriever) -> None:
    _, values = measure(retriever, ask("printer printer printer"))
    assert set(np.round(values["covered"], 6)) == {0.0, 1.0}


def test_a_word_of_title_or_path_names_the_page(retriever: Retriever) -> None:
    candidates, values = measure(retriever, ask("on the expenses of travel"))
    for candidate, value in zip(candidates, values["named"], strict=True):
        if "policies/travel-and-expenses" in candidate.section.path:
            assert value == pytest.approx(1)  # on, the and of are stop words
        elif not {"expenses", "travel"} & set(candidate.section.path.replace("-", " ").split()):
            assert value < 1
