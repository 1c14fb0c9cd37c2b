"""Runs over eval cases as text and JSON for the terminal; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.eval_runs import Comparison, Run
from app.loop.variants import WhatIf
from app.rendering import build_differences
from retrieval.ablation import Row
from retrieval.comparison import Change, Difference
from retrieval.evaluation import Fault

# What is said of an answer that was lost at a stage.
FAULTS: dict[Fault, str] = {
    "missing": "in no document of the index",
    "search": "found by no leg",
    "fuse": "not among those reranked",
    "rerank": "reranked below the first five",
    "unknown": "refused for a name",
    "floor": "cut by the floor",
    "keep": "left out of what is kept",
}
# Headings of the columns, by metric; what follows "recall@3" are recalls, too.
EVAL_COLUMNS = {
    "recall@3": "recall@3",
    "recall@5": "@5",
    "recall@30": "@30",
    "recall@1200t": "@1200t",
    "recall@2500t": "@2500t",
    "doc@5": "doc@5",
    "mrr@5": "mrr@5",
    "nDCG@5": "nDCG@5",
    "precision": "precision",
    "answered": "answered",
    "refused": "refused",
    "quoted": "quoted",
}
# Metrics whose won and lost cases are named in the terminal; all are in JSON and in the report.
NAMED_METRICS = ("recall@5", "answered", "refused", "quoted")
LINE_WIDTH = 110


def build_run(run: Run) -> str:
    """What `footnote eval` prints of one set: its figures, where answers were lost, and the
    comparison where there is one."""
    parts = [
        f"{run.name}: run {run.run_id}",
        f"nothing could be searched: {run.index.failure}" if run.index.failure else "",
        build_means(run.means),
        _build_lost(run),
    ]
    if run.comparison:
        parts.append("\n" + _build_comparison(run.comparison, run))
    return "\n".join(filter(None, parts))


def build_means(means: Mapping[str, Mapping[str, float]]) -> str:
    """The means as a table, all cases first, then by type; without columns that nothing fills."""
    columns = {
        metric: heading
        for metric, heading in EVAL_COLUMNS.items()
        if any(metric in row for row in means.values())
    }
    widths = {metric: max(len(heading), 5) + 1 for metric, heading in columns.items()}
    label = max(map(len, means)) + 1
    heading = "".join(f"{columns[metric]:>{widths[metric]}}" for metric in columns)
    lines = [f"{'':{label}}{'cases':>6}{heading}"]
    for group in ["all", *sorted(set(means) - {"all"})]:
        row = means[group]
        cells = "".join(_build_cell(row.get(metric), widths[metric]) for metric in columns)
        lines.append(f"{group:{label}}{row['cases']:6.0f}{cells}")
    return "\n".join(lines)


def _build_cell(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.3f}"


def _build_lost(run: Run) -> str:
    """How many answers were lost at which stage."""
    faults = [trail.fault for result in run.results for trail in result.trails]
    told = [f"{faults.count(fault)} {said}" for fault, said in FAULTS.items() if fault in faults]
    lost = len(faults) - faults.count(None)
    return f"{lost} of {len(faults)} answers lost: {', '.join(told)}" if lost else ""


def _build_comparison(comparison: Comparison, run: Run) -> str:
    before = comparison.before
    commit = f", commit {before.commit}" if before.commit else ""
    lines = [
        f"against run {before.run_id} of {before.started_at:%Y-%m-%d %H:%M}{commit}, over the"
        f" {comparison.common} cases that both have as they are now",
    ]
    if comparison.only_before or comparison.only_after:
        lines.append(
            f"not compared: {comparison.only_after} cases of this run,"
            f" {comparison.only_before} of the one before"
        )
    lines += [
        f"setting {name}: {_build_setting(old)} before, now {_build_setting(new)}"
        for name, (old, new) in comparison.settings.items()
    ]
    lines += build_differences(comparison.differences)
    questions = {result.case.case_id: result.case.question for result in run.results}
    lines += _build_changes(comparison.differences, questions)
    return "\n".join(lines)


def _build_changes(
    differences: Sequence[Difference], questions: Mapping[str, str]
) -> Iterator[str]:
    """The cases that were won and lost."""
    for each in differences:
        if each.metric in NAMED_METRICS:
            for verb, changes in (("won", each.won), ("lost", each.lost)):
                if changes:
                    yield f"{each.metric} {verb}:"
                    yield from (_build_change(change, questions) for change in changes)


def _build_setting(value: object) -> str:
    return "not set" if value is None else str(value)


def _build_change(change: Change, questions: Mapping[str, str]) -> str:
    question = " ".join(questions[change.case_id].split())
    line = f"  {change.case_id:12} {change.before:.2f} → {change.after:.2f}  {question}"
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"


def build_run_json(run: Run) -> dict[str, Any]:
    """What `footnote eval --json` prints of one set."""
    faults = [trail.fault for result in run.results for trail in result.trails]
    comparison = {"comparison": _build_comparison_json(run)} if run.comparison else {}
    failure = {"failure": run.index.failure} if run.index.failure else {}
    return {
        "cases": run.name,
        "run_id": run.run_id,
        "settings": run.settings,
        "means": run.means,
        "lost": {fault: faults.count(fault) for fault in FAULTS if fault in faults},
        **failure,
        **comparison,
    }


def _build_comparison_json(run: Run) -> dict[str, Any]:
    comparison = run.comparison
    assert comparison
    questions = {result.case.case_id: result.case.question for result in run.results}
    return {
        "run_id": comparison.before.run_id,
        "common": comparison.common,
        "only_before": comparison.only_before,
        "only_after": comparison.only_after,
        "metrics": _build_metrics_json(comparison.differences, questions),
    }


def _build_metrics_json(
    differences: Sequence[Difference], questions: Mapping[str, str]
) -> dict[str, Any]:
    def build(changes: Sequence[Change]) -> list[dict[str, Any]]:
        return [
            {
                "id": change.case_id,
                "question": questions[change.case_id],
                "before": change.before,
                "after": change.after,
            }
            for change in changes
        ]

    return {
        each.metric: {
            "cases": each.case_count,
            "before": each.before,
            "after": each.after,
            "interval": list(each.interval),
            "won": build(each.won),
            "lost": build(each.lost),
        }
        for each in differences
    }


def build_what_if(what_if: WhatIf) -> str:
    """What `footnote eval --set` prints of one set: its figures, and what each variant changes."""
    parts = [f"{what_if.name}: as it is", build_means(what_if.means)]
    for each in what_if.tried:
        parts.append(f"\n{each.variant.name}, beside that")
        parts += build_differences(each.differences, before="as it is", after="tried")
        parts += _build_changes(each.differences, what_if.questions)
    return "\n".join(parts)


def build_what_if_json(what_if: WhatIf) -> list[dict[str, Any]]:
    """What `footnote eval --set --json` prints of one set, a line a variant."""
    return [
        {
            "cases": what_if.name,
            "variant": dict(each.variant.changes),
            "metrics": _build_metrics_json(each.differences, what_if.questions),
        }
        for each in what_if.tried
    ]


def build_ablation(rows: Sequence[Row]) -> str:
    """What each stage brings, as a Markdown table."""
    lines = ["| stage | recall@5 | recall@30 | MRR | ms |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        figures = " | ".join(f"{value:.3f}" for value in row.values.values())
        lines.append(f"| {row.stage} | {figures} | {row.median_ms:.0f} |")
    return "\n".join(lines)
