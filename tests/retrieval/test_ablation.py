"""Stages of the search, each run for itself."""

from typing import Literal

import pytest

from retrieval import ablation, evaluation
from retrieval.ablation import Found
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase, read_result
from retrieval.metrics import Gold, Result
from retrieval.records import Query, Turn
from retrieval.retrieve import Retriever

QUERY = Query(text="what does err 2041 mean?", question="what does err 2041 mean?")
OFF_TOPIC = Query(text="who wrote Aida?", question="who wrote Aida?")


def ignore(done: int, total: int) -> None:
    """No progress to show."""


def case(case_id: str, doc: str | None) -> EvalCase:
    gold = (Gold(doc=doc),) if doc else ()
    turns = (Turn(speaker="user", text=case_id),)
    return EvalCase(case_id=case_id, type="t", turns=turns, gold_any=gold, gold_all=())


def test_a_stage_is_measured_on_the_cases_that_have_an_answer() -> None:
    found = {
        "a": Found(
            candidates=[Result(doc="a.md", text="")],
            kept=[Result(doc="b.md", text=""), Result(doc="a.md", text="")],
        ),
        "b": Found(candidates=[], kept=[]),
        "c": Found(candidates=[Result(doc="c.md", text="")], kept=[]),
    }
    queries = [
        (case(name, None if name == "none" else f"{name}.md"), Query(text=name, question=name))
        for name in ("a", "b", "c", "none")
    ]
    row = ablation.measure("some", lambda query: found[query.text], queries)
    assert row.values == {"recall@5": 0.3333, "recall@30": 0.6667, "mrr@5": 0.1667}
    assert row.stage == "some" and row.median_ms >= 0
    with pytest.raises(ConfigError, match="No case has an answer"):
        ablation.measure("some", lambda query: found[query.text], queries[-1:])


@pytest.mark.parametrize("leg", ["dense", "lexical"])
def test_a_leg_alone_finds_what_it_finds_among_the_others(
    retriever: Retriever, leg: Literal["dense", "lexical"]
) -> None:
    ranked = {
        hit.rank: read_result(candidate)
        for candidate in retriever.search(QUERY)
        if (hit := candidate.hit(leg))
    }
    found = ablation.search_legs(retriever, leg)(QUERY)
    assert found.candidates == [ranked[rank] for rank in sorted(ranked)]
    assert found.kept == found.candidates[:5]


def test_two_legs_are_fused(retriever: Retriever) -> None:
    dense, lexical, both = (
        ablation.search_legs(retriever, *legs)(QUERY)
        for legs in (("dense",), ("lexical",), ("dense", "lexical"))
    )
    every = {each.text for each in (*dense.candidates, *lexical.candidates)}
    assert {each.text for each in both.candidates} == every
    assert both.candidates not in (dense.candidates, lexical.candidates)


def test_each_stage_orders_candidates_as_the_search_does(retriever: Retriever) -> None:
    retrieval = retriever.retrieve(QUERY)
    fused = [read_result(each) for each in evaluation.fused_order(retrieval.candidates)]
    assert ablation.narrow(retriever)(QUERY).candidates == fused
    reranked = ablation.rerank(retriever)(QUERY)
    assert reranked.candidates == fused
    assert reranked.kept == [read_result(each) for each in retrieval.candidates[:5]]
    whole = ablation.retrieve(retriever)(QUERY)
    assert whole.candidates == fused
    assert whole.kept == [read_result(each) for each in retrieval.kept]
    every = ablation.search_all_legs(retriever)(QUERY)
    assert {each.text for each in every.candidates} >= {each.text for each in fused}


def test_only_the_last_stage_refuses(retriever: Retriever) -> None:
    assert len(ablation.rerank(retriever)(OFF_TOPIC).kept) == 5
    assert ablation.retrieve(retriever)(OFF_TOPIC).kept == []


def test_windows_are_of_so_many_tokens_and_leave_nothing_out(embedder: Embedder) -> None:
    text = "Wait for the queue to drain, then restart.\n\n| a | b |\n" * 100
    windows = ablation.cut_to_windows(Result(doc="a.md", text=text), embedder)
    assert "".join(window.text for window in windows) == text
    sizes = [len(embedder.token_starts(window.text)) for window in windows]
    assert set(sizes[:-1]) == {ablation.WINDOW_TOKENS} and 0 < sizes[-1] <= ablation.WINDOW_TOKENS
    assert {window.doc for window in windows} == {"a.md"}
    short = Result(doc="b.md", text="Short.")
    assert ablation.cut_to_windows(short, embedder) == [short]


def test_the_tutorial_searches_windows_of_all_documents(retriever: Retriever) -> None:
    done: list[tuple[int, int]] = []
    stage = ablation.search_windows(retriever, lambda *counts: done.append(counts))
    found = stage(QUERY)
    assert done[-1][0] == done[-1][1] >= 35  # documents in the sample
    assert "reference/error-codes.md" in {each.doc for each in found.kept}
    assert len(found.kept) == 5 and found.kept == found.candidates[:5]


def test_an_empty_index_is_told(retriever: Retriever) -> None:
    with retriever.database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM generations")
    with pytest.raises(ConfigError, match="Nothing is indexed"):
        ablation.search_legs(retriever, "dense")(QUERY)
