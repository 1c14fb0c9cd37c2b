"""Runs as they are told in a terminal."""

from dataclasses import replace

from app import figures
from app.eval_runs import compare
from retrieval.ablation import Row
from tests.app.eval_runs import INDEX, OTHER, case, result, run, stored, trail

SEARCH = trail("search", fused_rank=None, rank=None, relevance=None)


def read_table(text: str) -> dict[str, dict[str, str]]:
    """The rows of a table by group."""
    heading, *lines = text.splitlines()
    names = heading.split()
    rows = [line.split() for line in lines]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def test_the_table_has_a_line_a_type_and_a_dash_for_what_does_not_apply() -> None:
    means = {
        "all": {"cases": 3, "recall@3": 2 / 3, "recall@5": 2 / 3, "refused": 1.0},
        "unanswerable": {"cases": 1, "refused": 1.0},
        "table": {"cases": 2, "recall@3": 2 / 3, "recall@5": 2 / 3},
    }
    table = figures.build_means(means)
    rows = read_table(table)
    assert list(rows) == ["all", "table", "unanswerable"]
    assert rows["all"] == {"cases": "3", "recall@3": "0.667", "@5": "0.667", "refused": "1.000"}
    assert rows["table"]["refused"] == rows["unanswerable"]["@5"] == "-"
    assert len({len(line) for line in table.splitlines()}) == 1  # in columns


def test_the_table_has_every_metric_and_fits_a_terminal() -> None:
    answered = result(case("c1"), answer="28 days")
    refused = result(case("c2", kind="unanswerable"), kept=0)
    table = figures.build_means(run(answered, refused).means)
    assert set(read_table(table)["all"]) - {"cases"} == set(figures.EVAL_COLUMNS.values())
    assert max(map(len, table.splitlines())) <= 110


def test_it_is_told_where_answers_were_lost() -> None:
    lost = [result(case(str(n)), [OTHER], trails=(SEARCH,)) for n in range(2)]
    floor = result(case("c3"), kept=0, trails=(trail("floor"),))
    text = figures.build_run(run(result(case("c4")), floor, *lost))
    assert text.startswith("handbook/dev: run 7\n")
    assert text.splitlines()[-1] == "3 of 4 answers lost: 2 found by no leg, 1 cut by the floor"
    assert "lost" not in figures.build_run(run(result(case("c4"))))


BEFORE = stored(
    {"won": {"recall@5": 0.0, "mrr@5": 0.0}, "lost": {"recall@5": 1.0}, "gone": {"recall@5": 0.0}},
    settings={"keep": 3},
)
RESULTS = [
    result(case("won", "how much leave\ndo I get? " + "please " * 30)),
    result(case("lost", "who decides?"), [OTHER]),
]
COMPARED = run(*RESULTS, comparison=compare(BEFORE, RESULTS, {"keep": 5}))


def test_a_comparison_names_the_cases_won_and_lost_with_their_questions() -> None:
    lines = figures.build_run(COMPARED).splitlines()
    assert any(line.startswith("against run 6 of 2026-11-30 04:12, over the 2") for line in lines)
    assert "not compared: 0 cases of this run, 1 of the one before" in lines
    assert "setting keep: 3 before, now 5" in lines
    recall = next(line for line in lines if line.startswith("recall@5 "))
    assert recall.split() == [
        *("recall@5", "2", "0.500", "0.500", "+0.000", "[-1.000,", "+1.000]", "1", "1"),
    ]
    won = lines[lines.index("recall@5 won:") + 1]
    assert won.startswith("  won          0.00 → 1.00  how much leave do I get? please")
    assert won.endswith("…") and len(won) == figures.LINE_WIDTH
    assert lines[lines.index("recall@5 lost:") + 1] == ("  lost         1.00 → 0.00  who decides?")


def test_json_has_all_of_it() -> None:
    told = figures.build_run_json(COMPARED)
    assert set(told) == {"cases", "run_id", "settings", "means", "lost", "comparison"}
    comparison = told["comparison"]
    assert (comparison["run_id"], comparison["common"]) == (6, 2)
    assert (comparison["only_before"], comparison["only_after"]) == (1, 0)
    recall = comparison["metrics"]["recall@5"]
    assert recall["interval"] == [-1, 1]
    assert recall["lost"] == [
        {"id": "lost", "question": "who decides?", "before": 1.0, "after": 0.0}
    ]
    assert "comparison" not in figures.build_run_json(run(*RESULTS))


def test_an_index_that_could_not_be_searched_is_told() -> None:
    failed = replace(run(*RESULTS), index=replace(INDEX, failure="It does not fit."))
    assert "nothing could be searched: It does not fit." in figures.build_run(failed).splitlines()
    assert figures.build_run_json(failed)["failure"] == "It does not fit."


def test_an_ablation_is_a_markdown_table() -> None:
    values = {"recall@5": 0.5561, "recall@30": 0.75, "mrr@5": 0.4333}
    row = Row(stage="+ identifiers", values=values, median_ms=41.6)
    assert figures.build_ablation([row]).splitlines() == [
        "| stage | recall@5 | recall@30 | MRR | ms |",
        "| --- | --- | --- | --- | --- |",
        "| + identifiers | 0.556 | 0.750 | 0.433 | 42 |",
    ]
