"""Runs over eval cases as one HTML page: figures, pictures, and each case that failed; pure."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from math import log
from statistics import median
from typing import Any

from jinja2 import Environment, StrictUndefined

from app.eval_runs import Run
from app.figures import EVAL_COLUMNS, FAULTS
from retrieval import metrics
from retrieval.comparison import Change, Difference
from retrieval.evaluation import KEPT, CaseResult, Trail, read_result
from retrieval.records import Candidate

# How a case failed: by the first stage that lost an answer, or after all stages of the search.
FAILURES = {str(fault): told for fault, told in FAULTS.items()} | {
    "generate": "kept, but not in the answer",
    "false": "answered, though nothing answers it",
}
HEADLINES = ("recall@5", "recall@30", "recall@1200t", "mrr@5", "quoted", "answered", "refused")
SNIPPET = 280  # characters of a section that are shown
REFUSED_SHOWN = 3  # candidates shown of a case for which none was kept
# Of relevance, on a scale of its logarithmic odds.
MARKS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)


def build_page(runs: Sequence[Run]) -> str:
    """The page; it loads nothing, runs no script, and every text of others in it is escaped."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"figure": _figure, "signed": "{:+.3f}".format}
    template = environment.from_string(
        files("app").joinpath("report.html").read_text(encoding="utf-8")
    )
    lost_at = {trail.fault for run in runs for each in run.results for trail in each.trails}
    floor = float(str(runs[0].settings.get("floor", 0)))
    return template.render(
        sets=[_build_set(run, f"set{number}") for number, run in enumerate(runs, 1)],
        floors=[row for run in runs for row in _build_floor(run)],
        marks=[(f"{mark:g}", _place(mark)) for mark in MARKS],
        floor=floor,
        floor_place=_place(floor),
        columns=EVAL_COLUMNS,
        faults={fault: told for fault, told in FAULTS.items() if fault in lost_at},
        kept=KEPT,
    )


def _build_set(run: Run, anchor: str) -> dict[str, Any]:
    cases = [_build_case(result, run) for result in run.results]
    for number, case in enumerate(cases, 1):
        case["anchor"] = f"{anchor}-case{number}"
    followed = [result for result in run.results if result.trails]
    types = sorted({result.case.type for result in followed})
    stages = [
        _build_stages(kind, [result for result in followed if result.case.type == kind])
        for kind in types
    ]
    weakest_first = sorted(stages, key=lambda row: row["kept"])
    return {
        "run": run,
        "anchor": anchor,
        "answerable": len(followed),
        "headlines": [
            (name, run.means["all"][name], sum(name in each.values for each in run.results))
            for name in HEADLINES
            if name in run.means["all"]
        ],
        "stages": [_build_stages("all", followed), *weakest_first] if followed else [],
        "candidates": run.settings.get("candidates"),
        "failures": {
            told: failed
            for failure, told in FAILURES.items()
            if (failed := [case for case in cases if case["failure"] == failure])
        },
        "differences": _build_differences(run, cases),
        "stage_ms": _median_ms(run.results),
    }


def _build_stages(label: str, results: Sequence[CaseResult]) -> dict[str, Any]:
    """The recall at each stage, and the share of the answers that each stage lost.

    Each case counts as one, shared out among its answers, as in recall.
    """
    trails = [
        (trail, 1 / len(result.trails) / len(results))
        for result in results
        for trail in result.trails
    ]

    def share(wanted: Iterable[bool]) -> float:
        return sum(weight for (_, weight), each in zip(trails, wanted, strict=True) if each)

    parts = []
    start = 0.0
    for fault in (None, *reversed(FAULTS)):
        width = share(trail.fault == fault for trail, _ in trails)
        parts.append({"fault": fault, "start": start * 100, "width": width * 100, "share": width})
        start += width
    return {
        "label": label,
        "cases": len(results),
        "parts": parts,
        "any_leg": share(trail.fused_rank is not None for trail, _ in trails),
        "reranked": share(trail.rank is not None for trail, _ in trails),
        "at_30": share((trail.fused_rank or 31) <= 30 for trail, _ in trails),
        "kept": share(trail.fault is None for trail, _ in trails),
    }


def _build_case(result: CaseResult, run: Run) -> dict[str, Any]:
    """A case as it is shown; without a failure only as one that was won or lost."""
    case, retrieval = result.case, result.retrieval
    shown = retrieval.kept or retrieval.candidates[:REFUSED_SHOWN]
    gold = [*case.gold_any, *case.gold_all]
    return {
        "id": case.case_id,
        "type": case.type,
        "question": case.question,
        "history": case.turns[:-1],
        "searched": [
            text
            for text in (retrieval.query.text, *retrieval.query.variants)
            if text != case.question
        ],
        "failure": _find_failure(result),
        "answers": [
            {"gold": trail.answer, "fault": trail.fault, "told": _tell(trail, result, run)}
            for trail in result.trails
        ],
        "refused": not retrieval.kept,
        "found": [_build_found(candidate, gold) for candidate in shown],
        "answer": result.answer,
    }


