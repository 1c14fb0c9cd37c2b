"""A run of eval cases against the live index, kept in eval_runs."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text

from app.rewrite import rewrite
from retrieval import evaluation
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.evaluation import CaseResult, EvalCase
from retrieval.records import Retrieval
from retrieval.retrieve import retrieve
from retrieval.tuning import DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as it is stored."""

    run_id: int
    settings: Mapping[str, object]
    results: tuple[CaseResult, ...]
    means: Mapping[str, Mapping[str, float]]  # group -> metric -> mean


def run(
    database: Database,
    embedder: Embedder,
    cases: Sequence[EvalCase],
    *,
    name: str,
    progress: Callable[[int, int], None],
) -> Run:
    """Every case through rewriting and search, scored and saved under the name of the set."""
    settings: Mapping[str, object] = {}
    done = 0

    def search(case: EvalCase) -> Retrieval:
        nonlocal settings, done
        retrieval = retrieve(database, embedder, rewrite(case.turns), DEFAULT)
        settings = retrieval.settings or settings
        done += 1
        progress(done, len(cases))
        return retrieval

    results = evaluation.run(cases, search)
    means = evaluation.means(results)
    return Run(
        run_id=_save(database, name, settings, results, means),
        settings=settings,
        results=tuple(results),
        means=means,
    )


def _save(
    database: Database,
    name: str,
    settings: Mapping[str, object],
    results: Sequence[CaseResult],
    means: Mapping[str, Mapping[str, float]],
) -> int:
    with database.transaction() as connection:
        run_id: int = connection.execute(
            text("""
                INSERT INTO eval_runs (tenant_id, cases_name, commit, settings, means, results)
                VALUES (current_setting('footnote.tenant_id'), :name, :commit,
                        CAST(:settings AS jsonb), CAST(:means AS jsonb), CAST(:results AS jsonb))
                RETURNING run_id
            """),
            {
                "name": name,
                "commit": _find_commit(),
                "settings": json.dumps(dict(settings)),
                "means": json.dumps(means),
                "results": json.dumps(
                    [{"id": result.case.case_id, **result.values} for result in results]
                ),
            },
        ).scalar_one()
    return run_id


def _find_commit() -> str | None:
    """The commit of the code; None where it does not run from a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
