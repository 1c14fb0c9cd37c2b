"""A run of eval cases against the live index, kept in eval_runs."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, text

from app.generate.generator import Generator
from app.loop import index
from app.loop.index import Index
from app.rewrite import rewrite
from app.searching import build_query, search
from retrieval import ablation, calibration, comparison, evaluation, relevance
from retrieval.ablation import Row as AblationRow
from retrieval.ablation import Stage
from retrieval.calibration import Calibration
from retrieval.comparison import Difference
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.evaluation import CaseResult, EvalCase, Fault
from retrieval.records import Query, Retrieval
from retrieval.retrieve import Retriever

if TYPE_CHECKING:  # takes seconds to import, and most runs do without
    from app.reword import Rewriter

LAST = "last"  # names the latest run of the same set, instead of an id
# The columns of eval_runs that _read_run reads; a row has an index of its own.
STORED = "run_id, started_at, cases_name, commit, settings, index AS searched, results"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSet:
    """Cases that are measured together, and what they are called."""

    name: str
    cases: tuple[EvalCase, ...]


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


Progress = Callable[[int, int], None]  # cases done, of how many


def load_sets(paths: Sequence[Path]) -> list[EvalSet]:
    """A set for each file of cases; raises ConfigError as load_cases does, and when two share
    an id, since results are told apart by it."""
    sets = [
        EvalSet(name=evaluation.name_cases(path), cases=tuple(evaluation.load_cases(path)))
        for path in paths
    ]
    names: dict[str, str] = {}
    for each in sets:
        for case in each.cases:
            if case.case_id in names:
                raise ConfigError(
                    f"{names[case.case_id]} and {each.name} both have a case {case.case_id!r}. "
                    "Evaluate them one after the other."
                )
        names |= {case.case_id: each.name for case in each.cases}
    return sets


def run(
    retriever: Retriever,
    eval_set: EvalSet,
    *,
    progress: Progress,
    generator: Generator | None = None,
    rewriter: "Rewriter | None" = None,
    before: StoredRun | None = None,
) -> Run:
    """Every case through rewriting and search, scored, followed and saved.

    With a generator each is answered as well; with a run of before, compared with it. Raises as
    the generator does.
    """
    started_at, found_index = datetime.now(UTC), index.load(retriever)
    settings: Mapping[str, object] = {}
    rewritings: Counter[str] = Counter()
    results = []
    for done, case in enumerate(eval_set.cases, 1):
        retrieval = search(retriever, case.turns, rewriter).retrieval
        settings = retrieval.settings
        rewritings[str(settings["rewriting"])] += 1
        answer = answer_case(generator, case, retrieval) if generator else None
        trails = evaluation.follow(case, retrieval, retriever)
        results.append(evaluation.build_result(case, retrieval, answer, trails))
        progress(done, len(eval_set.cases))
    settings = {**settings, "rewriting": dict(rewritings)}
    if generator:
        settings = {**settings, **generator.settings}
    return save(
        retriever.database,
        Run(
            run_id=0,  # given by save
            name=eval_set.name,
            started_at=started_at,
            commit=_find_commit(),
            settings=settings,
            index=found_index,
            results=tuple(results),
            means=evaluation.means(results),
            comparison=compare(before, results, settings) if before else None,
        ),
    )


def run_in_vain(
    retriever: Retriever, eval_set: EvalSet, reason: str, *, before: StoredRun | None = None
) -> Run:
    """The run of an index that cannot be searched, saved with why: nothing is found.

    So that it is told as the loss that it is for whoever asks. It went by no settings.
    """
    results = [_find_nothing(case, retriever) for case in eval_set.cases]
    return save(
        retriever.database,
        Run(
            run_id=0,
            name=eval_set.name,
            started_at=datetime.now(UTC),
            commit=_find_commit(),
            settings={},
            index=replace(index.load(retriever), failure=reason),
            results=tuple(results),
            means=evaluation.means(results),
            comparison=compare(before, results, before.settings) if before else None,
        ),
    )


def _find_nothing(case: EvalCase, retriever: Retriever) -> CaseResult:
    query = Query(text=case.question, question=case.question)
    retrieval = Retrieval(query=query, candidates=(), kept=(), stage_ms={})
    trails = evaluation.follow(case, retrieval, retriever)
    return evaluation.build_result(case, retrieval, trails=trails)


def answer_case(generator: Generator, case: EvalCase, retrieval: Retrieval) -> str:
    """The answer's text; empty where there is none, since why is not what is measured."""
    if not retrieval.kept:
        return ""
    return generator.generate(case.turns, retrieval.query, retrieval.kept).text


def calibrate(
    retriever: Retriever,
    cases: Sequence[EvalCase],
    *,
    names: Sequence[str],
    progress: Progress,
    held_out: Sequence[EvalCase] = (),
) -> Calibration:
    """A relevance model fitted on the cases, over the index as it is, beside what is in use.

    It needs none before. Nothing is fitted on what is held out, and nothing is saved.
    """
    samples = []
    for done, case in enumerate([*cases, *held_out], 1):
        measured = retriever.measure(build_query(retriever.database, case.turns))
        samples.append(calibration.build_sample(case, measured))
        progress(done, len(cases) + len(held_out))
    basis = retriever.basis
    with retriever.database.transaction() as connection:
        in_use = relevance.find(connection, basis)
    return calibration.calibrate(
        samples[: len(cases)],
        basis,
        cases=names,
        in_use=in_use,
        packaged=relevance.load_packaged(basis),
        held_out=samples[len(cases) :],
    )


