"""A run of eval cases against the live index."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app import commit
from app.eval_runs import Run, StoredRun, compare, find_shared, load_last, load_run, save
from app.generate.generator import Generator
from app.loop import index
from app.rewrite import rewrite
from app.searching import build_query, search
from retrieval import ablation, calibration, evaluation, relevance
from retrieval.ablation import Row as AblationRow
from retrieval.ablation import Stage
from retrieval.calibration import Calibration
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.evaluation import CaseResult, EvalCase
from retrieval.records import Query, Retrieval
from retrieval.retrieve import Retriever

if TYPE_CHECKING:  # takes seconds to import, and most runs do without
    from app.reword import Rewriter

LAST = "last"  # names the latest run of the same set, instead of an id


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSet:
    """Cases that are measured together, and what they are called."""

    name: str
    cases: tuple[EvalCase, ...]


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
    """As measure, and saved."""
    measured = measure(
        retriever,
        eval_set,
        progress=progress,
        generator=generator,
        rewriter=rewriter,
        before=before,
    )
    return save(retriever.database, measured)


def measure(
    retriever: Retriever,
    eval_set: EvalSet,
    *,
    progress: Progress,
    generator: Generator | None = None,
    rewriter: "Rewriter | None" = None,
    before: StoredRun | None = None,
) -> Run:
    """Every case through rewriting and search, scored and followed; not saved.

    With a generator each is answered as well; with a run of before, compared with it. Raises as
    the generator does.
    """
    started_at, found_index = datetime.now(UTC), index.load(retriever)
    results = []
    for done, case in enumerate(eval_set.cases, 1):
        results.append(_measure_case(retriever, case, generator, rewriter))
        progress(done, len(eval_set.cases))
    settings = _build_settings(results, generator)
    return Run(
        run_id=0,  # given by save
        name=eval_set.name,
        started_at=started_at,
        commit=commit.find(),
        settings=settings,
        index=found_index,
        results=tuple(results),
        means=evaluation.means(results),
        comparison=compare(before, results, settings) if before else None,
    )


def measure_again(
    retriever: Retriever,
    run: Run,
    cases: Sequence[EvalCase],
    *,
    generator: Generator | None = None,
    rewriter: "Rewriter | None" = None,
) -> Run:
    """A run that is not saved yet, with these of its cases measured anew, as they are now."""
    anew = {case.case_id: _measure_case(retriever, case, generator, rewriter) for case in cases}
    results = tuple(anew.get(result.case.case_id, result) for result in run.results)
    before = run.comparison
    return replace(
        run,
        results=results,
        means=evaluation.means(results),
        comparison=before and compare(before.before, results, run.settings),
    )


def _measure_case(
    retriever: Retriever,
    case: EvalCase,
    generator: Generator | None,
    rewriter: "Rewriter | None",
) -> CaseResult:
    retrieval = search(retriever, case.turns, rewriter).retrieval
    answer = answer_case(generator, case, retrieval) if generator else None
    trails = evaluation.follow(case, retrieval, retriever)
    return evaluation.build_result(case, retrieval, answer, trails)


def _build_settings(
    results: Sequence[CaseResult], generator: Generator | None
) -> Mapping[str, object]:
    """What the last case went by, how often each way of rewriting was gone, and the generator's."""
    each = [result.retrieval.settings for result in results]
    rewritings = Counter(str(settings["rewriting"]) for settings in each)
    last = each[-1] if each else {}
    return {
        **last,
        "rewriting": dict(rewritings),
        **(generator.settings if generator else {}),
    }


def run_in_vain(
    retriever: Retriever, eval_set: EvalSet, reason: str, *, before: StoredRun | None = None
) -> Run:
    """The run of an index that cannot be searched, saved with why: nothing is found.

    So that it is told as the loss that it is for whoever asks. It went by no settings.
    """
    results = [_find_nothing(case, retriever) for case in eval_set.cases]
    run = Run(
        run_id=0,
        name=eval_set.name,
        started_at=datetime.now(UTC),
        commit=commit.find(),
        settings={},
        index=replace(index.load(retriever), failure=reason),
        results=tuple(results),
        means=evaluation.means(results),
        comparison=compare(before, results, before.settings) if before else None,
    )
    return save(retriever.database, run)


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
        found = load_last(database, name)
    else:
        found = load_run(database, int(wanted))
    if found is None:
        raise ConfigError(
            f"There is no run of {name} yet to compare with."
            if wanted == LAST
            else f"There is no run {wanted}. `footnote eval` names the number of each."
        )
    return found
