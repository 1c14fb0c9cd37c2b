"""`footnote cases`: the eval set as it grows, and its review in the terminal."""

import getpass
import json
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from app import commands
from app.commands import as_json
from app.config import Settings
from app.loop import case_texts, casefiles, cases, review
from app.loop.cases import Decision, State
from retrieval.db import Database
from retrieval.errors import ConfigError

case_ids = click.argument("case_ids", metavar="CASE_ID...", nargs=-1, required=True)


@click.group("cases")
def cases_group() -> None:
    """The eval set as it grows: what was flagged, and what people made of it."""


@cases_group.command("list")
@click.option("--state", type=click.Choice(get_args(State)), help="Only those in this state.")
@as_json
@click.pass_obj
def list_cases(settings: Settings, state: State | None, as_json: bool) -> None:
    """All cases, the oldest first."""
    found = cases.list_cases(commands.open_database(settings), state)
    if as_json:
        for case in found:
            _echo_json(case_texts.build_json(case))
    else:
        click.echo("\n".join(map(case_texts.build_line, found)) or "no case")


@cases_group.command("show")
@click.argument("case_id")
@as_json
@click.pass_obj
def show(settings: Settings, case_id: str, as_json: bool) -> None:
    """All of a case, with what helps to decide about one that is proposed."""
    opened = commands.open_database(settings)
    _check_known(opened, [case_id])
    found = review.load_review(opened, case_id, settings.freshness_days)
    if found is None:
        raise ConfigError(f"{case_id} was taken back just now.")
    if as_json:
        _echo_json(case_texts.build_json(found.case))
    else:
        click.echo(case_texts.build_case(found))


@cases_group.command("approve")
@case_ids
@click.pass_obj
def approve(settings: Settings, case_ids: tuple[str, ...]) -> None:
    """Take cases into the set as they are; of one without a page, that no page answers.

    Cases that were dismissed come back.
    """
    _decide(settings, case_ids, "approved")


@cases_group.command("dismiss")
@case_ids
@click.pass_obj
def dismiss(settings: Settings, case_ids: tuple[str, ...]) -> None:
    """Say that the answers were right; cases that were in the set leave it."""
    _decide(settings, case_ids, "dismissed")


@cases_group.command("review")
@click.pass_obj
def review_cases(settings: Settings) -> None:
    """Decide about the proposed cases, one after the other; each decision counts at once."""
    opened = commands.open_database(settings)
    proposed = [case.case_id for case in cases.list_cases(opened, "proposed")]
    if not proposed:
        click.echo("nothing to review")
        return
    from app import parts
    from app.loop.reviewing import Reviewer

    reviewer = Reviewer(
        opened,
        parts.build_retriever(settings, opened),
        name=getpass.getuser(),
        freshness_days=settings.freshness_days,
    )
    outcomes = reviewer.review(proposed)
    left = len(cases.list_cases(opened, "proposed"))
    click.echo(f"{outcomes['approved']} approved, {outcomes['dismissed']} dismissed, {left} left")


@cases_group.command("export")
@click.argument(
    "path", metavar="[FILE]", required=False, type=click.Path(path_type=Path, dir_okay=False)
)
@click.pass_obj
def export(settings: Settings, path: Path | None) -> None:
    """The approved cases as JSON lines, as `footnote eval` and `footnote cases import` read them.

    With FILE they are written to it.
    """
    approved = cases.list_cases(commands.open_database(settings), "approved")
    lines = casefiles.export_lines(approved)
    if path is None:
        click.echo(lines, nl=False)
    else:
        commands.write(path, lines)
        click.echo(f"{len(approved)} cases written to {path}")


@cases_group.command("import")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.pass_obj
def import_cases(settings: Settings, path: Path) -> None:
    """Take the cases of a file of JSON lines into the set."""
    imported = casefiles.import_file(commands.open_database(settings), path, getpass.getuser())
    click.echo(f"{imported.new} new, {imported.changed} changed, {imported.unchanged} unchanged")


@cases_group.command("alike")
@as_json
@click.pass_obj
def alike(settings: Settings, as_json: bool) -> None:
    """Pairs of cases that may ask one thing, those that are most alike first; changes nothing."""
    from app import parts
    from app.loop import caseset

    opened = commands.open_database(settings)
    pairs = caseset.find_alike(opened, parts.load_embedder(settings))
    if as_json:
        for pair in pairs:
            ids = [pair.first.case_id, pair.second.case_id]
            _echo_json({"cases": ids, "similarity": round(pair.similarity, 4)})
    else:
        click.echo("\n".join(map(case_texts.build_alike, pairs)) or "no two are alike")


def _decide(
    settings: Settings,
    case_ids: Sequence[str],
    state: Decision,
) -> None:
    opened = commands.open_database(settings)
    _check_known(opened, case_ids)
    for case_id in case_ids:
        is_new = cases.overrule(opened, case_id, getpass.getuser(), state)
        click.echo(f"{case_texts.flatten(case_id)}  {state if is_new else f'was {state} before'}")


def _check_known(opened: Database, case_ids: Sequence[str]) -> None:
    """Raise ConfigError for the first that is no case, before anything is done about others."""
    for case_id in case_ids:
        if cases.load(opened, case_id) is None:
            raise ConfigError(
                f"There is no case {case_id!r}. `footnote cases list` has the ids of all."
            )


def _echo_json(row: dict[str, object]) -> None:
    click.echo(json.dumps(row, ensure_ascii=False))
