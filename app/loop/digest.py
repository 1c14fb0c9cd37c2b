"""What a week was like, for those who look after Footnote: gaps, stale pages, figures, cases."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection, text

from app import confirming, freshness, mrkdwn, posting, ragstats
from app.blocks import Message
from app.config import Settings
from app.counting import count
from app.loop import cases, caseset, schedule, stale_pages
from app.loop.stale_pages import StalePage
from app.ragstats import Part
from app.rights import Rights
from app.stats import Scope, Stats, Viewer, load_stats
from retrieval import verifying
from retrieval.db import Database

JOB = "digest"  # in scheduled_runs
DAYS = 7
MOST_STALE = 5  # pages that are named; the others are counted
TITLE_LENGTH = 80
OWNER_LENGTH = 40
LINK_LENGTH = 700  # with its label; of a longer one the label is left, so that all fits a message


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCounts:
    """How the set of cases has grown."""

    new: int  # in the week, whatever became of them
    approved: int  # in the week
    waiting: int  # for a review, now
    hidden: int = 0  # flagged answers that wait, and that fewer may read than read this


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """recall@5 of two nightly runs, over the answerable cases that both have as they are."""

    cases: int
    begin: float  # of the last run before the week, else of its first
    end: float  # of the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """All that is told of a week."""

    until: date
    stats: Stats  # of the week, beside the week before
    stale: tuple[StalePage, ...]  # the most cited first
    stale_count: int  # pages, of which stale has the first
    cases: CaseCounts
    recall: Recall | None  # None: the set was not run, or is another altogether


def post_weekly(
    client: WebClient, database: Database, settings: Settings, *, now: datetime
) -> bool:
    """Post the digest if nobody has in this ISO week, in any process; whether this call has.

    Raises as post does. What Slack has refused is tried again when this is next called.
    """
    monday = datetime.combine(now.date() - timedelta(days=now.weekday()), time.min, UTC)
    if settings.report_channel is None or not schedule.claim(database, JOB, monday):
        return False
    try:
        post(client, database, settings)
    except (SlackApiError, posting.PostLost) as error:
        if posting.has_surely_posted_nothing(error):
            schedule.release(database, JOB, monday)
        else:
            schedule.finish(database, JOB, monday)
        raise
    schedule.finish(database, JOB, monday)
    return True


def post(client: WebClient, database: Database, settings: Settings) -> None:
    """Tell the report's channel of the last week; without one, nothing.

    Raises SlackApiError when Slack refuses it, and PostLost when nobody knows whether it stands
    there.
    """
    if settings.report_channel is not None:
        name = confirming.build_namer(Rights(client, database))
        week = load(database, settings)
        stale = tuple(replace(page, owner=name(page.owner)) for page in week.stale)
        message = build_message(replace(week, stale=stale))
        posting.tell(client, settings.report_channel, message)


def load(database: Database, settings: Settings) -> Digest:
    """The last seven days, as a channel may see them: gaps are worded that everyone may read."""
    viewer = Viewer(is_everyone=True)
    stats = load_stats(database, Scope(days=DAYS), viewer=viewer, settings=settings)
    worded = tuple(gap for gap in stats.gaps.top if gap.question)
    with database.snapshot() as connection:
        stale = _load_stale(connection, settings.freshness_days)
        return Digest(
            until=datetime.now(UTC).date(),
            stats=replace(stats, gaps=replace(stats.gaps, top=worded)),
            stale=tuple(stale[:MOST_STALE]),
            stale_count=len(stale),
            cases=replace(_load_cases(connection), hidden=cases.count_hidden(database)),
            recall=_load_recall(connection),
        )


def build_message(digest: Digest) -> Message:
    """The digest for Slack."""
    heading = Part(title=f"The week to {digest.until:%Y-%m-%d}", lines=())
    stats = digest.stats
    parts = [heading, ragstats.build_sums(stats, mrkdwn.quote)]
    if stats.gaps.groups:
        parts.append(ragstats.build_few_gaps(stats, mrkdwn.quote))
    if digest.stale:
        parts.append(Part(title="Stale pages most cited", lines=tuple(_build_stale(digest))))
    parts.append(Part(title="Cases", lines=tuple(_build_cases(digest))))
    return ragstats.build_parts(parts)


def _build_stale(digest: Digest) -> Iterator[str]:
    for page in digest.stale:
        facts = [
            count(page.answers, "answer"),
            mrkdwn.link_or_quote(page.url, page.title, TITLE_LENGTH, most=LINK_LENGTH),
            f"last verified {page.verified_at}" if page.verified_at else "a later edition exists",
            mrkdwn.quote(page.owner, OWNER_LENGTH) if page.owner else "no owner",
        ]
        yield " · ".join(facts)
    if more := digest.stale_count - len(digest.stale):
        yield f"and {count(more, 'page')} more"


def _build_cases(digest: Digest) -> Iterator[str]:
    counts, recall = digest.cases, digest.recall
    decided = f"{counts.new:,} new, {counts.approved:,} approved"
    yield f"{decided}, {counts.waiting:,} waiting for a review"
    if counts.hidden:
        flagged = count(counts.hidden, "flagged answer")
        yield f"{flagged} for fewer people than read here: `footnote cases review`"
    if recall:
        figures = f"{recall.begin:.2f} → {recall.end:.2f}"
        yield f"Nightly recall@5: {figures} ({count(recall.cases, 'case')})"


def _load_stale(connection: Connection, freshness_days: int) -> list[StalePage]:
    """The pages that the week's answers cite and that are stale: for long unverified, or cited as
    an older edition and not verified since."""
    rows = connection.execute(
        text(f"""
            SELECT documents.document_id, title, url, owner,
                   CASE WHEN {verifying.IS_STALE} THEN verified_at END AS verified_at,
                   count(DISTINCT trace_id) AS answers
            FROM ({stale_pages.CITED}) AS cited JOIN documents USING (document_id)
            WHERE {verifying.IS_STALE}
            OR (position(:older IN citation ->> 'caveat') > 0
                AND verified_at IS NOT DISTINCT FROM (citation ->> 'verified_at')::date)
            GROUP BY documents.document_id
            ORDER BY answers DESC, documents.verified_at NULLS LAST, title
        """),
        {"days": DAYS, "freshness_days": freshness_days, "older": freshness.OLDER},
    )
    return [StalePage(**row._mapping) for row in rows]


def _load_cases(connection: Connection) -> CaseCounts:
    row = connection.execute(
        text("""
            SELECT count(*) FILTER (WHERE created_at >= since) AS new,
                   count(*) FILTER (WHERE state = 'approved' AND reviewed_at >= since) AS approved,
                   count(*) FILTER (WHERE state = 'proposed') AS waiting
            FROM eval_cases CROSS JOIN (SELECT now() - make_interval(days => :days)) AS week (since)
        """),
        {"days": DAYS},
    ).one()
    return CaseCounts(**row._mapping)


def _load_recall(connection: Connection) -> Recall | None:
    row = connection.execute(
        text("""
            WITH runs AS (
                SELECT started_at < now() - make_interval(days => :days) AS is_before,
                       row_number() OVER (ORDER BY run_id) AS number, results
                FROM eval_runs
                WHERE cases_name = :name AND is_reported
                AND means #>> '{all,recall@5}' IS NOT NULL
            ),
            first AS (
                SELECT results FROM runs
                ORDER BY is_before DESC, CASE WHEN is_before THEN -number ELSE number END LIMIT 1
            ),
            last AS (SELECT results FROM runs WHERE NOT is_before ORDER BY number DESC LIMIT 1)
            SELECT count(*) AS cases, avg((one ->> 'recall@5')::float8) AS begin,
                   avg((other ->> 'recall@5')::float8) AS end
            FROM first CROSS JOIN LATERAL jsonb_array_elements(first.results) AS one
            CROSS JOIN last CROSS JOIN LATERAL jsonb_array_elements(last.results) AS other
            WHERE one ->> 'id' = other ->> 'id'
            AND one ->> 'content_digest' = other ->> 'content_digest'
            AND one ? 'recall@5' AND other ? 'recall@5'
            AND one ->> 'id' IN (SELECT case_id FROM eval_cases)  -- as far as they may be read
        """),
        {"days": DAYS, "name": caseset.NAME},
    ).one()
    return Recall(**row._mapping) if row.cases else None