def _find_failure(result: CaseResult) -> str | None:
    faults = [trail.fault for trail in result.trails]
    for fault in FAULTS:
        if fault in faults:
            return fault
    if result.values.get("refused") == 0:
        return "false"
    return "generate" if result.values.get("quoted", 1) < 1 else None


def _tell(trail: Trail, result: CaseResult, run: Run) -> str:
    """How far an answer came, as a sentence."""
    relevance = f"relevance {_figure(trail.relevance or 0)}"
    ranks = f"Ranked {_ordinal(trail.fused_rank or 0)} before reranking"
    match trail.fault:
        case None:
            return "Kept."
        case "missing":
            return "It stands in no document of the index."
        case "search":
            return "Found by no leg."
        case "fuse":
            rank, first = _ordinal(trail.fused_rank or 0), run.settings.get("candidates")
            return f"Ranked {rank} by the legs, but not among the {first} that are reranked."
        case "rerank":
            *_, last = (0.0, *(each.relevance or 0 for each in result.retrieval.kept))
            below = f"; the last that was kept has {_figure(last)}" if last else ""
            return f"{ranks}, {_ordinal(trail.rank or 0)} after, with {relevance}{below}."
        case "unknown":
            names = ", ".join(result.retrieval.unknown)
            after = f"{ranks}, {_ordinal(trail.rank or 0)} after"
            return f"{after}, but refused, since no document mentions {names}."
        case "floor":
            after = f"{ranks}, {_ordinal(trail.rank or 0)} after"
            return f"{after}, but its {relevance} is below the floor."
        case "keep":
            after = f"{ranks}, {_ordinal(trail.rank or 0)} after, with {relevance}"
            return f"{after}, but left out of what is kept."


def _build_found(candidate: Candidate, gold: Sequence[metrics.Gold]) -> dict[str, Any]:
    section = candidate.section
    lines = [line.strip() for line in section.text.splitlines()]
    # Its headings are told already.
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    return {
        "title": section.title,
        "path": section.path,
        "headings": [each for each in section.heading_path if each != section.title],
        "relevance": candidate.relevance,
        "text": text if len(text) <= SNIPPET else text[:SNIPPET].rsplit(" ", 1)[0] + " …",
        "hits": any(metrics.hits(read_result(candidate), each) for each in gold),
    }


def _build_floor(run: Run) -> list[dict[str, Any]]:
    """Of a set's questions that have an answer, and of those that have none: how many were
    answered, and the place of each one's best relevance on the scale."""
    rows = []
    for told, answerable in (("with an answer", True), ("without", False)):
        results = [each for each in run.results if bool(each.case.answers) == answerable]
        if results:
            answered = sum(bool(each.retrieval.kept) for each in results)
            best = [
                max((one.relevance or 0 for one in each.retrieval.candidates), default=0)
                for each in results
            ]
            rows.append(
                {
                    "set": run.name,
                    "told": told,
                    "answerable": answerable,
                    "cases": len(results),
                    "answered": answered,
                    "share": answered / len(results),
                    "places": sorted(map(_place, best)),
                }
            )
    return rows


def _build_differences(run: Run, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each metric's difference, drawn on a scale that all of them share."""
    if run.comparison is None:
        return []
    shown = {case["id"]: case for case in cases}
    before = run.comparison.before.cases
    differences = run.comparison.differences
    widest = max(abs(end) for each in differences for end in (*each.interval, _gain(each), 0.01))

    def place(value: float) -> float:
        return 50 + 48 * value / widest

    def name(changes: Sequence[Change]) -> list[dict[str, Any]]:
        return [
            {"change": each, "case": shown[each.case_id], "kept": before[each.case_id].kept}
            for each in changes
        ]

    return [
        {
            "difference": each,
            "gain": _gain(each),
            "places": (place(each.interval[0]), place(_gain(each)), place(each.interval[1])),
            "sure": each.interval[0] > 0 or each.interval[1] < 0,
            "won": name(each.won),
            "lost": name(each.lost),
        }
        for each in differences
    ]


def _gain(difference: Difference) -> float:
    return difference.after - difference.before


def _median_ms(results: Sequence[CaseResult]) -> dict[str, float]:
    """The median time of each stage, and of all together."""
    times = [result.retrieval.stage_ms for result in results]
    stages = dict.fromkeys(stage for each in times for stage in each)
    return {
        **{stage: median(each.get(stage, 0) for each in times) for stage in stages},
        "all together": median(sum(each.values()) for each in times),
    }


def _place(relevance: float) -> float:
    """Where a relevance stands on a scale of its logarithmic odds, in percent of its width."""
    low, high = MARKS[0], MARKS[-1]
    clipped = min(max(relevance, low), high)
    return round(50 + 48 * log(clipped / (1 - clipped)) / log(high / (1 - high)), 2)


def _figure(value: float) -> str:
    return f"{value:.3f}"


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else suffix}"
