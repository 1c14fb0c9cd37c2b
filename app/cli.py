"""The footnote command: parse, call one function, print."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from app import database, rendering
from app.config import Settings, load_settings
from retrieval.db import Database
from retrieval.errors import ConfigError, FootnoteError

# Threads of PyTorch that wait for work by spinning take the cores from PostgreSQL and from every
# other process: under load indexing took 3.5 times as long. Read when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# What needs PyTorch is imported in the command that runs it: loading it takes seconds, and
# nobody should wait for that to read the help.


class _Commands(click.Group):
    """Shows an error that a person can do something about as one line, with status 1."""

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


def _open(settings: Settings) -> Database:
    """The database, until the command ends."""
    opened = database.open_database(settings)
    click.get_current_context().call_on_close(opened.close)
    return opened


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@main.command()
@click.pass_obj
def migrate(settings: Settings) -> None:
    """Create or upgrade the schema."""
    from retrieval import db

    before, after = db.migrate(database.find_url(settings))
    click.echo(f"The schema is at {after}." if before == after else f"Schema {after} created.")


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--source", help="Name of the source; default: the folder's name.")
@click.option("--base-url", metavar="URL", help="Where the documents are read; links start here.")
@click.option("--tenant", help="Whose documents they are; default: TENANT_ID.")
@click.option("--prune", is_flag=True, help="Remove documents that the folder no longer has.")
@click.pass_obj
def ingest(
    settings: Settings,
    path: Path,
    source: str | None,
    base_url: str | None,
    tenant: str | None,
    prune: bool,
) -> None:
    """Index a folder of Markdown files; only what changed is done again."""
    from app import parts
    from retrieval import indexing
    from retrieval.sources import markdown
    from retrieval.tuning import DEFAULT

    settings = settings.model_copy(update={"tenant_id": tenant} if tenant else {})
    files = markdown.find_files(path)
    click.echo(f"{len(files):,} files in {path}", err=True)
    opened = _open(settings)
    with rendering.progress_bar("document") as progress:
        summary = indexing.ingest(
            opened,
            parts.load_embedder(settings),
            markdown.read_files(files, folder=path, base_url=base_url),
            source=indexing.name_source(opened, path, source),
            tuning=DEFAULT,
            prune=prune,
            progress=progress,
        )
    click.echo(rendering.build_summary(summary))


@main.command()
@click.argument("questions", metavar="QUESTION...", nargs=-1, required=True)
@as_json
@click.pass_obj
def ask(settings: Settings, questions: tuple[str, ...], as_json: bool) -> None:
    """Answer questions in the terminal, each by itself."""
    from app import parts
    from app.answering import ask
    from app.records import Turn

    answerer = parts.build_answerer(settings, _open(settings))
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
@click.pass_obj
def chat(settings: Settings) -> None:
    """Ask one question after another; an empty line ends it."""
    from app import parts
    from app.answering import ask
    from app.records import Turn

    answerer = parts.build_answerer(settings, _open(settings))
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
@as_json
@click.pass_obj
def retrieve(settings: Settings, question: str, as_json: bool) -> None:
    """Search only: what each stage found, with scores and times."""
    from app import parts
    from app.records import Turn
    from app.rewrite import rewrite

    retriever = parts.build_retriever(settings, _open(settings))
    retrieval = retriever.retrieve(rewrite([Turn(speaker="user", text=question)]))
    if as_json:
        click.echo(json.dumps(rendering.build_retrieval(retrieval), ensure_ascii=False))
    else:
        click.echo(rendering.build_retrieval_text(retrieval))


@main.command("eval")
@click.argument("cases", type=click.Path(path_type=Path))
@as_json
@click.option(
    "--dump",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write what was found for each case, one JSON object a line.",
)
@click.option("--answers", is_flag=True, help="Answer each case too, and measure the answers.")
@click.pass_obj
def evaluate(
    settings: Settings, cases: Path, as_json: bool, dump: Path | None, answers: bool
) -> None:
    """Measure the search on cases with known answers."""
    from app import evaluating, parts
    from retrieval import evaluation

    loaded = evaluation.load_cases(cases)
    answerer = parts.build_answerer(settings, _open(settings))
    with rendering.progress_bar("case") as progress:
        run = evaluating.run(
            answerer.retriever,
            loaded,
            name=cases.name,
            progress=progress,
            generator=answerer.generator if answers else None,
        )
    if dump:
        rows = map(evaluation.build_dump_row, run.results)
        _write(dump, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    if as_json:
        click.echo(json.dumps({"run_id": run.run_id, "settings": run.settings, "means": run.means}))
    else:
        click.echo(evaluation.build_table(run.means))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


@main.command()
@click.argument(
    "case_files", metavar="CASES...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the fitted model, to be kept as retrieval/relevance.json.",
)
@click.pass_obj
def calibrate(settings: Settings, case_files: tuple[Path, ...], out: Path | None) -> None:
    """Fit relevance and floor on cases; prints coverage against false answers."""
    from app import evaluating, parts
    from retrieval import evaluation

    cases = [case for path in case_files for case in evaluation.load_cases(path)]
    retriever = parts.build_retriever(settings, _open(settings))
    with rendering.progress_bar("case") as progress:
        calibration = evaluating.calibrate(
            retriever,
            cases,
            names=[f"{path.resolve().parent.name}/{path.stem}" for path in case_files],
            progress=progress,
        )
    click.echo(rendering.build_calibration(calibration))
    if out:
        calibration.model.save(out)


@main.command()
@click.option("--days", default=30, show_default=True, type=click.IntRange(1))
@as_json
@click.pass_obj
def stats(settings: Settings, days: int, as_json: bool) -> None:
    """What was asked and how it went, as /ragstats shows it."""
    from app import stats as stats_module

    loaded = stats_module.load_stats(_open(settings), days=days)
    click.echo(stats_module.to_json(loaded) if as_json else stats_module.build_text(loaded))


@main.command()
@click.pass_obj
def serve(settings: Settings) -> None:
    """Run the Slack bot until it is stopped."""
    from app import serve

    serve.run(settings)


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
