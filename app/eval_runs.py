"""Runs of eval cases as they are kept in eval_runs, and one beside another."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text

from app.loop import index
from app.loop.index import Index
from retrieval import comparison
from retrieval.comparison import Difference
from retrieval.db import Database
from retrieval.evaluation import CaseResult, EvalCase, Fault

# The columns of eval_runs that _read_run reads; a row has an index of its own.
STORED = "run_id, started_at, cases_name, commit, settings, index AS searched, results"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrail:
    """What is kept of how far one answer of a case came; see Trail."""

    fused_rank: int | None
    rank: int | None
    relevance: float | None
    fault: Fault | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCase:
    """What is kept of one case of a run."""

    digest: str | None  # of the case, to notice one that was changed; older runs have none
    kept: tuple[str, ...]  # paths of the sections kept, best first
    values: Mapping[str, float]  # metric -> value, those that apply
    # Older runs have none of these:
    content_digest: str | None = None
    type: str | None = None
    trails: tuple[StoredTrail, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run of before, as it is compared with."""

    run_id: int
    name: str  # of its set
    started_at: datetime
    commit: str | None
    settings: Mapping[str, object]
    cases: Mapping[str, StoredCase]  # by case_id
    index: Index | None = None  # older runs have none


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run against one before, over the cases that both have."""

    before: StoredRun
    common: int  # cases
    only_before: int
    only_after: int
    differences: tuple[Difference, ...]
    settings: Mapping[str, tuple[object, object]]  # those that are not as they were


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as it is stored."""

    run_id: int
    name: str  # of its set
    started_at: datetime
    commit: str | None
    settings: Mapping[str, object]
    index: Index  # when the run began
    results: tuple[CaseResult, ...]
    means: Mapping[str, Mapping[str, float]]  # group -> metric -> mean
    comparison: Comparison | None


def load_run(database: Database, run_id: int) -> StoredRun | None:
    """A run by its id; None when there is no such run."""
    with database.transaction() as connection:
        row = connection.execute(
            text(f"SELECT {STORED} FROM eval_runs WHERE run_id = :run_id"), {"run_id": run_id}
        ).one_or_none()
    return _read_run(row) if row else None


def load_last(database: Database, name: str) -> StoredRun | None:
    """The last run of a set, reported or not; None when there is none."""
    with database.transaction() as connection:
        row = connection.execute(
            text(f"""
                SELECT {STORED} FROM eval_runs WHERE cases_name = :name
                ORDER BY run_id DESC LIMIT 1
            """),
            {"name": name},
        ).one_or_none()
    return _read_run(row) if row else None


def load_reported(
    database: Database, name: str, *, before: int | None = None, limit: int
) -> list[StoredRun]:
    """The last runs of a set that were reported, latest first; with before only earlier ones."""
    with database.transaction() as connection:
        rows = connection.execute(
            text(f"""
                SELECT {STORED} FROM eval_runs
                WHERE cases_name = :name AND is_reported
                AND (CAST(:before AS bigint) IS NULL OR run_id < :before)
                ORDER BY run_id DESC LIMIT :limit
            """),
            {"name": name, "before": before, "limit": limit},
        ).all()
    return list(map(_read_run, rows))


def mark_reported(database: Database, run: Run) -> bool:
    """Note that a run is reported; whether it is the latest of its set that is."""
    with database.transaction() as connection:
        later: bool = connection.execute(
            text("""
                WITH marked AS (
                    UPDATE eval_runs SET is_reported = true WHERE run_id = :run_id
                )
                SELECT EXISTS (SELECT FROM eval_runs
                               WHERE cases_name = :name AND is_reported AND run_id > :run_id)
            """),
            {"run_id": run.run_id, "name": run.name},
        ).scalar_one()
    return not later


def _read_run(row: Row[tuple[object, ...]]) -> StoredRun:
    return StoredRun(
        run_id=row.run_id,
        name=row.cases_name,
        started_at=row.started_at,
        commit=row.commit,
        settings=row.settings,
        cases={each.pop("id"): _read_case(each) for each in row.results},
        index=index.parse(row.searched),
    )


def _read_case(fields: dict[str, Any]) -> StoredCase:
    """What _build_stored gave, now or in an older version; what else there is are values."""
    return StoredCase(
        digest=fields.pop("digest", None),
        content_digest=fields.pop("content_digest", None),
        type=fields.pop("type", None),
        kept=tuple(fields.pop("kept", ())),
        trails=tuple(StoredTrail(**each) for each in fields.pop("trails", ())),
        values=fields,
    )


def _build_stored(result: CaseResult) -> dict[str, object]:
    """What _read_case reads."""
    return {
        "id": result.case.case_id,
        "digest": result.case.digest,
        "content_digest": result.case.content_digest,
        "type": result.case.type,
        "kept": [candidate.section.path for candidate in result.retrieval.kept],
        "trails": [
            {name: getattr(trail, name) for name in StoredTrail.__slots__}
            for trail in result.trails
        ],
        **result.values,
    }


def find_shared(cases: Sequence[EvalCase], before: StoredRun) -> list[str]:
    """The cases that the run of before had, and as they are now but for their page: their ids."""
    return [
        case.case_id
        for case in cases
        if (stored := before.cases.get(case.case_id)) and _is_same(case, stored)
    ]


def _is_same(case: EvalCase, stored: StoredCase) -> bool:
    return stored.digest in (None, case.digest) or stored.content_digest == case.content_digest


def compare(
    before: StoredRun, results: Sequence[CaseResult], settings: Mapping[str, object]
) -> Comparison:
    """A run's results and settings against a run before."""
    shared = set(find_shared([result.case for result in results], before))
    return Comparison(
        before=before,
        common=len(shared),
        only_before=len(before.cases) - len(shared),
        only_after=len(results) - len(shared),
        differences=tuple(
            comparison.compare(
                {case_id: before.cases[case_id].values for case_id in shared},
                {each.case.case_id: each.values for each in results},
            )
        ),
        settings=find_changed(before, settings),
    )


def find_changed(
    before: StoredRun, settings: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """The settings that are not as they were in a run before, by name: what they were, and are.

    None for one that is not set.
    """
    # Through JSON, as those of before went: a tuple is a list there.
    now = json.loads(json.dumps(dict(settings)))
    return {
        name: (before.settings.get(name), now.get(name))
        for name in dict.fromkeys([*now, *before.settings])
        if before.settings.get(name) != now.get(name)
    }


def save(database: Database, run: Run) -> Run:
    """The run with its id, saved."""
    with database.transaction() as connection:
        run_id: int = connection.execute(
            text("""
                INSERT INTO eval_runs (tenant_id, cases_name, started_at, commit, settings, index,
                                       means, results)
                VALUES (current_setting('footnote.tenant_id'), :name, :started_at, :commit,
                        CAST(:settings AS jsonb), CAST(:index AS jsonb), CAST(:means AS jsonb),
                        CAST(:results AS jsonb))
                RETURNING run_id
            """),
            {
                "name": run.name,
                "started_at": run.started_at,
                "commit": run.commit,
                "settings": json.dumps(dict(run.settings)),
                "index": json.dumps(run.index.to_json()),
                "means": json.dumps(run.means),
                "results": json.dumps(list(map(_build_stored, run.results))),
            },
        ).scalar_one()
    return replace(run, run_id=run_id)