def ablate(
    retriever: Retriever,
    cases: Sequence[EvalCase],
    *,
    tutorial: Stage | None,
    rewrites: Mapping[str, Sequence[str]],
    progress: Progress,
) -> list[AblationRow]:
    """What each stage of the search brings, from a tutorial's to all of it.

    rewrites has a model's queries by case_id. Synonyms and rewrites have a row where any case has
    some. Raises as ablation.measure does.
    """
    plain = [(case, rewrite(case.turns)) for case in cases]
    known = [(case, build_query(retriever.database, case.turns)) for case in cases]
    reworded = [
        (case, replace(query, variants=query.variants + tuple(rewrites.get(case.case_id, ()))))
        for case, query in known
    ]
    legs = partial(ablation.search_legs, retriever)
    whole = ablation.retrieve(retriever)
    stages = [
        ("structure: sections by their chunks, dense", legs("dense"), plain),
        ("lexical alone", legs("lexical"), plain),
        ("dense + lexical", legs("dense", "lexical"), plain),
        ("+ identifiers", ablation.search_all_legs(retriever), plain),
        ("+ late interaction", ablation.narrow(retriever), plain),
        ("+ relevance model", ablation.rerank(retriever), plain),
        ("+ choice of what is kept, floor", whole, plain),
    ]
    if tutorial:
        stages.insert(0, ("tutorial: windows of 512 tokens, dense", tutorial, plain))
    if known != plain:
        stages.append(("+ synonyms", whole, known))
    if reworded != known:
        stages.append(("+ rewriting, queries of a stand-in", whole, reworded))
    rows = []
    for done, (name, stage, queries) in enumerate(stages, 1):
        rows.append(ablation.measure(name, stage, queries))
        progress(done, len(stages))
    return rows


def load_rewrites(path: Path) -> dict[str, tuple[str, ...]]:
    """A model's queries by case_id, from lines of id and queries; none when there is no file.

    Raises ConfigError naming the line that is none.
    """
    if not path.exists():
        return {}
    rewrites = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            rewrites[str(row["id"])] = tuple(map(str, row["queries"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} line {number} is not a JSON object with id and queries."
            ) from error
    return rewrites


def find_runs(database: Database, wanted: str, sets: Sequence[EvalSet]) -> dict[str, StoredRun]:
    """The run to compare each set with, by the set's name: by its id, or the last of the set.

    A set that shares no case with it has none. Raises ConfigError when there is no such run, or
    none of the sets shares a case with it.
    """
    found = {each.name: _find_run(database, wanted, each.name) for each in sets}
    shared = {
        each.name: found[each.name] for each in sets if find_shared(each.cases, found[each.name])
    }
    if not shared:
        names = " and ".join(each.name for each in sets)
        raise ConfigError(f"No case of {names} was part of run {wanted}, as it is now.")
    return shared


def _find_run(database: Database, wanted: str, name: str) -> StoredRun:
    if wanted != LAST and not wanted.isdecimal():
        raise ConfigError(f"A run is given by its number, or as {LAST!r}; {wanted!r} is neither.")
    if wanted == LAST:
        found = next(iter(load_runs(database, name, limit=1)), None)
    else:
        found = load_run(database, int(wanted))
    if found is None:
        raise ConfigError(
            f"There is no run of {name} yet to compare with."
            if wanted == LAST
            else f"There is no run {wanted}. `footnote eval` names the number of each."
        )
    return found


def load_run(database: Database, run_id: int) -> StoredRun | None:
    """A run by its id; None when there is no such run."""
    with database.transaction() as connection:
        row = connection.execute(
            text(f"SELECT {STORED} FROM eval_runs WHERE run_id = :run_id"), {"run_id": run_id}
        ).one_or_none()
    return _read_run(row) if row else None


def load_runs(
    database: Database, name: str, *, before: int | None = None, limit: int
) -> list[StoredRun]:
    """The last runs of a set, latest first; only those earlier than the run before, if given."""
    with database.transaction() as connection:
        rows = connection.execute(
            text(f"""
                SELECT {STORED} FROM eval_runs
                WHERE cases_name = :name
                AND (CAST(:before AS bigint) IS NULL OR run_id < :before)
                ORDER BY run_id DESC LIMIT :limit
            """),
            {"name": name, "before": before, "limit": limit},
        ).all()
    return list(map(_read_run, rows))


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
    names = [*settings, *(name for name in before.settings if name not in settings)]
    # Through JSON, as those of before went: a tuple is a list there.
    now = json.loads(json.dumps(dict(settings)))
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
        settings={
            name: (before.settings.get(name), now.get(name))
            for name in names
            if before.settings.get(name) != now.get(name)
        },
    )


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


def _find_commit() -> str | None:
    """The commit of the code, marked where files differ from it; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    command += ["--exclude=*", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
