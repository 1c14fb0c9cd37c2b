"""Eval cases to a run, and a run to a report."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval import metrics
from retrieval.errors import ConfigError
from retrieval.metrics import Gold, Result
from retrieval.records import Candidate, Retrieval, Turn

ANSWER_WORDS = 150  # of an answer that are read; what it says after that comes too late

COLUMNS = (
    "recall@5",
    "recall@30",
    "recall@1200t",
    "recall@2500t",
    "doc@5",
    "mrr@5",
    "nDCG@5",
    "quoted",
    "precision",
    "answered",
    "refused",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalCase:
    """A question with what answers it; no gold at all when the documents do not."""

    case_id: str
    type: str
    turns: tuple[Turn, ...]  # the last is the question
    gold_any: tuple[Gold, ...]
    gold_all: tuple[Gold, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case as it went."""

    case: EvalCase
    candidates: tuple[Result, ...]  # in the order before reranking
    kept: tuple[Result, ...]
    values: Mapping[str, float]  # metric -> value, those that apply
    answer: str | None = None  # its text, empty where there is none; None when nobody asked for it


def load_cases(path: Path) -> list[EvalCase]:
    """The cases of a JSON lines file; raises ConfigError naming the line that is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as cases: {type(error).__name__}.") from error
    cases = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                cases.append(parse_case(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(
                    f"{path} line {number} is not a case: each line is a JSON object with id, "
                    "type, question, history, gold_any, gold_all and answer."
                ) from error
    if not cases:
        raise ConfigError(f"{path} holds no case.")
    return cases


def parse_case(row: Mapping[str, Any]) -> EvalCase:
    """One case from its JSON object."""
    history = tuple(
        Turn(speaker="user" if turn["role"] == "user" else "bot", text=turn["text"])
        for turn in row.get("history", [])
    )
    return EvalCase(
        case_id=str(row["id"]),
        type=str(row["type"]),
        turns=(*history, Turn(speaker="user", text=str(row["question"]))),
        gold_any=_parse_gold(row.get("gold_any", [])),
        gold_all=_parse_gold(row.get("gold_all", [])),
    )


def _parse_gold(entries: Iterable[Mapping[str, Any]]) -> tuple[Gold, ...]:
    return tuple(Gold(doc=entry["doc"], span=entry.get("span")) for entry in entries)


def build_result(case: EvalCase, retrieval: Retrieval, answer: str | None = None) -> CaseResult:
    """One case scored by what was found for it, and by the answer where there is one."""
    fused = sorted(retrieval.candidates, key=lambda candidate: -candidate.rrf_score)
    candidates = tuple(map(read_result, fused))
    kept = tuple(map(read_result, retrieval.kept))
    values = dict(metrics.score(candidates, kept, case.gold_any, case.gold_all))
    gold = [*case.gold_any, *case.gold_all]
    if answer is not None and gold:
        read = " ".join(answer.split()[:ANSWER_WORDS])
        # What was quoted counts by its words alone, whichever document it is from.
        said = [Result(doc=doc, text=read) for doc in {each.doc for each in gold}]
        values["quoted"] = metrics.recall(said, case.gold_any, case.gold_all)
    return CaseResult(case=case, candidates=candidates, kept=kept, values=values, answer=answer)


def read_result(candidate: Candidate) -> Result:
    """A candidate as the metrics see it: its document and what the model would read."""
    return Result(doc=candidate.section.path, text=candidate.section.text)


def means(results: Sequence[CaseResult]) -> dict[str, dict[str, float]]:
    """Each metric's mean over the cases it applies to, for all and by type, with their number."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[str, int] = defaultdict(int)
    for result in results:
        for group in ("all", result.case.type):
            counts[group] += 1
            for name, value in result.values.items():
                values[group][name].append(value)
    return {
        group: {
            "cases": counts[group],
            **{name: sum(each) / len(each) for name, each in values[group].items()},
        }
        for group in counts
    }


def build_table(means: Mapping[str, Mapping[str, float]]) -> str:
    """The means as a table for people, all cases first, then by type."""
    lines = [f"{'':14}{'cases':>6}" + "".join(f"{name:>13}" for name in COLUMNS)]
    for group in ["all", *sorted(set(means) - {"all"})]:
        row = means[group]
        cells = (f"{row[name]:13.3f}" if name in row else f"{'-':>13}" for name in COLUMNS)
        lines.append(f"{group:14}{row['cases']:6.0f}" + "".join(cells))
    return "\n".join(lines)


def build_dump_row(result: CaseResult) -> dict[str, Any]:
    """One case's results as another judge reads them."""
    answer = {} if result.answer is None else {"answer": result.answer}
    return {
        "id": result.case.case_id,
        "candidates": [{"doc": r.doc, "text": r.text} for r in result.candidates],
        "kept": [{"doc": r.doc, "text": r.text} for r in result.kept],
        **answer,
    }
