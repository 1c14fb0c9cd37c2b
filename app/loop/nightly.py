"""The nightly run: all approved cases over the live index, the report of it, and its ticket."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from sqlalchemy import text

from app import eval_runs, evaluating, posting
from app.blocks import Message
from app.config import Settings
from app.eval_runs import Run, StoredRun
from app.evaluating import EvalSet, Progress
from app.generate.generator import Generator
from app.loop import (
    cases,
    caseset,
    chart,
    digest,
    drops,
    nightly_blocks,
    tickets,
    trackers,
)
from app.loop.chart import Point
from app.loop.drops import METRIC, WINDOW
from app.loop.nightly_blocks import Figure, Night, PageLink
from app.posting import File
from app.rights import Rights, RightsUnknown
from retrieval.db import EVERYONE, EVERYTHING, Database
from retrieval.errors import ConfigError, FootnoteError, IndexMismatch
from retrieval.evaluation import CaseResult, EvalCase
from retrieval.retrieve import Retriever

if TYPE_CHECKING:  # takes seconds to import, and no night needs it
    from app.reword import Rewriter

CHARTED = 60  # runs
NO_PICTURE = "There is no picture, as Slack did not take it: {reason}."
NO_SCOPE = "the app lacks the scope files:write"

log = logging.getLogger(__name__)


class ReportRefused(FootnoteError):
    """Slack did not take the report; a right REPORT_CHANNEL, or inviting Footnote there, helps."""


def find_client(settings: Settings) -> WebClient | None:
    """What posts the report, None where no channel for it is set.

    Raises ConfigError when the token for it is not, or there is neither channel nor tracker, and
    as trackers.build does.
    """
    trackers.build(settings)
    if settings.report_channel is None:
        if settings.tickets is None:
            raise ConfigError("Set REPORT_CHANNEL, TICKETS or both: there is nobody to tell.")
        return None
    if settings.slack_bot_token is None:
        raise ConfigError("REPORT_CHANNEL is set: set SLACK_BOT_TOKEN too.")
    token = settings.slack_bot_token.get_secret_value()
    return posting.build_client(token, settings.slack_api_url)


def run(retriever: Retriever, settings: Settings, client: WebClient, *, progress: Progress) -> None:
    """Measure all approved cases, if there are any, and conclude the night; raises as that does."""
    retriever = retriever.settled()  # what is measured by two models is measured by none
    retriever = retriever.reading_as(EVERYTHING)
    database = retriever.database
    caseset.follow_pages(database)
    try:
        eval_set = caseset.load_set(database)
    except ConfigError:
        log.info("No case is approved: nothing was run")
        measured = None
    else:
        measured = measure(retriever, eval_set, progress=progress)
    conclude(database, settings, client, measured)


def conclude(
    database: Database, settings: Settings, client: WebClient | None, run: Run | None
) -> None:
    """Report a run, if there was one; once a week the digest.

    Raises as report does.
    """
    if run is not None:
        report(database, settings, client, run)
    if client is not None:
        _post_digest(database, settings, client)


def _post_digest(database: Database, settings: Settings, client: WebClient) -> None:
    """Post the digest of the week if it is due; refused, it is tried again the next night."""
    if settings.report_channel is None:
        return
    try:
        _check_readers(client, database, settings.report_channel)
        everyones = database.reading_as(EVERYONE)
        digest.post_weekly(client, everyones, settings, now=datetime.now(UTC))
    except ReportRefused as error:
        log.error("No digest: %s", error)
    except SlackApiError as error:
        log.error("No digest in %s: %s", settings.report_channel, error.response.get("error"))
    except posting.PostLost:
        log.warning("The digest may stand in %s", settings.report_channel)


def measure(
    retriever: Retriever,
    eval_set: EvalSet,
    *,
    progress: Progress,
    generator: Generator | None = None,
    rewriter: "Rewriter | None" = None,
    before: StoredRun | None = None,
) -> Run:
    """As evaluating.run, but in an index that cannot be searched nothing is found.

    One that does not fit the model is such a one: nobody gets an answer from it, either. Where
    recall has fallen, the lost cases are measured once more: their pages may have been moved
    meanwhile.
    """
    try:
        retriever.check()
    except (ConfigError, IndexMismatch) as error:
        log.error("Nothing could be searched: %s", type(error).__name__)
        return evaluating.run_in_vain(retriever, eval_set, str(error), before=before)
    run = evaluating.measure(
        retriever,
        eval_set,
        progress=progress,
        generator=generator,
        rewriter=rewriter,
        before=before,
    )
    lost = _find_lost(retriever.database, run)
    if lost:
        run = evaluating.measure_again(retriever, run, lost, generator=generator, rewriter=rewriter)
    return eval_runs.save(retriever.database, run)


def _find_lost(database: Database, run: Run) -> list[EvalCase]:
    """The cases that a drop lost, with their pages as they are by now; empty without a drop."""
    runs = eval_runs.load_reported(database, run.name, limit=WINDOW)
    drop = drops.find(runs, run)
    if drop is None:
        return []
    caseset.follow_pages(database)
    now = {case.case_id: case.eval_case for case in cases.list_cases(database, "approved")}
    lost = {change.case_id for change in drop.difference.lost}
    measured = [result.case for result in run.results]
    return [now.get(case.case_id, case) for case in measured if case.case_id in lost]


def report(database: Database, settings: Settings, client: WebClient | None, run: Run) -> Night:
    """Tell of a run what there is to tell: to the tracker first, then to the report's channel.

    That is what everyone may know, as many read both: cases of other pages are left out.

    From then on others are compared with it. Where a later run was reported before, the tracker
    knows better. Where no channel is set, or there is no client, nothing is posted. Raises
    ConfigError as trackers.build does, ReportRefused, and PostLost when nobody knows whether it
    stands there.
    """
    database = database.reading_as(EVERYONE)
    run = _leave_out_restricted(database, run)
    took_s = (datetime.now(UTC) - run.started_at).total_seconds()
    tracker = trackers.build(settings)
    is_latest = eval_runs.mark_reported(database, run)
    runs = eval_runs.load_reported(database, run.name, before=run.run_id, limit=WINDOW)
    drop = drops.find(runs, run)
    alarm = tickets.raise_alarm(database, drop, run) if drop else None
    news = tickets.keep_up(database, tracker, run, alarm) if tracker and is_latest else None
    standing = _load_standing(database)
    night = Night(
        run=run,
        before=next(iter(runs), None),
        recall=_build_figure(run.results, runs),
        held_out=_build_figure(standing.pick_held_out(run.results), runs),
        pages=_load_pages(database, run),
        alarm=alarm,
        news=news,
        orphaned=standing.orphaned,
        proposed=standing.proposed,
        took_s=took_s,
    )
    if client is not None and settings.report_channel is not None:
        _check_readers(client, database, settings.report_channel)
        points = load_points(database, run, standing.held_out)
        _post(client, settings.report_channel, nightly_blocks.build_message(night), points)
    return night


def _leave_out_restricted(database: Database, run: Run) -> Run:
    """The run without the cases that not everyone may read, or of which that is not known, as
    they are gone."""
    readable = {case.case_id for case in cases.list_cases(database)}
    return replace(
        run, results=tuple(each for each in run.results if each.case.case_id in readable)
    )


def _check_readers(client: WebClient, database: Database, channel_id: str) -> None:
    """Raise ReportRefused where others than colleagues may read along."""
    try:
        readers = Rights(client, database).find_for_channel(channel_id)
    except RightsUnknown as error:
        raise ReportRefused(f"Slack does not say who reads in {channel_id}.") from error
    if "everyone" not in readers:
        raise ReportRefused(
            f"People of another company read in {channel_id}: set another REPORT_CHANNEL."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the set stands."""

    held_out: frozenset[str]  # ids of approved cases that nothing is fitted on
    orphaned: int  # approved cases
    proposed: int

    def pick_held_out(self, results: Sequence[CaseResult]) -> list[CaseResult]:
        return [result for result in results if result.case.case_id in self.held_out]


