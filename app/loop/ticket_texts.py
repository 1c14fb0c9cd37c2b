"""What tickets say, in Markdown; nothing of it is a question: others may read them; pure."""

from collections.abc import Iterable, Sequence

from app.counting import count
from app.eval_runs import Run, StoredRun
from app.figures import FAULTS
from app.loop.drops import METRIC, Drop
from app.loop.index_changes import Cause, code, list_code
from retrieval.comparison import Change, Difference
from retrieval.evaluation import CaseResult

CASES_TOLD = 30  # of more the first, and how many there are


def build_title(difference: Difference) -> str:
    """What fell, from what to what."""
    return f"{METRIC} fell from {difference.before:.2f} to {difference.after:.2f}"


def build_opening(run: Run, drop: Drop, causes: Sequence[Cause]) -> str:
    """What a ticket says first: figures, causes, lost cases, how to look."""
    against = f"run {_name(drop.good)}, the last good one"
    return _build_drop(f"Run {_name(run)} against {against}", run, drop, causes)


def build_further(run: Run, drop: Drop, causes: Sequence[Cause]) -> str:
    """What is added when it falls further: the same against the run that was told last."""
    against = f"run {_name(drop.good)}, the last that is told here"
    return _build_drop(f"It fell further: run {_name(run)} against {against}", run, drop, causes)


def _build_drop(compared: str, run: Run, drop: Drop, causes: Sequence[Cause]) -> str:
    found, good = drop.difference, drop.good
    low, high = found.interval
    parts = [
        f"{compared}, over the {found.case_count} cases that both have.",
        "| | before | now | difference | 95% interval |\n| --- | --- | --- | --- | --- |\n"
        f"| {METRIC} | {found.before:.3f} | {found.after:.3f} | "
        f"{found.after - found.before:+.3f} | {low:+.3f} to {high:+.3f} |",
        *_build_causes(causes),
        f"## Lost cases ({len(found.lost)})\n\n{_build_lost(found.lost, run, good)}",
        f"## How to look\n\n```\nfootnote eval --cases --compare {good.run_id} --report "
        "report.html\n```",
    ]
    return "\n\n".join(parts)


def build_recovery(run: Run, good: StoredRun, difference: Difference | None) -> str:
    """Why a ticket is closed: the run in which the drop is no more."""
    told = f"Run {_name(run)} shows the drop no more"
    if difference is None:
        return f"{told}: no case is left as run {_name(good)} had it, so nothing can be compared."
    figures = (
        f"{METRIC} is {difference.after:.3f}, it was {difference.before:.3f} in run {_name(good)}"
    )
    if not difference.lost:
        return f"{told}: {figures}."
    lost = list_code([each.case_id for each in difference.lost])
    return f"{told}: {figures}. Lost still: {lost}."


def _name(run: Run | StoredRun) -> str:
    return f"{run.run_id} of {run.started_at:%Y-%m-%d %H:%M} UTC"


def _build_causes(causes: Sequence[Cause]) -> Iterable[str]:
    likely = [cause for cause in causes if cause.explains]
    others = [cause for cause in causes if not cause.explains]
    if not likely:
        yield (
            "## Likeliest cause\n\nUnknown: neither pages, index, settings nor code changed in a "
            "way that explains the lost cases."
        )
    else:
        first, *rest = [
            f"{cause.told} Explains {count(len(cause.explains), 'lost case')}." for cause in likely
        ]
        yield f"## Likeliest cause\n\n{first}"
        if rest:
            yield "## Possible as well\n\n" + "\n".join(f"- {told}" for told in rest)
    if others:
        yield "## What else changed\n\n" + "\n".join(f"- {cause.told}" for cause in others)


def _build_lost(lost: Sequence[Change], run: Run, good: StoredRun) -> str:
    results = {result.case.case_id: result for result in run.results}
    lines = [
        f"- {code(change.case_id)}: {_tell_case(results[change.case_id], change, good)}"
        for change in lost[:CASES_TOLD]
    ]
    if len(lost) > CASES_TOLD:
        lines.append(f"- and {len(lost) - CASES_TOLD} more")
    return "\n".join(lines)


def _tell_case(result: CaseResult, change: Change, good: StoredRun) -> str:
    """The pages of each lost answer, where it was lost, and the rank it had."""
    before = good.cases[change.case_id].trails
    told = []
    for number, trail in enumerate(result.trails):
        if trail.fault:
            pages = " or ".join(dict.fromkeys(code(gold.doc) for gold in trail.answer))
            rank = before[number].rank if number < len(before) else None
            was = f" (was at rank {rank})" if rank else ""
            told.append(f"{pages}, {FAULTS[trail.fault]}{was}")
    return "; ".join(told)
