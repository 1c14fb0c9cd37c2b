"""The footnote command: parse, call one function, print."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app import cli_sync, database, rendering, syncing
from app.cli_cases import cases_group
from app.cli_index import index_group
from app.cli_pages import verify
from app.cli_purge import purge
from app.cli_trace import trace
from app.commands import (
    as_json,
    by_audience,
    check_writable,
    of_generation,
    open_database,
    open_reading,
    write,
)
from app.config import Settings, load_settings
from retrieval.db import Database
from retrieval.errors import ConfigError, FootnoteError

if TYPE_CHECKING:
    from app.answering import Answerer
    from app.eval_runs import Run, StoredRun
    from app.evaluating import EvalSet
    from retrieval.evaluation import EvalCase

# Threads of PyTorch that wait for work by spinning take the cores from PostgreSQL and from every
# other process: under load indexing took 3.5 times as long. Read when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# What needs PyTorch is imported in the command that runs it: loading it takes seconds, and
# nobody should wait for that to read the help.


class _Commands(click.Group):
    """Shows an error that a person can do something about as one line, with status 1."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for each in args:
            if re.search("[\ud800-\udfff]", each):  # what stands for bytes of no character
                raise click.ClickException(f"{each!r} is not written in UTF-8.")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FootnoteError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands)
