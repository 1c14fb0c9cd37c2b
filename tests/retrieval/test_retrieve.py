"""The whole search, over the sample documents."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from retrieval import relevance
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError, IndexMismatch
from retrieval.retrieve import Clock, Retriever
from retrieval.tuning import DEFAULT
from tests.retrieval.pages import ask, build_retriever, ingest, page

QUESTION = ask("what does err 2041 mean?")


def test_every_stage_tells_its_time_and_settings(retriever: Retriever) -> None:
    found = retriever.retrieve(QUESTION)
    stages = ["embed", "dense", "lexical", "identifier", "fuse", "rerank"]
    assert list(found.stage_ms) == stages
    assert all(ms >= 0 for ms in found.stage_ms.values())
    assert found.settings["embedder"] == "all-MiniLM-L6-v2"
    assert found.settings["chunker"] == "1.1/900/180/128"
    assert found.settings["rrf_k"] == 60
    model = relevance.load_packaged(retriever.basis)
    assert model is not None
    assert found.settings["reranker"] == "late-interaction"
    assert found.settings["floor"] == model.floor
    assert found.settings["relevance_fitted_on"] == model.fitted_on
    assert isinstance(found.settings["generation_id"], int)


def test_candidates_come_best_first_with_all_their_evidence(retriever: Retriever) -> None:
    found = retriever.retrieve(QUESTION)
    relevance = [candidate.relevance or 0 for candidate in found.candidates]
    assert relevance == sorted(relevance, reverse=True)
    assert len({candidate.section.section_id for candidate in found.candidates}) == len(relevance)
    by_path = {candidate.section.path: candidate for candidate in found.candidates[:3]}
    best = by_path["reference/error-codes.md"]
    legs = {hit.leg: hit.rank for hit in best.hits}
    assert set(legs) == {"dense", "lexical", "identifier"}
    assert best.rrf_score == pytest.approx(sum(1 / (60 + rank) for rank in legs.values()))
    assert best.chunk_ids and best.section.url.startswith("https://wiki.halvermeer.example/")


def test_at_most_five_are_kept_and_none_far_below_the_best(retriever: Retriever) -> None:
    found = retriever.retrieve(QUESTION)
    assert 1 <= len(found.kept) <= 5
    assert found.kept == found.candidates[: len(found.kept)]
    best = found.kept[0].relevance or 0
    assert all((each.relevance or 0) >= DEFAULT.keep_ratio * best for each in found.kept)
    only = replace(retriever, tuning=replace(DEFAULT, keep_ratio=1.0)).retrieve(QUESTION)
    assert only.kept == found.kept[:1]


def test_no_more_candidates_are_reranked_than_asked(retriever: Retriever) -> None:
    few = replace(retriever, tuning=replace(DEFAULT, candidates=7, keep=2))
    found = few.retrieve(QUESTION)
    assert (len(found.candidates), len(found.kept)) == (7, 2)


def test_an_index_without_documents_finds_nothing(database: Database, embedder: Embedder) -> None:
    found = build_retriever(database, embedder).retrieve(QUESTION)
    assert (found.candidates, found.kept, dict(found.settings)) == ((), (), {})
    assert list(found.stage_ms) == ["embed"]


def test_another_chunker_is_told_not_searched(retriever: Retriever) -> None:
    other = replace(retriever, tuning=replace(DEFAULT, section_tokens=500))
    with pytest.raises(IndexMismatch, match=r"1.1/900/180/128 is now 1.1/500/180/128\. Run"):
        other.retrieve(QUESTION)


def test_other_tenants_documents_are_not_found(indexed_url: str, retriever: Retriever) -> None:
    other = Database(indexed_url, tenant_id="other")
    assert replace(retriever, database=other).retrieve(QUESTION).candidates == ()
    other.close()


def test_the_same_question_gives_the_same_result(retriever: Retriever) -> None:
    once, again = (retriever.retrieve(QUESTION) for _ in range(2))
    assert once.candidates == again.candidates


def test_measured_candidates_are_those_of_a_search_in_the_order_of_fusion(
    retriever: Retriever,
) -> None:
    candidates, measured = retriever.measure(QUESTION)
    found = retriever.retrieve(QUESTION).candidates
    assert {each.section.section_id for each in candidates} == {
        each.section.section_id for each in found
    }
    scores = [candidate.rrf_score for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
    assert measured.features.shape == (len(candidates), 8)


def test_measuring_without_an_index_is_an_error(database: Database, embedder: Embedder) -> None:
    with pytest.raises(ConfigError, match="Nothing is indexed"):
        build_retriever(database, embedder).measure(QUESTION)


def test_a_stage_that_fails_is_timed_too() -> None:
    clock = Clock()
    with pytest.raises(ZeroDivisionError), clock.stage("rerank"):
        _ = 1 / 0
    assert list(clock.stage_ms) == ["rerank"]


def test_a_question_asked_while_pages_change_sees_them_all_old(
    database: Database, embedder: Embedder
) -> None:
    old = page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n")
    ingest(database, embedder, old)
    changed: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def change_meanwhile(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if "identifier_postings" in statement and "asked" in statement and not changed:
            changed.append("now")
            ingest(
                database, embedder, page("leave.md", "# Leave\n\nYou have 30 days of leave now.\n")
            )

    found = build_retriever(database, embedder).retrieve(ask("how many days of leave?"))
    assert changed
    assert ["28 days" in candidate.section.text for candidate in found.candidates] == [True]
