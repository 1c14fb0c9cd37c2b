"""Eval cases read, scored and told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retrieval import evaluation
from retrieval.errors import ConfigError
from retrieval.evaluation import CaseResult, EvalCase, Trail
from retrieval.metrics import Gold
from retrieval.records import Candidate, Hit, Leg, Query, Retrieval, Turn
from retrieval.retrieve import Retriever
from tests.retrieval.candidates import candidate

QUERY = Query(text="q", question="q")
NOTHING = Retrieval(query=QUERY, candidates=(), kept=())

ROW = {
    "id": "c1",
    "type": "table",
    "question": "and sundays?",
    "history": [{"role": "user", "text": "on call?"}, {"role": "bot", "text": "€32 [1]."}],
    "gold_any": [{"doc": "a.md", "span": "€64"}, {"doc": "b.md"}],
    "gold_all": [],
    "answer": "€64",
}


def write(folder: Path, *lines: str) -> Path:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def case(case_id: str = "c1", *, kind: str = "table", answerable: bool = True) -> EvalCase:
    return EvalCase(
        case_id=case_id,
        type=kind,
        turns=(Turn(speaker="user", text="q"),),
        gold_any=(Gold(doc="a.md", span="the answer"),) if answerable else (),
        gold_all=(),
    )


def result(case_id: str, *, kind: str = "table", **values: float) -> CaseResult:
    return CaseResult(case=case(case_id, kind=kind), retrieval=NOTHING, values=values)


def hit(leg: Leg, rank: int, *, wording: int = 0) -> Hit:
    return Hit(section_id=1, leg=leg, rank=rank, score=1.0, wording=wording)


def test_a_case_is_read_with_its_history() -> None:
    found = evaluation.parse_case(ROW)
    assert found.turns == (
        Turn(speaker="user", text="on call?"),
        Turn(speaker="bot", text="€32 [1]."),
        Turn(speaker="user", text="and sundays?"),
    )
    assert found.gold_any == (Gold(doc="a.md", span="€64"), Gold(doc="b.md", span=None))
    assert (found.case_id, found.type, found.gold_all) == ("c1", "table", ())


@pytest.mark.parametrize("role", ["bot", "assistant"])
def test_the_bot_has_two_names(role: str) -> None:
    row = {**ROW, "history": [{"role": role, "text": "Hello."}]}
    assert evaluation.parse_case(row).turns[0].speaker == "bot"


def test_cases_are_a_line_each(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(ROW), "", json.dumps({**ROW, "id": 2}), "")
    assert [each.case_id for each in evaluation.load_cases(path)] == ["c1", "2"]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    question = "one\u2028two\u2029three\x85four?"
    path = write(tmp_path, json.dumps({**ROW, "question": question}, ensure_ascii=False))
    (case,) = evaluation.load_cases(path)
    assert case.question == question


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "3",
        '"text"',
        "null",
        json.dumps({**ROW, "gold_any": ["a.md"]}),
        json.dumps({**ROW, "gold_any": [{"span": "x"}]}),
        json.dumps({**ROW, "history": "before"}),
        json.dumps({**ROW, "question": None}),
        json.dumps({**ROW, "gold_any": [{"doc": "a.md", "span": 64}]}),
        json.dumps({name: ROW[name] for name in ("id", "type")}),
    ],
)
def test_a_line_that_is_no_case_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, json.dumps(ROW), "", line)
    with pytest.raises(ConfigError, match=r"cases\.jsonl line 3 is not a case"):
        evaluation.load_cases(path)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"type": "all"}, "all stands for the cases of every type"),
        ({"question": ""}, "the question is blank"),
        ({"question": " \n"}, "the question is blank"),
        ({"gold_any": [{"doc": "a.md", "span": ""}]}, "a span holds no word"),
        ({"gold_all": [{"doc": "a.md", "span": " "}]}, "a span holds no word"),
        ({"gold_any": [{"doc": "a.md", "span": "| — |"}]}, "a span holds no word"),
        (
            {"history": [{"role": "system", "text": "x"}]},
            "a role in the history is one of user, bot, assistant",
        ),
    ],
)
def test_a_case_that_cannot_be_measured_is_refused(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    path = write(tmp_path, json.dumps(ROW), json.dumps({**ROW, "id": "c2", **changed}))
    with pytest.raises(ConfigError, match=rf"cases\.jsonl line 2: {told}") as refusal:
        evaluation.load_cases(path)
    assert ROW["question"] not in str(refusal.value)


def test_a_file_without_cases_or_without_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no case"):
        evaluation.load_cases(write(tmp_path, "", " "))
    with pytest.raises(ConfigError, match="cannot be read as cases"):
        evaluation.load_cases(tmp_path)
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UnicodeDecodeError"):
        evaluation.load_cases(tmp_path / "latin")


def test_a_result_has_the_order_before_and_after_reranking() -> None:
    first = candidate(1, path="b.md", text="no", rrf_score=0.03, relevance=0.1)
    second = candidate(2, path="a.md", text="the answer", rrf_score=0.02, relevance=0.9)
    retrieval = Retrieval(query=QUERY, candidates=(second, first), kept=(second,))
    found = evaluation.build_result(case(), retrieval)
    assert (found.values["recall@5"], found.values["mrr@5"]) == (1, 1)
    assert evaluation.build_dump_row(found) == {
        "id": "c1",
        "candidates": [{"doc": "b.md", "text": "no"}, {"doc": "a.md", "text": "the answer"}],
        "kept": [{"doc": "a.md", "text": "the answer"}],
    }


def test_means_are_over_the_cases_that_have_the_metric() -> None:
    results = [
        result("1", **{"recall@5": 1.0, "precision": 0.5}),
        result("2", **{"recall@5": 0.0}),
        result("3", kind="unanswerable", refused=1.0),
    ]
    means = evaluation.means(results)
    assert means == {
        "all": {"cases": 3, "recall@5": 1 / 2, "precision": 0.5, "refused": 1.0},
        "table": {"cases": 2, "recall@5": 1 / 2, "precision": 0.5},
        "unanswerable": {"cases": 1, "refused": 1.0},
    }


def test_means_have_four_digits() -> None:
    results = [result(str(number), **{"recall@5": float(number < 2)}) for number in range(3)]
    assert evaluation.means(results)["all"]["recall@5"] == 0.6667


def test_candidates_are_in_the_order_of_fusion_where_their_scores_are_equal() -> None:
    found = [
        candidate(1, path="second wording.md", rrf_score=0.1, hits=(hit("dense", 1, wording=1),)),
        candidate(2, path="identifier.md", rrf_score=0.1, hits=(hit("identifier", 4),)),
        candidate(3, path="dense.md", rrf_score=0.1, hits=(hit("dense", 4), hit("lexical", 1))),
        candidate(4, path="best.md", rrf_score=0.2, hits=(hit("lexical", 9),)),
        candidate(5, path="lexical.md", rrf_score=0.1, hits=(hit("lexical", 3),)),
    ]
    assert [each.section.path for each in evaluation.fused_order(found)] == [
        *("best.md", "dense.md", "lexical.md", "identifier.md", "second wording.md"),
    ]


def test_a_case_without_a_span_is_quoted_whatever_is_said() -> None:
    found = replace(case(), gold_any=(), gold_all=(Gold(doc="a.md"), Gold(doc="b.md", span="x y")))
    values = evaluation.build_result(found, NOTHING, "nothing of it").values
    assert values["quoted"] == 1 / 2
    assert "quoted" not in evaluation.build_result(found, NOTHING).values


def test_only_the_first_words_of_an_answer_are_read() -> None:
    assert (
        evaluation.build_result(case(), NOTHING, "word " * 148 + "the answer").values["quoted"] == 1
    )
    assert (
        evaluation.build_result(case(), NOTHING, "word " * 149 + "the answer").values["quoted"] == 0
    )


def test_an_id_stands_once_in_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(ROW), json.dumps({**ROW, "question": "another?"}))
    with pytest.raises(ConfigError, match=r"cases\.jsonl line 2 has the id of a case before it"):
        evaluation.load_cases(path)


def test_a_set_is_named_after_its_file_and_folder(tmp_path: Path) -> None:
    assert evaluation.name_cases(tmp_path / "handbook" / "dev.jsonl") == "handbook/dev"


@pytest.mark.parametrize(
    "changed",
    [
        {"question": "and mondays?"},
        {"history": []},
        {"gold_any": [{"doc": "a.md", "span": "€63"}]},
        {"gold_any": [], "gold_all": ROW["gold_any"]},
    ],
)
def test_a_case_is_another_with_another_question_or_gold(changed: dict[str, Any]) -> None:
    digest = evaluation.parse_case(ROW).digest
    assert evaluation.parse_case({**ROW, "type": "list", "answer": "64"}).digest == digest
    assert evaluation.parse_case({**ROW, **changed}).digest != digest


def test_the_source_of_a_page_is_read_and_changes_nothing_that_is_measured() -> None:
    case = evaluation.parse_case(ROW)
    told = evaluation.parse_case({**ROW, "gold_any": [{"doc": "b.md", "source": "wiki"}]})
    plain = evaluation.parse_case({**ROW, "gold_any": [{"doc": "b.md"}]})
    assert told.gold_any == (Gold(doc="b.md", source="wiki"),) != plain.gold_any
    assert (told.digest, told.content_digest) == (plain.digest, plain.content_digest)
    assert case.digest == "64a27e814e520a22"  # of runs before there were sources


def asked(*gold: Gold) -> EvalCase:
    """A case that all of the gold answers."""
    return replace(case(), gold_any=(), gold_all=gold)


def find_fault(gold: Gold, retrieval: Retrieval, retriever: Retriever) -> Trail:
    (trail,) = evaluation.follow(asked(gold), retrieval, retriever)
    return trail


QUESTION = Query(text="what does err 2041 mean?", question="what does err 2041 mean?")
ERROR_CODES = Gold(doc="reference/error-codes.md", span="Label template needs a font")


def rank_of_documents(candidates: tuple[Candidate, ...]) -> dict[str, int]:
    """Each document with the rank of its first section."""
    ranks: dict[str, int] = {}
    for rank, each in enumerate(candidates, 1):
        ranks.setdefault(each.section.path, rank)
    return ranks


def test_an_answer_that_is_kept_has_its_ranks_and_no_fault(retriever: Retriever) -> None:
    trail = find_fault(ERROR_CODES, retriever.retrieve(QUESTION), retriever)
    assert (trail.fault, trail.rank) == (None, 1)
    assert trail.fused_rank in range(1, 4)
    assert trail.relevance and trail.relevance > 0.1


def test_an_answer_in_no_document_is_missing(retriever: Retriever) -> None:
    retrieval = retriever.retrieve(QUESTION)
    gone, changed = Gold(doc="gone.md"), replace(ERROR_CODES, span="what it said a year ago, twice")
    for gold in (gone, changed):
        trail = find_fault(gold, retrieval, retriever)
        assert (trail.fault, trail.fused_rank, trail.rank) == ("missing", None, None)


def test_an_answer_that_no_leg_found_is_lost_in_the_search(retriever: Retriever) -> None:
    narrow = replace(retriever, tuning=replace(retriever.tuning, depth=1))
    trail = find_fault(Gold(doc="teams/platform.md"), narrow.retrieve(QUESTION), narrow)
    assert (trail.fault, trail.fused_rank, trail.rank) == ("search", None, None)


def test_an_answer_beyond_the_candidates_is_lost_in_fusion(retriever: Retriever) -> None:
    fused = rank_of_documents(
        tuple(evaluation.fused_order(retriever.retrieve(QUESTION).candidates))
    )
    path, rank = list(fused.items())[3]
    narrow = replace(retriever, tuning=replace(retriever.tuning, candidates=1))
    trail = find_fault(Gold(doc=path), narrow.retrieve(QUESTION), narrow)
    assert (trail.fault, trail.fused_rank, trail.rank) == ("fuse", rank, None)


def test_an_answer_below_the_first_five_is_lost_in_reranking(retriever: Retriever) -> None:
    retrieval = retriever.retrieve(QUESTION)
    (path, rank), *_ = (
        each for each in rank_of_documents(retrieval.candidates).items() if each[1] > 5
    )
    trail = find_fault(Gold(doc=path), retrieval, retriever)
    assert (trail.fault, trail.rank) == ("rerank", rank)
    assert trail.relevance == retrieval.candidates[rank - 1].relevance


def test_an_answer_to_a_question_that_is_refused_is_cut_by_the_floor(retriever: Retriever) -> None:
    retrieval = retriever.retrieve(Query(text="who wrote Aida?", question="who wrote Aida?"))
    assert not retrieval.kept
    gold = Gold(doc=retrieval.candidates[0].section.path)
    trail = find_fault(gold, retrieval, retriever)
    assert (trail.fault, trail.rank) == ("floor", 1)


def test_an_answer_that_is_left_out_though_others_are_kept_is_told(retriever: Retriever) -> None:
    retrieval = retriever.retrieve(QUESTION)
    path, rank = list(rank_of_documents(retrieval.candidates).items())[1]
    assert rank <= 5
    trail = find_fault(Gold(doc=path), replace(retrieval, kept=retrieval.candidates[:1]), retriever)
    assert (trail.fault, trail.rank) == ("keep", rank)


def test_each_answer_of_a_case_has_a_trail(retriever: Retriever) -> None:
    retrieval = retriever.retrieve(QUESTION)
    trails = evaluation.follow(asked(ERROR_CODES, Gold(doc="gone.md")), retrieval, retriever)
    assert [trail.fault for trail in trails] == [None, "missing"]
    either = replace(case(), gold_any=(Gold(doc="gone.md"), ERROR_CODES))
    assert [trail.fault for trail in evaluation.follow(either, retrieval, retriever)] == [None]
    assert evaluation.follow(case(answerable=False), retrieval, retriever) == ()


def test_nothing_is_searched_for_in_an_empty_index(retriever: Retriever) -> None:
    assert find_fault(Gold(doc="gone.md"), NOTHING, retriever).fault == "missing"
