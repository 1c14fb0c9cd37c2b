"""A run of eval cases against the live index, kept in eval_runs."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text

from app.generate.generator import Generator
from app.rewrite import rewrite
from retrieval import calibration, evaluation
from retrieval.calibration import Calibration
from retrieval.db import Database
from retrieval.evaluation import CaseResult, EvalCase
from retrieval.records import Retrieval
from retrieval.retrieve import Retriever


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as it is stored."""

    run_id: int
    settings: Mapping[str, object]
    results: tuple[CaseResult, ...]
    means: Mapping[str, Mapping[str, float]]  # group -> metric -> mean


Progress = Callable[[int, int], None]  # cases done, of how many


def run(
    retriever: Retriever,
    cases: Sequence[EvalCase],
    *,
    name: str,
    progress: Progress,
    generator: Generator | None = None,
) -> Run:
    """Every case through rewriting and search, scored and saved under the name of the set.

    With a generator each is answered as well. Raises as the generator does.
    """
    settings: Mapping[str, object] = {}
    results = []
    for done, case in enumerate(cases, 1):
        retrieval = retriever.retrieve(rewrite(case.turns))
        settings = retrieval.settings
        answer = _answer(generator, case, retrieval) if generator else None
        results.append(evaluation.build_result(case, retrieval, answer))
        progress(done, len(cases))
    means = evaluation.means(results)
    if generator:
        settings = {**settings, **generator.settings}
    return Run(
        run_id=_save(retriever.database, name, settings, results, means),
        settings=settings,
        results=tuple(results),
        means=means,
    )


def _answer(generator: Generator, case: EvalCase, retrieval: Retrieval) -> str:
    """The answer's text; empty where there is none, since why is not what is measured."""
    if not retrieval.kept:
        return ""
    return generator.generate(case.turns, retrieval.query, retrieval.kept).text


def calibrate(
    retriever: Retriever, cases: Sequence[EvalCase], *, names: Sequence[str], progress: Progress
) -> Calibration:
    """A relevance model fitted on the cases, over the index as it is."""
    samples = []
    for done, case in enumerate(cases, 1):
        candidates, measured = retriever.measure(rewrite(case.turns))
        samples.append(calibration.build_sample(case, candidates, measured))
        progress(done, len(cases))
    return calibration.fit(samples, embedder=retriever.embedder.name, cases=names)


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
