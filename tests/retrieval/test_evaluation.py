"""Eval cases read, scored and told."""

import json
from pathlib import Path
from typing import Any

import pytest

from retrieval import evaluation
from retrieval.errors import ConfigError
from retrieval.evaluation import CaseResult, EvalCase
from retrieval.metrics import Gold
from retrieval.records import Query, Retrieval, Turn
from tests.retrieval.candidates import candidate

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
    return CaseResult(case=case(case_id, kind=kind), candidates=(), kept=(), values=values)


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
        json.dumps({name: ROW[name] for name in ("id", "type")}),
    ],
)
def test_a_line_that_is_no_case_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, json.dumps(ROW), "", line)
    with pytest.raises(ConfigError, match=r"cases\.jsonl line 3 is not a case"):
        evaluation.load_cases(path)


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
    retrieval = Retrieval(
        query=Query(text="q", question="q"), candidates=(second, first), kept=(second,)
    )
    found = evaluation.build_result(case(), retrieval)
    assert [each.doc for each in found.candidates] == ["b.md", "a.md"]
    assert [each.doc for each in found.kept] == ["a.md"]
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


def test_the_table_has_a_line_a_type_and_a_dash_for_what_does_not_apply() -> None:
    results = [result("1", **{"recall@5": 2 / 3}), result("2", kind="b", refused=1.0)]
    heading, *rows = evaluation.build_table(evaluation.means(results)).splitlines()
    cells: list[dict[str, Any]] = [
        dict(zip(["group", *heading.split()], row.split(), strict=True)) for row in rows
    ]
    assert [row["group"] for row in cells] == ["all", "b", "table"]
    assert [row["cases"] for row in cells] == ["2", "1", "1"]
    assert [row["recall@5"] for row in cells] == ["0.667", "-", "0.667"]
    assert [row["refused"] for row in cells] == ["1.000", "1.000", "-"]
    assert len({len(row) for row in (heading, *rows)}) == 1  # in columns
