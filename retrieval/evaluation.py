"""Eval cases to results: what each is worth, and where its answer was lost."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import text

from retrieval import metrics
from retrieval.db import Database
from retrieval.errors import ConfigError, FootnoteError
from retrieval.metrics import Gold, Result
from retrieval.records import LEGS, Candidate, Retrieval, Turn

if TYPE_CHECKING:  # takes seconds to import, and to read cases nobody needs it
    from retrieval.retrieve import Retriever

ANSWER_WORDS = 150  # of an answer that are read; what it says after that comes too late
KEPT = 5  # sections that count of what is kept, as in the metrics

ALL = "all"  # names the means over the cases of every type
SPEAKERS: Mapping[str, Literal["user", "bot"]] = {  # by the role of a turn
    "user": "user",
    "bot": "bot",
    "assistant": "bot",
}

# Where an answer was lost, in the order of the stages: it stands in no document of the index; no
# leg found it; it was not among the candidates that are reranked; it was among them, but not among
# the first; it was, but all was refused, for a name or by the floor; others were kept, but not it.
Fault = Literal["missing", "search", "fuse", "rerank", "unknown", "floor", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalCase:
    """A question with what answers it; no gold at all when the documents do not."""

    case_id: str
    type: str
    turns: tuple[Turn, ...]  # the last is the question
    gold_any: tuple[Gold, ...]
    gold_all: tuple[Gold, ...]

    @property
    def question(self) -> str:
        return self.turns[-1].text

    @property
    def answers(self) -> tuple[tuple[Gold, ...], ...]:
        """What has to be found, each with the places that are as good as one another."""
        return metrics.answers(self.gold_any, self.gold_all)

    @property
    def digest(self) -> str:
        """Changes with the question, what was said before it, and the gold but for its source."""
        golds = [
            [{"doc": each.doc, "span": each.span} for each in gold]
            for gold in (self.gold_any, self.gold_all)
        ]
        return _digest([[asdict(turn) for turn in self.turns], *golds])

    @property
    def content_digest(self) -> str:
        """As digest, but the same when what answers the case has moved to another page.

        Gold without a span is known by its document alone.
        """
        golds = [
            sorted(each.span or f"document {each.doc}" for each in gold)
            for gold in (self.gold_any, self.gold_all)
        ]
        return _digest([[asdict(turn) for turn in self.turns], *golds])


def _digest(fields: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """How far one answer of a case came, by the section that holds it and came furthest."""

    answer: tuple[Gold, ...]  # any of them is it
    # From 1, before reranking; among all that the legs found, where it was not reranked; None: no
    # leg found it.
    fused_rank: int | None
    rank: int | None  # from 1, after reranking; None: it was not reranked
    relevance: float | None  # of the section at that rank
    fault: Fault | None  # None: it was handed over


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case as it went."""

    case: EvalCase
    retrieval: Retrieval
    values: Mapping[str, float]  # metric -> value, those that apply
    answer: str | None = None  # its text, empty where there is none; None when nobody asked for it
    trails: tuple[Trail, ...] = ()  # one for each of the case's answers


def load_cases(path: Path) -> list[EvalCase]:
    """The cases of a JSON lines file; raises ConfigError naming the line that is wrong."""
    try:
        # Not all that str.splitlines takes for the end of a line: a text may hold U+2028.
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as cases: {type(error).__name__}.") from error
    cases: dict[str, EvalCase] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                case = parse_case(json.loads(line))
            except ConfigError as error:
                raise ConfigError(f"{path} line {number}: {error}") from error
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(
                    f"{path} line {number} is not a case: each line is a JSON object with id, "
                    "type, question, history, gold_any, gold_all and answer."
                ) from error
            if case.case_id in cases:
                raise ConfigError(f"{path} line {number} has the id of a case before it.")
            cases[case.case_id] = case
    if not cases:
        raise ConfigError(f"{path} holds no case.")
    return list(cases.values())


def name_cases(path: Path) -> str:
    """What a set of cases is called: by its file, and the folder that tells it from others."""
    return f"{path.resolve().parent.name}/{path.stem}"


def parse_case(row: Mapping[str, Any]) -> EvalCase:
    """One case from its JSON object; raises ConfigError saying what cannot be measured."""
    if row["type"] == ALL:
        raise ConfigError(f"{ALL} stands for the cases of every type: name the type otherwise.")
    if not row["question"].strip():
        raise ConfigError("the question is blank: write one, or leave the line out.")
    return EvalCase(
        case_id=str(row["id"]),
        type=str(row["type"]),
        turns=(
            *map(_parse_turn, row.get("history", [])),
            Turn(speaker="user", text=row["question"]),
        ),
        gold_any=_parse_gold(row.get("gold_any", [])),
        gold_all=_parse_gold(row.get("gold_all", [])),
    )


def _parse_turn(turn: Mapping[str, Any]) -> Turn:
    if turn["role"] not in SPEAKERS:
        raise ConfigError(f"a role in the history is one of {', '.join(SPEAKERS)}: write one.")
    return Turn(speaker=SPEAKERS[turn["role"]], text=turn["text"])


def _parse_gold(entries: Iterable[Mapping[str, Any]]) -> tuple[Gold, ...]:
    return tuple(map(_parse_gold_entry, entries))


