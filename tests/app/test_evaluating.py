"""Sets of cases run, kept, and compared with runs of before."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app import evaluating
from app.eval_runs import StoredRun, compare
from app.evaluating import EvalSet
from retrieval import evaluation
from retrieval.comparison import Change
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase
from retrieval.retrieve import Retriever
from tests.app import eval_runs
from tests.conftest import SAMPLE

CASES = evaluation.load_cases(SAMPLE / "cases.jsonl")
ROW: dict[str, Any] = {
    "id": "c1",
    "type": "table",
    "question": "how much leave?",
    "gold_any": [{"doc": "leave.md", "span": "28 days"}],
}


def ignore(done: int, total: int) -> None:
    """No progress to show."""


def write_cases(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "dev.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def eval_set(*cases: EvalCase, name: str = "handbook/dev") -> EvalSet:
    return EvalSet(name=name, cases=cases)


def test_each_file_is_a_set_of_its_own(tmp_path: Path) -> None:
    paths = [
        write_cases(tmp_path / "handbook", ROW),
        write_cases(tmp_path / "offtopic", {**ROW, "id": "c2"}),
    ]
    sets = evaluating.load_sets(paths)
    assert [each.name for each in sets] == ["handbook/dev", "offtopic/dev"]
    assert [[case.case_id for case in each.cases] for each in sets] == [["c1"], ["c2"]]


def test_two_sets_with_a_case_of_the_same_id_are_refused(tmp_path: Path) -> None:
    paths = [write_cases(tmp_path / "a", ROW), write_cases(tmp_path / "b", ROW)]
    with pytest.raises(ConfigError, match=r"a/dev and b/dev both have a case 'c1'"):
        evaluating.load_sets(paths)


def test_a_run_is_kept_with_what_each_case_was_worth(retriever: Retriever) -> None:
    done: list[tuple[int, int]] = []
    run = evaluating.run(
        retriever, eval_set(*CASES[:2]), progress=lambda *counts: done.append(counts)
    )
    assert done == [(1, 2), (2, 2)]
    for result in run.results:
        (trail,) = result.trails
        assert (trail.fault is None) == (result.values["recall@5"] == 1)
    found = evaluating.find_runs(retriever.database, str(run.run_id), [eval_set(*CASES[:2])])
    kept = found["handbook/dev"]
    assert (kept.run_id, kept.name, kept.commit) == (run.run_id, "handbook/dev", run.commit)
    assert kept.started_at == run.started_at
    assert kept.settings["floor"] == run.settings["floor"]
    for result in run.results:
        case = kept.cases[result.case.case_id]
        assert case.values == result.values
        assert case.digest == result.case.digest
        assert case.kept == tuple(each.section.path for each in result.retrieval.kept)
    with retriever.database.transaction() as connection:
        means = connection.execute(text("SELECT means FROM eval_runs")).scalar_one()
    assert means == run.means


def test_a_run_is_compared_with_one_before(retriever: Retriever) -> None:
    cases = eval_set(*CASES[:2])
    first = evaluating.run(retriever, cases, progress=ignore)
    (before,) = evaluating.find_runs(retriever.database, "last", [cases]).values()
    second = evaluating.run(retriever, cases, progress=ignore, before=before)
    assert first.comparison is None
    assert second.comparison and second.comparison.before.run_id == first.run_id
    assert (second.comparison.common, second.comparison.settings) == (2, {})
    for difference in second.comparison.differences:
        assert (difference.interval, difference.won, difference.lost) == ((0, 0), (), ())


def test_cases_won_and_lost_are_named() -> None:
    before = eval_runs.stored(
        {
            "won": {"recall@5": 0.0, "mrr@5": 0.0},
            "same": {"recall@5": 1.0, "mrr@5": 1.0},
            "lost": {"recall@5": 1.0, "mrr@5": 0.5},
            "gone": {"recall@5": 1.0, "mrr@5": 1.0},
        },
        settings={"floor": 0.2, "keep": 5},
    )
    results = [
        eval_runs.result(eval_runs.case("won")),
        eval_runs.result(eval_runs.case("same")),
        eval_runs.result(eval_runs.case("lost"), [eval_runs.OTHER]),
        eval_runs.result(eval_runs.case("new")),
    ]
    found = compare(before, results, {"floor": 0.1, "keep": 5, "depth": 60})
    assert (found.common, found.only_before, found.only_after) == (3, 1, 1)
    recall = next(each for each in found.differences if each.metric == "recall@5")
    assert (recall.before, recall.after) == (0.6667, 0.6667)
    assert recall.won == (Change(case_id="won", before=0, after=1),)
    assert recall.lost == (Change(case_id="lost", before=1, after=0),)
    # Of 27 equally likely resamples one has three wins, one three losses: 1/27 > 2.5%.
    assert recall.interval == (-1, 1)
    assert found.settings == {"floor": (0.2, 0.1), "depth": (None, 60)}


def test_a_case_that_was_changed_since_is_not_compared(retriever: Retriever) -> None:
    first, second = CASES[:2]
    evaluating.run(retriever, eval_set(first, second), progress=ignore)
    changed = replace(second, gold_any=(), gold_all=second.gold_any)
    now = eval_set(first, changed)
    (before,) = evaluating.find_runs(retriever.database, "last", [now]).values()
    found = compare(before, [eval_runs.result(first), eval_runs.result(changed)], {})
    assert (found.common, found.only_before, found.only_after) == (1, 1, 1)


def store(database: Database, *case_ids: str, name: str = "handbook/dev") -> int:
    """A run as they were kept before: nothing of a case but its values."""
    with database.transaction() as connection:
        run_id: int = connection.execute(
            text("""
                INSERT INTO eval_runs (tenant_id, cases_name, settings, means, results)
                VALUES (current_setting('footnote.tenant_id'), :name, '{}', '{}',
                        CAST(:results AS jsonb)) RETURNING run_id
            """),
            {
                "name": name,
                "results": json.dumps([{"id": each, "recall@5": 1.0} for each in case_ids]),
            },
        ).scalar_one()
    return run_id


Find = Callable[..., dict[str, StoredRun]]


@pytest.fixture
def find(database: Database) -> Find:
    def find(wanted: object, *sets: EvalSet) -> dict[str, StoredRun]:
        return evaluating.find_runs(database, str(wanted), sets)

    return find


def test_an_older_run_is_compared_by_the_ids_alone(database: Database, find: Find) -> None:
    run_id = store(database, "c1")
    run = find(run_id, eval_set(eval_runs.case("c1")))["handbook/dev"]
    case = run.cases["c1"]
    assert (case.digest, case.kept, case.values) == (None, (), {"recall@5": 1.0})


def test_the_last_run_is_that_of_the_same_set(database: Database, find: Find) -> None:
    store(database, "c1")
    last = store(database, "c1")
    store(database, "c1", name="offtopic/dev")
    assert find("last", eval_set(eval_runs.case("c1")))["handbook/dev"].run_id == last


def test_a_run_is_for_the_sets_that_share_a_case_with_it(database: Database, find: Find) -> None:
    run_id = store(database, "c1")
    sets = eval_set(eval_runs.case("c1")), eval_set(eval_runs.case("o1"), name="offtopic/dev")
    assert set(find(run_id, *sets)) == {"handbook/dev"}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("99", "There is no run 99"),
        ("last", "There is no run of new/dev yet"),
        ("best", "'best' is neither"),
        ("-1", "'-1' is neither"),
    ],
)
def test_a_run_that_is_none_is_told(database: Database, find: Find, wanted: str, told: str) -> None:
    store(database, "c1")
    with pytest.raises(ConfigError, match=told):
        find(wanted, eval_set(eval_runs.case("c1"), name="new/dev"))


def test_a_run_without_a_common_case_is_told(database: Database, find: Find) -> None:
    run_id = store(database, "c1")
    with pytest.raises(ConfigError, match=f"No case of handbook/dev was part of run {run_id}"):
        find(run_id, eval_set(eval_runs.case("c2")))


def test_another_tenants_run_is_not_found(
    database: Database, database_url: str, find: Find
) -> None:
    other = Database(database_url, tenant_id="other")
    run_id = store(other, "c1")
    other.close()
    with pytest.raises(ConfigError, match=f"There is no run {run_id}"):
        find(run_id, eval_set(eval_runs.case("c1")))


def test_the_stages_of_an_ablation_end_with_the_search_as_it_is(retriever: Retriever) -> None:
    cases = CASES[:6]
    rewrites = {cases[0].case_id: ["label template font missing on the printer"]}
    rows = evaluating.ablate(retriever, cases, tutorial=None, rewrites=rewrites, progress=ignore)
    assert [row.stage for row in rows] == [
        "structure: sections by their chunks, dense",
        "lexical alone",
        "dense + lexical",
        "+ identifiers",
        "+ late interaction",
        "+ relevance model",
        "+ choice of what is kept, floor",
        "+ rewriting, queries of a stand-in",
    ]
    whole = evaluating.run(retriever, eval_set(*cases), progress=ignore).means["all"]
    assert rows[-2].values == {name: whole[name] for name in ("recall@5", "recall@30", "mrr@5")}


def test_without_a_file_there_are_no_rewrites(tmp_path: Path) -> None:
    assert evaluating.load_rewrites(tmp_path / "dev.rewrites.jsonl") == {}


def test_rewrites_are_queries_by_case(tmp_path: Path) -> None:
    path = tmp_path / "dev.rewrites.jsonl"
    path.write_text('{"id": "c1", "queries": ["a", "b"]}\n{"id": 2, "queries": []}\n')
    assert evaluating.load_rewrites(path) == {"c1": ("a", "b"), "2": ()}
    path.write_text('{"id": "c1", "queries": ["a"]}\n{"id": "c2"}\n')
    with pytest.raises(ConfigError, match=r"dev\.rewrites\.jsonl line 2 is not"):
        evaluating.load_rewrites(path)
