"""Records as text and JSON for the terminal; pure, but for the progress bar."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from app import hidden
from app.records import Answer, Citation
from retrieval.records import LEGS

if TYPE_CHECKING:
    from app.answering import Asked
    from retrieval.calibration import Calibration, Contender
    from retrieval.comparison import Difference
    from retrieval.indexing import Summary
    from retrieval.records import Candidate, Leg, Retrieval
    from retrieval.relevance import RelevanceModel

LINE_EVERY_S = 10  # chosen: a log of an hour's ingest stays readable
SEEN = "what is in use was fitted on some of these cases"


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[int, int], None]]:
    """A callback for how many are done of how many: a bar with rate and time left on a terminal,
    a plain line now and then elsewhere. Goes to stderr."""
    if sys.stderr.isatty():
        with tqdm(unit=f" {unit}s", dynamic_ncols=True, leave=False) as bar:

            def move(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield move
    else:
        start = last = monotonic()

        def write(done: int, total: int) -> None:
            nonlocal last
            now = monotonic()
            if now - last >= LINE_EVERY_S:
                last = now
                left = (now - start) / done * (total - done)
                print(
                    f"{done} of {total} {unit}s, {done / (now - start):.1f} a second,"
                    f" {left:.0f} s left",
                    file=sys.stderr,
                    flush=True,
                )

        yield write


# What to do about the generation that an ingest wrote to, where it is not the one searched.
WAITING = {
    "building": "generation {id} lacks documents that could not be indexed, and the one before is"
    " searched: `footnote doctor` lists them; mend them and run the same again",
    "ready": "generation {id} is complete, and not searched: run `footnote calibrate CASES --apply"
    " --generation {id}`, measure it with `footnote eval CASES --generation {id}`, then run"
    " `footnote index switch {id}`",
    "kept": "generation {id} was searched before; `footnote index switch {id}` goes back to it",
}


def build_summary(summary: "Summary") -> str:
    """What an ingest did: the counts, then each file that needs somebody's eye."""
    lines = [
        f"{summary.new} new, {summary.changed} changed, {summary.unchanged} unchanged,"
        f" {len(summary.removed)} removed, {len(summary.skipped)} skipped"
    ]
    if summary.rebuilt:
        lines.append(f"{summary.rebuilt} unchanged documents indexed again: the index was new")
    lines += [f"skipped {skipped.path}: {skipped.reason}" for skipped in summary.skipped]
    lines += [f"cleaned {path}: {note}" for path, note in summary.notes]
    lines += [f"moved {before} to {now}" for before, now in summary.moved]
    lines += [f"removed {path}" for path in summary.removed]
    if summary.gone:
        lines.append(
            f"{len(summary.gone)} documents are no longer there and still answered from; a later"
            " run that misses them again, hours from now, removes them, and --prune removes them"
            " at once:"
        )
        lines += [f"  {path}" for path in summary.gone]
    if summary.behind:
        lines.append(f"the index that is searched has none of this yet: {summary.behind}")
    if summary.took_over:
        lines.append(f"generation {summary.generation_id} is searched now; the one before is kept")
    if summary.state in WAITING:
        lines.append(WAITING[summary.state].format(id=summary.generation_id))
    return hidden.remove("\n".join(lines))


def build_answer(answer: Answer) -> str:
    """The answer with its sources below, or with what came nearest; nothing a terminal obeys."""
    sources = "\n".join(map(_build_source, answer.citations))
    if answer.nearest:
        nearest = answer.nearest
        caveat = f" · ⚠️ {nearest.caveat}" if nearest.caveat else ""
        sources = f"Nearest page, may not answer: {nearest.place}{caveat}\n    {nearest.url}"
    return hidden.remove(f"{answer.text}\n\n{sources}" if sources else answer.text)


def _build_source(citation: Citation) -> str:
    facts = filter(None, (citation.place, citation.age, *citation.relations, citation.owner))
    return f"[{citation.marker}] {' · '.join(facts)}\n    {citation.url}"


def build_asked(asked: "Asked") -> dict[str, Any]:
    """What `footnote ask --json` prints."""
    found = build_retrieval(asked.retrieval)
    return {
        "question": asked.question,
        "answer": asked.answer.text,
        "abstained_because": asked.answer.abstained_because,
        "citations": [
            {
                "marker": citation.marker,
                "doc": citation.path,
                "title": citation.title,
                "heading_path": list(citation.heading_path),
                "url": citation.url,
                "cited_text": citation.cited_text,
                "verified_at": citation.verified_at and citation.verified_at.isoformat(),
            }
            for citation in asked.answer.citations
        ],
        "nearest": asked.answer.nearest and asdict(asked.answer.nearest),
        **{name: found[name] for name in ("queries", "candidates", "kept", "stage_ms")},
        "trace_id": str(asked.trace_id),
    }


def build_retrieval(retrieval: "Retrieval") -> dict[str, Any]:
    """What `footnote retrieve --json` prints."""
    return {
        "question": retrieval.query.question,
        "queries": [retrieval.query.text, *retrieval.query.variants],
        "candidates": [_build_candidate(each) for each in retrieval.candidates],
        "kept": [_build_candidate(each) for each in retrieval.kept],
        "stage_ms": dict(retrieval.stage_ms),
        "trace_id": None,
    }


