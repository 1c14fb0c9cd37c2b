"""Runs over eval cases, made by hand."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from app.eval_runs import Comparison, Run, StoredCase, StoredRun
from app.loop.index import Index
from retrieval import evaluation
from retrieval.evaluation import CaseResult, EvalCase, Trail
from retrieval.metrics import Gold
from retrieval.records import Candidate, Query, Retrieval, Turn
from tests.retrieval.candidates import candidate

STARTED = datetime(2026, 11, 30, 4, 12, tzinfo=UTC)
GOLD = Gold(doc="leave.md", span="28 days")
FOUND = candidate(1, path="leave.md", title="Leave", text="# Leave\n\n28 days.", relevance=0.8)
OTHER = candidate(2, path="vpn.md", title="VPN", text="# VPN\n\nUse it.", relevance=0.3)


INDEX = Index(
    generation_id=3,
    created_at=STARTED - timedelta(days=30),
    chunker="c1/900",
    embedder="minilm",
    probe=(0.6, 0.8),
    model="minilm",
    model_probe=(0.6, 0.8),
    documents=35,
    sections=60,
    chunks=210,
    characters=105_000,
    kinds={".md": 35},
)


def case(case_id: str, question: str = "how much leave?", *, kind: str = "table") -> EvalCase:
    gold = () if kind == "unanswerable" else (GOLD,)
    turns = (Turn(speaker="user", text=question),)
    return EvalCase(case_id=case_id, type=kind, turns=turns, gold_any=gold, gold_all=())


def result(
    eval_case: EvalCase,
    candidates: Sequence[Candidate] = (FOUND, OTHER),
    *,
    kept: int = 2,
    answer: str | None = None,
    trails: tuple[Trail, ...] | None = None,
) -> CaseResult:
    """The case, for which these candidates were found and the first of them kept."""
    query = Query(text=eval_case.question, question=eval_case.question)
    retrieval = Retrieval(
        query=query,
        candidates=tuple(candidates),
        kept=tuple(candidates[:kept]),
        stage_ms={"embed": 10.0, "dense": 20.0},
    )
    if trails is None:
        trails = (trail(),) if eval_case.answers else ()
    return evaluation.build_result(eval_case, retrieval, answer, trails)


def trail(
    fault: evaluation.Fault | None = None,
    *,
    fused_rank: int | None = 1,
    rank: int | None = 1,
    relevance: float | None = 0.8,
    gold: Gold = GOLD,
) -> Trail:
    return Trail(answer=(gold,), fused_rank=fused_rank, rank=rank, relevance=relevance, fault=fault)


def run(
    *results: CaseResult,
    name: str = "handbook/dev",
    settings: Mapping[str, object] | None = None,
    comparison: Comparison | None = None,
) -> Run:
    return Run(
        run_id=7,
        name=name,
        started_at=STARTED,
        commit="0123456789abcdef",
        settings=settings or {"floor": 0.1, "candidates": 60, "keep": 5},
        index=INDEX,
        results=results,
        means=evaluation.means(results),
        comparison=comparison,
    )


def stored(
    values: Mapping[str, Mapping[str, float]], settings: Mapping[str, object] | None = None
) -> StoredRun:
    """A run of before with these values, by case_id and metric."""
    return StoredRun(
        run_id=6,
        name="handbook/dev",
        started_at=STARTED,
        commit=None,
        settings=settings or {},
        cases={
            case_id: StoredCase(digest=None, kept=("old.md",), values=each)
            for case_id, each in values.items()
        },
    )
