"""Metrics on rankings small enough to be worked out by hand."""

from math import log2

import pytest

from retrieval.metrics import (
    Gold,
    Result,
    cut_to_tokens,
    hits,
    ndcg,
    recall,
    reciprocal_rank,
    score,
)

SPAN = "press the red button for ten seconds"
A = Result(doc="a.md", text="First, **press** the red\nbutton for `ten` seconds. Then wait.")
B = Result(doc="b.md", text="Something else.")
C = Result(doc="c.md", text="The cap is 80 euro.")
GOLD_A, GOLD_C = Gold(doc="a.md", span=SPAN), Gold(doc="c.md", span="cap is 80")


def test_a_span_is_found_whatever_its_markup() -> None:
    assert hits(A, GOLD_A)


def test_the_document_must_be_right() -> None:
    assert not hits(Result(doc="b.md", text=A.text), GOLD_A)


def test_without_a_span_the_document_is_enough() -> None:
    assert hits(B, Gold(doc="b.md"))


def test_a_span_begins_and_ends_with_whole_words() -> None:
    assert not hits(Result(doc="c.md", text="800"), Gold(doc="c.md", span="80"))
    assert hits(Result(doc="c.md", text="retry_max count"), Gold(doc="c.md", span="RETRY MAX"))


def test_a_span_that_was_cut_counts_from_six_tenths_of_its_words() -> None:
    ten = Gold(doc="a.md", span="one two three four five six seven eight nine ten")
    assert hits(Result(doc="a.md", text="one two three four five six"), ten)
    assert not hits(Result(doc="a.md", text="one two three four five"), ten)
    assert not hits(Result(doc="a.md", text="one two three x four five six"), ten)  # two runs


def test_recall_is_of_any_or_of_all() -> None:
    assert recall([B, A], [GOLD_A, GOLD_C], []) == 1
    assert recall([B], [GOLD_A, GOLD_C], []) == 0
    assert recall([B, A], [], [GOLD_A, GOLD_C]) == 1 / 2
    assert recall([C, A], [], [GOLD_A, GOLD_C]) == 1
    assert recall([], [GOLD_A], []) == 0


def test_the_reciprocal_rank_is_of_the_first_hit() -> None:
    assert reciprocal_rank([False, True, True]) == 1 / 2
    assert reciprocal_rank([False, False]) == 0
    assert reciprocal_rank([]) == 0


def test_ndcg_discounts_by_rank() -> None:
    # Two answers at ranks 2 and 3: (1/log2(3) + 1/log2(4)) / (1/log2(2) + 1/log2(3))
    expected = (1 / log2(3) + 1 / 2) / (1 + 1 / log2(3))
    assert ndcg([2, 1], 5) == pytest.approx(expected)
    assert ndcg([0, 1], 5) == 1
    assert ndcg([None], 5) == 0


def test_ndcg_is_less_than_one_while_an_answer_is_missing() -> None:
    assert ndcg([0, None], 5) == pytest.approx(1 / (1 + 1 / log2(3)))


def test_ndcg_is_one_when_one_result_has_all_answers() -> None:
    assert ndcg([0, 0], 5) == 1


def test_the_ideal_of_ndcg_has_no_more_results_than_are_read() -> None:
    assert ndcg([0, 1, None], 2) == 1


def test_what_says_the_same_again_gains_nothing() -> None:
    values = score([A, A], [A, A], [], [GOLD_A, GOLD_C])
    assert values["nDCG@5"] == pytest.approx(1 / (1 + 1 / log2(3)))
    assert (values["recall@5"], values["precision"]) == (1 / 2, 1)
    # One of gold_any is all of the answer.
    assert score([B, A, A], [B, A, A], [GOLD_A, GOLD_C], [])["nDCG@5"] == pytest.approx(1 / log2(3))


def test_a_reader_of_so_many_tokens_gets_so_far() -> None:
    results = [Result(doc="a.md", text="x" * 30), Result(doc="b.md", text="y" * 30), B]
    read = list(cut_to_tokens(results, 10))  # 40 characters
    assert [(each.doc, len(each.text)) for each in read] == [("a.md", 30), ("b.md", 10)]
    assert list(cut_to_tokens([], 10)) == []


def test_a_case_has_every_metric() -> None:
    values = score([B, C, A], [B, A], [GOLD_A], [])
    assert values == {
        "recall@3": 1,
        "recall@5": 1,
        "recall@30": 1,
        "recall@1200t": 1,
        "recall@2500t": 1,
        "doc@5": 1,
        "mrr@5": 1 / 2,
        "nDCG@5": pytest.approx(1 / log2(3)),
        "answered": 1,
        "precision": 1 / 2,
    }


def test_only_five_of_what_is_kept_and_thirty_candidates_count() -> None:
    values = score([B] * 30 + [A], [B] * 5 + [A], [GOLD_A], [])
    assert (values["recall@5"], values["recall@30"], values["mrr@5"]) == (0, 0, 0)


def test_recall_counts_the_first_three_and_the_first_five() -> None:
    values = score([B] * 3 + [A], [B] * 3 + [A], [GOLD_A], [])
    assert (values["recall@3"], values["recall@5"]) == (0, 1)


def test_the_right_document_without_the_span_is_told_apart() -> None:
    wrong_part = Result(doc="a.md", text="nothing of it")
    values = score([wrong_part], [wrong_part], [GOLD_A], [])
    assert (values["recall@5"], values["doc@5"]) == (0, 1)


def test_a_refused_case_with_an_answer_is_a_false_abstention() -> None:
    values = score([A], [], [GOLD_A], [])
    assert (values["recall@5"], values["recall@30"], values["answered"]) == (0, 1, 0)
    assert "precision" not in values


def test_a_case_that_nothing_answers_is_only_refused_or_not() -> None:
    assert score([A, B], [], [], []) == {"refused": 1}
    assert score([A, B], [A], [], []) == {"refused": 0}