@click.version_option(package_name="footnote")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Answers questions from your own documents, with a footnote behind every claim."""
    ctx.obj = load_settings()


main.add_command(cases_group)
main.add_command(cli_sync.sync_sources)
main.add_command(index_group)
main.add_command(purge)
main.add_command(trace)
main.add_command(verify)


@main.command()
@click.pass_obj
def migrate(settings: Settings) -> None:
    """Create or upgrade the schema."""
    from retrieval import schema

    before, after = schema.migrate(database.find_url(settings))
    click.echo(f"The schema is at {after}." if before == after else f"Schema {after} created.")


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--source", help="Name of the source; default: the folder's name.")
@click.option("--base-url", metavar="URL", help="Where the documents are read; links start here.")
@click.option("--tenant", help="Whose documents they are; default: TENANT_ID.")
@click.option("--prune", is_flag=True, help="Remove at once what the folder has no more.")
@click.pass_obj
def ingest(
    settings: Settings,
    path: Path,
    source: str | None,
    base_url: str | None,
    tenant: str | None,
    prune: bool,
) -> None:
    """Index a folder of documents; only what changed is done again."""
    from retrieval import sync
    from retrieval.sources import folder
    from retrieval.sources.catalog import Source

    described = Source(name=source or path.resolve().name, path=path, base_url=base_url)
    if tenant in (None, settings.tenant_id):
        syncing.refuse_named(settings, described)
    settings = settings.model_copy(update={"tenant_id": tenant} if tenant else {})
    click.echo(f"{len(folder.find_files(path)):,} files in {path}", err=True)
    opened = open_database(settings)
    sync.name_source(opened, path, source)
    cli_sync.run(sync.ingest, syncing.build_syncer(settings, opened), described, prune=prune)


@main.command()
@click.argument("questions", metavar="QUESTION...", nargs=-1, required=True)
@by_audience
@as_json
@click.pass_obj
def ask(
    settings: Settings, questions: tuple[str, ...], audience: tuple[str, ...], as_json: bool
) -> None:
    """Answer questions in the terminal, each by itself."""
    from app import parts
    from app.answering import ask
    from app.records import Turn

    if len(questions) > 1 and not any(" " in question for question in questions):
        raise click.UsageError(f'Put a question in quotes: footnote ask "{" ".join(questions)}"')
    answerer = parts.build_answerer(settings, open_reading(settings, audience))
    for number, question in enumerate(questions):
        asked = ask(answerer, [Turn(speaker="user", text=question)])
        if as_json:
            click.echo(json.dumps(rendering.build_asked(asked), ensure_ascii=False))
        elif len(questions) == 1:
            click.echo(rendering.build_answer(asked.answer))
        else:
            separator = "\n\n" if number else ""
            click.echo(f"{separator}> {question}\n\n{rendering.build_answer(asked.answer)}")


@main.command()
@by_audience
@click.pass_obj
def chat(settings: Settings, audience: tuple[str, ...]) -> None:
    """Ask one question after another; an empty line ends it."""
    from app import parts
    from app.answering import ask
    from app.records import Turn

    answerer = parts.build_answerer(settings, open_reading(settings, audience))
    turns: list[Turn] = []
    while question := _read_line():
        turns.append(Turn(speaker="user", text=question))
        asked = ask(answerer, turns)
        turns.append(Turn(speaker="bot", text=asked.answer.text))
        click.echo("\n" + rendering.build_answer(asked.answer) + "\n")


def _read_line() -> str:
    try:
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


@main.command()
@click.argument("question")
@by_audience
@as_json
@click.pass_obj
def retrieve(settings: Settings, question: str, audience: tuple[str, ...], as_json: bool) -> None:
    """Search only: what each stage found, with scores and times."""
    from app import parts
    from app.records import Turn
    from app.searching import search

    retriever = parts.build_retriever(settings, open_reading(settings, audience))
    turns = [Turn(speaker="user", text=question)]
    retrieval = search(retriever, turns, parts.build_rewriter(settings)).retrieval
    if as_json:
        click.echo(json.dumps(rendering.build_retrieval(retrieval), ensure_ascii=False))
    else:
        click.echo(rendering.build_retrieval_text(retrieval))


@main.command("eval")
@click.argument("case_files", metavar="[CASES...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--cases", "is_own_set", is_flag=True, help="The approved cases, not those of files.")
@click.option(
    "--post", "is_posted", is_flag=True, help="Report it as the nightly run does, tickets included."
)
@as_json
@click.option(
    "--dump",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write what was found for each case, one JSON object a line.",
)
@click.option("--answers", is_flag=True, help="Answer each case too, and measure the answers.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write a page with pictures, and what was found instead for each case that failed.",
)
@click.option(
    "--compare", metavar="RUN", help="A run of before, by its number, or `last`: won and lost."
)
@of_generation
@click.option(
    "--set",
    "settings_tried",
    metavar="NAME=VALUE[,…]",
    multiple=True,
    help="Try other settings, and show what they would change; nothing is saved. With --cases on"
    " those that are not held out.",
)
@click.pass_obj
def evaluate(
    settings: Settings,
    case_files: tuple[Path, ...],
    is_own_set: bool,
    is_posted: bool,
    as_json: bool,
    dump: Path | None,
    answers: bool,
    report: Path | None,
    compare: str | None,
    generation_id: int | None,
    settings_tried: tuple[str, ...],
) -> None:
    """Measure the search on cases with known answers; each file is a set of its own.

    The approved cases are run without a model to word the questions, as they are every night.
    """
    if bool(case_files) == is_own_set:
        raise click.UsageError("Give files of cases or --cases, one of the two.")
    if is_posted and not is_own_set:
        raise click.UsageError("--post goes with --cases.")
    if is_posted and generation_id is not None:
        raise click.UsageError("--post is for the generation that is searched.")
    if settings_tried and (dump or report or compare or is_posted):
        raise click.UsageError("--set goes with neither --dump, --report, --compare nor --post.")
    if settings_tried:
        _try(settings, case_files, settings_tried, generation_id, answers=answers, as_json=as_json)
        return
    from app import evaluating
    from app.loop import caseset, nightly

    client = nightly.find_client(settings) if is_posted else None
    sets = evaluating.load_sets(case_files)
    for path in filter(None, (dump, report)):
        check_writable(path)
    opened = open_database(settings)
    if is_own_set:
        caseset.follow_pages(opened)
        sets = [caseset.load_set(opened)]
    before = evaluating.find_runs(opened, compare, sets) if compare else {}
    answerer = _assemble(settings, opened, generation_id, is_own_set=is_own_set)
    if not is_posted:  # else it is told as what it is, a run in which nothing is found
        answerer.retriever.check()
    measure = nightly.measure if is_posted else evaluating.run
    runs = _measure(measure, answerer, sets, before, answers=answers)
    _write_runs(runs, dump=dump, report=report)
    _print_runs(runs, as_json=as_json)
    if is_posted:
        nightly.conclude(opened, settings, client, runs[0])


def _assemble(
    settings: Settings, opened: Database, generation_id: int | None, *, is_own_set: bool
) -> "Answerer":
    """What is measured; without a model to word the questions on the approved cases."""
    from app import parts

    retriever = parts.build_retriever(settings, opened, generation_id)
    answerer = parts.assemble_answerer(settings, retriever)
    return replace(answerer, rewriter=None) if is_own_set else answerer


def _measure(
    measure: Callable[..., "Run"],
    answerer: "Answerer",
    sets: Iterable["EvalSet"],
    before: Mapping[str, "StoredRun"],
    *,
    answers: bool,
) -> list["Run"]:
    """A run of each set, beside the one before that there may be for its name."""
    runs = []
    for eval_set in sets:
        with rendering.progress_bar("case") as progress:
            run = measure(
                answerer.retriever,
                eval_set,
                progress=progress,
                generator=answerer.generator if answers else None,
                rewriter=answerer.rewriter,
                before=before.get(eval_set.name),
            )
        runs.append(run)
    return runs


def _write_runs(runs: Sequence["Run"], *, dump: Path | None, report: Path | None) -> None:
    from app.report import build_page
    from retrieval import evaluation

    if dump:
        rows = (evaluation.build_dump_row(result) for run in runs for result in run.results)
        write(dump, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    if report:
        write(report, build_page(runs))


def _print_runs(runs: Sequence["Run"], *, as_json: bool) -> None:
    from app import figures

    if as_json:
        for run in runs:
            click.echo(json.dumps(figures.build_run_json(run), ensure_ascii=False))
    else:
        click.echo("\n\n".join(map(figures.build_run, runs)))


def _try(
    settings: Settings,
    case_files: Sequence[Path],
    settings_tried: Sequence[str],
    generation_id: int | None,
    *,
    answers: bool,
    as_json: bool,
) -> None:
    """Print what each variant changes on each set, or on the approved cases; writes nothing.

    Settings are chosen by what this tells, so it leaves out what is held out.
    """
    from app import evaluating, figures, parts
    from app.loop import caseset, variants

    tried = variants.parse(settings_tried, parts.find_tuning(settings))
    sets = evaluating.load_sets(case_files)
    opened = open_database(settings)
    sets = sets or [caseset.load_set(opened, held_out=False)]
    answerer = _assemble(settings, opened, generation_id, is_own_set=not case_files)
    answerer.retriever.check()
    found = []
    for eval_set in sets:
        with rendering.progress_bar("case") as progress:
            what_if = variants.measure(
                answerer.retriever,
                eval_set,
                tried,
                progress=progress,
                generator=answerer.generator if answers else None,
                rewriter=answerer.rewriter,
            )
        found.append(what_if)
    if as_json:
        for line in (line for each in found for line in figures.build_what_if_json(each)):
            click.echo(json.dumps(line, ensure_ascii=False))
    else:
        click.echo("\n\n".join(map(figures.build_what_if, found)))


@main.command()
@click.argument("cases", type=click.Path(path_type=Path))
@as_json
@click.option(
    "--skip-tutorial",
    is_flag=True,
    help="Leave out the row that needs all documents embedded once more, which takes minutes.",
)
@click.pass_obj
def ablation(settings: Settings, cases: Path, as_json: bool, skip_tutorial: bool) -> None:
    """What each stage of the search brings on cases with known answers, as a Markdown table.

    Queries of a model are taken from CASES.rewrites.jsonl where that is there.
    """
    from app import evaluating, figures, parts
    from retrieval import ablation, evaluation

    loaded = evaluation.load_cases(cases)
    rewrites = evaluating.load_rewrites(cases.with_suffix(".rewrites.jsonl"))
    retriever = parts.build_retriever(settings, open_database(settings))
    tutorial = None
    if not skip_tutorial:
        with rendering.progress_bar("window") as progress:
            tutorial = ablation.search_windows(retriever, progress)
    with rendering.progress_bar("stage") as progress:
        rows = evaluating.ablate(
            retriever, loaded, tutorial=tutorial, rewrites=rewrites, progress=progress
        )
    if as_json:
        for row in rows:
            line = {"stage": row.stage, **row.values, "median_ms": row.median_ms}
            click.echo(json.dumps(line, ensure_ascii=False))
    else:
        click.echo(figures.build_ablation(rows))


@main.command()
@click.argument("case_files", metavar="[CASES...]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the fitted model, to be kept as retrieval/relevance.json.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Use the fitted model, if it is better.")
@click.option("--revert", "is_reverted", is_flag=True, help="Undo the last --apply.")
@of_generation
@click.pass_obj
def calibrate(
    settings: Settings,
    case_files: tuple[Path, ...],
    out: Path | None,
    is_applied: bool,
    is_reverted: bool,
    generation_id: int | None,
) -> None:
    """Fit relevance and floor on cases, and show what that is worth; changes nothing by itself.

    Without CASES, on the approved ones that are not held out, which then serve as a check.
    """
    if is_reverted and (case_files or out or is_applied or generation_id is not None):
        raise click.UsageError("--revert goes with nothing else.")
    if out:
        check_writable(out)
    opened = open_database(settings)
    if is_reverted:
        _revert(settings, opened)
        return
    from app import evaluating, parts
    from retrieval import relevance

    sets, held_out = _load_calibrated(opened, case_files)
    retriever = parts.build_retriever(settings, opened, generation_id)
    # Once each, however often it is given: cross-validation must not have seen it.
    cases = {case.content_digest: case for each in sets for case in each.cases}
    with rendering.progress_bar("case") as progress:
        calibration = evaluating.calibrate(
            retriever,
            list(cases.values()),
            names=list(dict.fromkeys(each.name for each in sets)),
            progress=progress,
            held_out=held_out,
        )
    click.echo(rendering.build_calibration(calibration))
    if out:
        write(out, relevance.build_json(calibration.fitted.model))
    if is_applied and calibration.is_better and calibration.is_new:
        with opened.transaction() as connection:
            relevance.replace_in_use(
                connection, calibration.fitted.model, before=calibration.in_use
            )
        undo = "`footnote calibrate --revert` undoes it"
        switch = f"`footnote index switch {generation_id}` has it searched"
        click.echo(f"applied; {undo if generation_id is None else switch}")
    elif is_applied:
        click.echo("not applied")


def _load_calibrated(
    opened: Database, case_files: tuple[Path, ...]
) -> tuple[list["EvalSet"], list["EvalCase"]]:
    """The sets to fit on, and the cases to check it by."""
    from app.evaluating import EvalSet
    from retrieval import evaluation

    if not case_files:
        from app.loop import cases, caseset

        approved = cases.list_cases(opened, "approved")
        held_out = [case.eval_case for case in approved if case.held_out]
        return [caseset.load_set(opened, held_out=False)], held_out
    # Unlike in a run, cases of two files may share an id.
    return [
        EvalSet(name=evaluation.name_cases(path), cases=tuple(evaluation.load_cases(path)))
        for path in case_files
    ], []


def _revert(settings: Settings, opened: Database) -> None:
    """Put the model before the last one that was applied back in use."""
    from app import parts
    from retrieval import relevance

    basis = parts.build_retriever(settings, opened).basis
    with opened.transaction() as connection:
        if not relevance.revert(connection, basis):
            raise ConfigError("There is nothing to undo: no calibration is applied.")
        model = relevance.find(connection, basis)
    if model is None:
        click.echo("In use now: nothing. Run `footnote calibrate CASES --apply` to answer again.")
    else:
        click.echo(f"In use now: {rendering.build_model(model)}")


@main.group("synonyms")
def synonyms_group() -> None:
    """What people call a thing, and what the documents call it."""


@synonyms_group.command("list")
@as_json
@click.pass_obj
def list_synonyms(settings: Settings, as_json: bool) -> None:
    """All synonyms, in the format that `add --file` reads."""
    from app import synonyms

    for synonym in synonyms.load(open_database(settings)):
        click.echo(json.dumps(asdict(synonym), ensure_ascii=False) if as_json else synonym.line)


@synonyms_group.command("add")
@click.argument("phrase", required=False)
@click.argument("meaning", required=False)
@click.option("--one-way", is_flag=True, help="Not the phrase for the meaning, too.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="Add all of a file in Solr's format: `a, b, c` and `a => b`.",
)
@click.pass_obj
def add_synonyms(
    settings: Settings, phrase: str | None, meaning: str | None, one_way: bool, path: Path | None
) -> None:
    """Search for MEANING as well where PHRASE is asked for, and the other way round."""
    from app import synonyms

    if path and not (phrase or one_way):
        wanted = synonyms.read_file(path)
    elif phrase and meaning and not path:
        wanted = [synonyms.build(phrase, meaning, two_way=not one_way)]
    else:
        raise click.UsageError("Give PHRASE and MEANING, or --file FILE.")
    new = synonyms.add(open_database(settings), wanted)
    click.echo(f"{new} added, {len(wanted) - new} there before")


@synonyms_group.command("remove")
@click.argument("phrase")
@click.argument("meaning", required=False)
@click.pass_obj
def remove_synonyms(settings: Settings, phrase: str, meaning: str | None) -> None:
    """Forget MEANING for PHRASE, and the other way round; without MEANING all of them."""
    from app import synonyms

    removed = synonyms.remove(open_database(settings), phrase, meaning)
    click.echo("\n".join(f"removed {synonym.line}" for synonym in removed) or "nothing to remove")


@synonyms_group.command("suggest")
@as_json
@click.pass_obj
def suggest_synonyms(settings: Settings, as_json: bool) -> None:
    """Pairs from questions that went wrong and abbreviations from documents; adds nothing."""
    from app import suggesting

    for suggestion in suggesting.suggest(open_database(settings)):
        if as_json:
            click.echo(json.dumps(asdict(suggestion), ensure_ascii=False))
        else:
            click.echo(suggesting.build_text(suggestion))


@main.command()
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 36_500))
@as_json
@click.pass_obj
def stats(settings: Settings, days: int, as_json: bool) -> None:
    """What was asked and how it went, as /ragstats shows it to an admin."""
    from app import ragstats
    from app import stats as sums

    loaded = sums.load_stats(
        open_database(settings),
        sums.Scope(days=days),
        viewer=sums.Viewer(is_admin=True),  # whoever has the database may read all of it
        settings=settings,
    )
    click.echo(sums.to_json(loaded) if as_json else ragstats.build_text(loaded))


@main.command()
@click.pass_obj
def serve(settings: Settings) -> None:
    """Run the Slack bot until it is stopped."""
    from app import serve, serve_tenants

    run = serve.run if settings.slack_client_id is None else serve_tenants.run
    run(settings)


@main.command()
@click.pass_obj
def worker(settings: Settings) -> None:
    """Answer what `footnote serve` hears, beside it, until it is stopped."""
    from app import serve, serve_tenants

    run = serve.run_worker if settings.slack_client_id is None else serve_tenants.run_worker
    run(settings)


@main.command()
@as_json
@click.pass_obj
def doctor(settings: Settings, as_json: bool) -> None:
    """What is missing, stale or misconfigured; status 1 when something has to be done."""
    from app import doctor

    findings = doctor.examine(settings)
    if as_json:
        rows = [finding.to_json() for finding in findings]
        click.echo(json.dumps({"findings": rows}, ensure_ascii=False))
    else:
        click.echo(doctor.build_text(findings))
    if any(finding.level == "error" for finding in findings):
        sys.exit(1)