def _load_standing(database: Database) -> Standing:
    with database.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT coalesce(array_agg(case_id)
                           FILTER (WHERE state = 'approved' AND held_out), '{}') AS held_out,
                       count(*) FILTER (
                           WHERE state = 'approved' AND orphaned_at IS NOT NULL) AS orphaned,
                       count(*) FILTER (WHERE state = 'proposed') AS proposed
                FROM eval_cases
            """)
        ).one()
    return Standing(held_out=frozenset(row.held_out), orphaned=row.orphaned, proposed=row.proposed)


def _build_figure(results: Sequence[CaseResult], runs: Sequence[StoredRun]) -> Figure | None:
    """recall@5 of these cases, and what it was in the first of the runs."""
    values = [result.values[METRIC] for result in results if METRIC in result.values]
    if not values:
        return None
    return Figure(
        cases=len(values),
        value=sum(values) / len(values),
        difference=drops.compare(runs[0], results) if runs else None,
    )


def _load_pages(database: Database, run: Run) -> dict[str, PageLink]:
    """The pages that answer the cases, by path; of two sources with one path, either."""
    paths = {gold.doc for result in run.results for each in result.case.answers for gold in each}
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT path, title, url FROM documents WHERE path = ANY(:paths)"),
            {"paths": sorted(paths)},
        )
        return {row.path: PageLink(title=row.title, url=row.url) for row in rows}


def load_points(database: Database, run: Run, held_out: frozenset[str]) -> list[Point]:
    """The last runs of the set that were reported, as they are drawn, up to this one, oldest first.

    At any time they are of the cases that may be read now, and those held out are so now.
    """
    with database.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT started_at, recall, held_out
                FROM eval_runs CROSS JOIN LATERAL (
                    SELECT avg(found) AS recall,
                           avg(found) FILTER (WHERE case_id = ANY(:held_out)) AS held_out
                    FROM jsonb_array_elements(results) AS result
                    CROSS JOIN LATERAL (
                        SELECT result ->> 'id' AS case_id, (result ->> :metric)::float8 AS found
                    ) AS measured
                    JOIN eval_cases USING (case_id)
                ) AS told
                WHERE cases_name = :name AND is_reported AND run_id <= :run_id
                ORDER BY run_id DESC LIMIT :charted
            """),
            {
                "metric": METRIC,
                "held_out": sorted(held_out),
                "name": run.name,
                "run_id": run.run_id,
                "charted": CHARTED,
            },
        )
        return [Point(**row._mapping) for row in rows][::-1]


def _post(client: WebClient, channel_id: str, message: Message, points: Sequence[Point]) -> None:
    """Post the report once, with the picture where there is something to draw."""
    try:
        if any(point.recall is not None for point in points):
            _share(client, channel_id, message, points)
        else:
            posting.tell(client, channel_id, message)
    except SlackApiError as error:
        told = error.response.get("error")
        log.error("No report in %s: %s", channel_id, told)
        raise ReportRefused(f"Slack does not take the report for {channel_id}: {told}.") from error


def _share(client: WebClient, channel_id: str, message: Message, points: Sequence[Point]) -> None:
    """Post the report with the picture or, where Slack does not take that, without."""
    picture = File(
        name="recall.png",
        content=chart.build_png(points),
        alt_text=chart.build_alt_text(points),
    )
    try:
        posting.share(client, channel_id, message, picture)
    except posting.FileRefused as error:
        log.warning("No picture in %s: %s", channel_id, error)
        reason = NO_SCOPE if str(error) == "missing_scope" else str(error)
        note = NO_PICTURE.format(reason=reason)
        posting.tell(client, channel_id, nightly_blocks.add_note(message, note))