def _parse_gold_entry(entry: Mapping[str, Any]) -> Gold:
    gold = Gold(doc=entry["doc"], span=entry.get("span"), source=entry.get("source"))
    # It would be found in every section of the document.
    if gold.span is not None and not metrics.words(gold.span):
        raise ConfigError(
            "a span holds no word: quote the answer, or leave the span out where any part of the "
            "document answers."
        )
    return gold


def build_result(
    case: EvalCase,
    retrieval: Retrieval,
    answer: str | None = None,
    trails: tuple[Trail, ...] = (),
) -> CaseResult:
    """One case scored by what was found for it, and by the answer where there is one.

    Raises FootnoteError where a part of the search had failed: it would count as a loss.
    """
    if failed := retrieval.settings.get("failed_legs"):
        raise FootnoteError(f"The search went on without a part of it: {failed}. See the log.")
    candidates = list(map(read_result, fused_order(retrieval.candidates)))
    kept = list(map(read_result, retrieval.kept))
    values = dict(metrics.score(candidates, kept, case.gold_any, case.gold_all))
    gold = [*case.gold_any, *case.gold_all]
    if answer is not None and gold:
        read = " ".join(answer.split()[:ANSWER_WORDS])
        # What was quoted counts by its words alone, whichever document it is from.
        said = [Result(doc=doc, text=read) for doc in {each.doc for each in gold}]
        values["quoted"] = metrics.recall(said, case.gold_any, case.gold_all)
    return CaseResult(case=case, retrieval=retrieval, values=values, answer=answer, trails=trails)


def read_result(candidate: Candidate) -> Result:
    """A candidate as the metrics see it: its document and what the model would read."""
    return Result(doc=candidate.section.path, text=candidate.section.text)


def fused_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates in the order of fusion, in which they were before reranking."""

    def first_met(candidate: Candidate) -> tuple[int, int, int]:
        hits = ((hit.wording, LEGS.index(hit.leg), hit.rank) for hit in candidate.hits)
        return next(hits, (0, 0, 0))

    # Equal scores are common; they keep the order in which the legs first met the section.
    return sorted(candidates, key=lambda each: (-each.rrf_score, first_met(each)))


def follow(case: EvalCase, retrieval: Retrieval, retriever: "Retriever") -> tuple[Trail, ...]:
    """The trail of each answer of the case; the retriever is asked again where one is lost."""
    return tuple(_follow(answer, retrieval, retriever) for answer in case.answers)


def _follow(answer: tuple[Gold, ...], retrieval: Retrieval, retriever: "Retriever") -> Trail:
    fused_rank = _find_rank(answer, fused_order(retrieval.candidates))
    rank = _find_rank(answer, retrieval.candidates)
    relevance = retrieval.candidates[rank - 1].relevance if rank else None
    fault: Fault | None
    if _find_rank(answer, retrieval.kept[:KEPT]):
        fault = None
    elif rank is None:
        found = retriever.search(retrieval.query) if retrieval.candidates else ()
        fused_rank = _find_rank(answer, found)
        if fused_rank:
            fault = "fuse"
        else:
            fault = "search" if _is_indexed(answer, retriever.database) else "missing"
    elif rank > KEPT:
        fault = "rerank"
    elif retrieval.unknown:
        fault = "unknown"
    else:
        fault = "keep" if retrieval.kept else "floor"
    return Trail(answer=answer, fused_rank=fused_rank, rank=rank, relevance=relevance, fault=fault)


def _find_rank(answer: Sequence[Gold], candidates: Iterable[Candidate]) -> int | None:
    for rank, candidate in enumerate(candidates, 1):
        if any(metrics.hits(read_result(candidate), gold) for gold in answer):
            return rank
    return None


def _is_indexed(answer: Sequence[Gold], database: Database) -> bool:
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT path, text FROM documents WHERE path = ANY(:paths)"),
            {"paths": [gold.doc for gold in answer]},
        ).all()
    documents = [Result(doc=row.path, text=row.text) for row in rows]
    return any(metrics.hits(document, gold) for document in documents for gold in answer)


def means(results: Sequence[CaseResult]) -> dict[str, dict[str, float]]:
    """Each metric's mean over the cases it applies to, for all and by type, with their number.

    Rounded to four digits, so that the same figure is printed, stored and compared everywhere.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[str, int] = defaultdict(int)
    for result in results:
        for group in (ALL, result.case.type):
            counts[group] += 1
            for name, value in result.values.items():
                values[group][name].append(value)
    return {
        group: {
            "cases": counts[group],
            **{name: round(sum(each) / len(each), 4) for name, each in values[group].items()},
        }
        for group in counts
    }


def build_dump_row(result: CaseResult) -> dict[str, Any]:
    """One case's results as another judge reads them; candidates in the order before reranking."""
    answer = {} if result.answer is None else {"answer": result.answer}
    return {
        "id": result.case.case_id,
        "candidates": _build_dumped(fused_order(result.retrieval.candidates)),
        "kept": _build_dumped(result.retrieval.kept),
        **answer,
    }


def _build_dumped(candidates: Iterable[Candidate]) -> list[dict[str, str]]:
    return [{"doc": each.section.path, "text": each.section.text} for each in candidates]