def _build_candidate(candidate: "Candidate") -> dict[str, Any]:
    return {
        "doc": candidate.section.path,
        "heading_path": list(candidate.section.heading_path),
        "text": candidate.section.text,
        "dense_rank": _rank(candidate, "dense"),
        "lexical_rank": _rank(candidate, "lexical"),
        "identifier_rank": _rank(candidate, "identifier"),
        "rrf_score": candidate.rrf_score,
        "relevance": candidate.relevance,
    }


def _rank(candidate: "Candidate", leg: "Leg") -> int | None:
    hit = candidate.hit(leg)
    return hit.rank if hit else None


def build_retrieval_text(retrieval: "Retrieval") -> str:
    """Each candidate's ranks, scores and place, the kept ones marked, then the times."""
    kept = {candidate.section.section_id for candidate in retrieval.kept}
    lines = [
        f"{'':2}{'relevance':>9}{'rrf':>8}{'dense':>7}{'lexical':>8}{'ident.':>7}{'late':>6}"
        "  section"
    ]
    for candidate in retrieval.candidates:
        dense, lexical, identifier, late = (_rank(candidate, leg) or "-" for leg in LEGS)
        section = candidate.section
        lines.append(
            f"{'*' if section.section_id in kept else '':2}{candidate.relevance or 0:9.3f}"
            f"{candidate.rrf_score:8.4f}{dense:>7}{lexical:>8}{identifier:>7}{late:>6}"
            f"  {section.path} › {' › '.join(section.heading_path)}"
        )
    if retrieval.unknown:
        lines.append(f"in no page, so nothing is kept: {', '.join(retrieval.unknown)}")
    times = ", ".join(f"{stage} {ms:.0f}" for stage, ms in retrieval.stage_ms.items())
    return hidden.remove("\n".join([*lines, f"milliseconds: {times}"]))


def build_calibration(calibration: "Calibration") -> str:
    """What the cases are, what the fitted model is worth on them beside what is in use, what it
    would change, and what its floors do."""
    kinds = sorted(calibration.unanswerable)
    counts = ", ".join(f"{calibration.unanswerable[kind]} {kind}" for kind in kinds)
    rival, in_use = calibration.rival, calibration.in_use
    lines = [
        f"{calibration.answerable} cases that the documents answer; cases that they do not: "
        + (counts or "none, so false answers could not be measured"),
        f"in use now: {build_model(in_use)}" if in_use else "in use now: nothing that fits",
        f"{'':28}{'recall@5':>10}{'log loss':>10}{'floor':>10}{'answered':>10}",
    ]
    if rival:
        lines.append(_build_contender("in use", rival))
    lines.append(_build_contender("fitted, cross-validated", calibration.fitted))
    if in_use and not rival:
        lines.append(f"{SEEN}, so they can't measure it")
    if calibration.changes:
        lines.append("the same cases:")
        lines += build_differences(calibration.changes, before="in use", after="fitted")
    if calibration.held_out:
        lines.append("cases held out:")
        lines += build_differences(calibration.held_out, before="in use", after="fitted")
    shown = calibration.fitted if calibration.is_better or not rival else rival
    lines += [
        f"proposed: {_build_proposal(calibration)}",
        f"{'':20}  {'false answers' if kinds else ''}",
        f"{'floor':>10}{'answered':>10}" + "".join(f"  {kind:>7}" for kind in kinds),
    ]
    for row in shown.coverage:
        shares = (f"  {row.false_answers[kind]:{max(len(kind), 7)}.3f}" for kind in kinds)
        chosen = "  chosen" if row.floor == shown.model.floor else ""
        lines.append(f"{row.floor:10.5f}{row.answered:10.3f}" + "".join(shares) + chosen)
    return "\n".join(line.rstrip() for line in lines)


def build_model(model: "RelevanceModel") -> str:
    """What tells a relevance model from others, on a line."""
    return f"fitted {model.fitted_on} on {', '.join(model.cases)}; floor {model.floor:.5f}"


def _build_proposal(calibration: "Calibration") -> str:
    if not calibration.is_new:
        return "nothing; the fitted one is what is in use"
    if calibration.is_better:
        return "the fitted one" + (", which is better" if calibration.in_use else "")
    if calibration.losses:
        worse = ", ".join(calibration.losses)
        return f"nothing; beyond noise the fitted one is worse than what is in use: {worse}"
    if not calibration.deciding:
        return f"nothing; {SEEN}, and none or too few are held out to compare the two on"
    return "nothing; the fitted one is not better beyond noise than what is in use"


def _build_contender(name: str, contender: "Contender") -> str:
    return (
        f"{name:28}{contender.recall_at_5:10.3f}{contender.log_loss:10.4f}"
        f"{contender.model.floor:10.5f}{contender.at_floor.answered:10.3f}"
    )


def build_differences(
    differences: "Iterable[Difference]", *, before: str = "before", after: str = "now"
) -> list[str]:
    """Paired differences as a table, a line a metric."""
    left, right = max(len(before) + 1, 8), max(len(after) + 1, 7)
    lines = [
        f"{'':13}{'cases':>6}{before:>{left}}{after:>{right}}{'diff.':>8}  {'95% interval':18}"
        f"{'won':>4}{'lost':>5}"
    ]
    for each in differences:
        low, high = each.interval
        lines.append(
            f"{each.metric:13}{each.case_count:6}{each.before:{left}.3f}{each.after:{right}.3f}"
            f"{each.after - each.before:+8.3f}  {f'[{low:+.3f}, {high:+.3f}]':18}"
            f"{len(each.won):4}{len(each.lost):5}"
        )
    return lines
