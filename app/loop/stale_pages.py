"""The pages that nobody has verified for long, told once a month to those who look after them."""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from sqlalchemy import text

from app import blocks, confirming, mrkdwn, posting
from app.blocks import Block, Message
from app.config import Settings
from app.counting import count
from app.loop import schedule
from app.rights import Rights, RightsUnknown
from retrieval.db import Database

JOB = "stale pages"  # in scheduled_runs, with the place
CITED_DAYS = 90
MOST_PAGES = 12  # that are named in one message; the others are counted
TITLE_LENGTH = 80
OWNER_LENGTH = 60
LINK_LENGTH = 500  # with its label; of a longer one the label is left, so that all fits a message
NO_OWNER = "Without an owner"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StalePage:
    """A page that was verified too long ago."""

    document_id: int
    title: str
    url: str
    owner: str | None
    verified_at: date
    answers: int  # of the last CITED_DAYS that cite it


def post_monthly(
    client: WebClient, database: Database, settings: Settings, *, now: datetime
) -> None:
    """Tell each place of its stale pages if nobody has in this month, in any process.

    What Slack has refused is tried again when this is next called.
    """
    month = datetime.combine(now.date().replace(day=1), time.min, UTC)
    rights = Rights(client, database)
    for place, document_ids in find_places(database, settings).items():
        try:
            audiences = _find_audiences(rights, place)
        except RightsUnknown:
            log.warning("No stale pages told in %s: Slack does not say who reads there", place)
            continue
        if "everyone" not in audiences:
            log.warning("No stale pages told in %s: others than colleagues read there", place)
            continue
        pages = load(database.reading_as(audiences), document_ids, settings.freshness_days)
        if pages and schedule.claim(database, f"{JOB} {place}", month):
            _post(client, database, place, build_message(pages), month)


def find_places(database: Database, settings: Settings) -> Mapping[str, Sequence[int]]:
    """The stale pages by where they are told, as document ids.

    That is each owner who is a person in Slack, by id; else the channels that are named for the
    owners or the source; else the report's, if there is one. A user group has no place of its own.
    """
    places: dict[str, list[int]] = defaultdict(list)
    with database.unrestricted.transaction() as connection:
        rows = connection.execute(
            text(f"""
                SELECT document_id, source, path, title, owner, verified_at FROM documents
                WHERE {IS_STALE} ORDER BY document_id
            """),
            {"freshness_days": settings.freshness_days},
        )
        for row in rows:
            page = confirming.OwnedPage(**row._mapping)
            for place in _find_places(page, settings):
                places[place].append(page.document_id)
    return places


def load(database: Database, document_ids: Sequence[int], freshness_days: int) -> list[StalePage]:
    """Those of the pages that are stale and for who reads, the most cited first."""
    with database.transaction() as connection:
        rows = connection.execute(
            text(f"""
                WITH cited AS (
                    SELECT citation ->> 'path' AS path,
                           split_part(citation ->> 'url', '#', 1) AS url,  -- a heading is no page
                           count(DISTINCT trace_id) AS answers
                    FROM traces CROSS JOIN LATERAL jsonb_array_elements(citations) AS citation
                    WHERE asked_at >= now() - make_interval(days => :days) AND is_question(traces)
                    GROUP BY path, url
                )
                SELECT document_id, title, documents.url, owner, verified_at,
                       coalesce(answers, 0) AS answers
                FROM documents LEFT JOIN cited
                    ON documents.path = cited.path AND split_part(documents.url, '#', 1) = cited.url
                WHERE document_id = ANY(:document_ids) AND {IS_STALE}
                ORDER BY answers DESC, verified_at, title, document_id
            """),
            {
                "days": CITED_DAYS,
                "document_ids": list(document_ids),
                "freshness_days": freshness_days,
            },
        )
        return [StalePage(**row._mapping) for row in rows]


def build_message(pages: Sequence[StalePage]) -> Message:
    """The list for Slack, by owner, each page with the button that says that it is still true.

    The owner of the most cited page comes first. Owners are data: nobody is called.
    """
    title = f"{count(len(pages), 'page')} to look at: not verified for long"
    by_owner: dict[str | None, list[StalePage]] = defaultdict(list)
    for page in pages[:MOST_PAGES]:
        by_owner[page.owner].append(page)
    built = [mrkdwn.build_section(f"*{title}*")]
    for owner, owned in by_owner.items():
        name = mrkdwn.quote(owner, OWNER_LENGTH) if owner else NO_OWNER
        built += [mrkdwn.build_section(f"• {name}"), *map(_build_page, owned)]
    if more := len(pages) - MOST_PAGES:
        if more > 0:
            built.append(mrkdwn.build_context(f"and {count(more, 'page')} more: `footnote doctor`"))
    return Message(text=title, blocks=tuple(built))


# In SQL, of a row of documents.
IS_STALE = "verified_at < current_date - coalesce(freshness_days, :freshness_days)"


def _find_places(page: confirming.OwnedPage, settings: Settings) -> Collection[str]:
    names = [name.partition(":") for name in confirming.find_owner_names(page.owner)]
    people = {owner_id for kind, _, owner_id in names if kind == "user"}
    experts = confirming.find_expert_ids(page, settings.experts)
    channels = {each for each in experts if not each.startswith("S")}
    report = {settings.report_channel} if settings.report_channel else set()
    return people or channels or report


def _find_audiences(rights: Rights, place: str) -> Sequence[str]:
    is_person = place.startswith(("U", "W"))
    return rights.find_for_person(place) if is_person else rights.find_for_channel(place)


def _post(
    client: WebClient, database: Database, place: str, message: Message, month: datetime
) -> None:
    job = f"{JOB} {place}"
    try:
        posting.tell(client, place, message)
    except (SlackApiError, posting.PostLost) as error:
        log.error("Stale pages may not be told in %s: %s", place, type(error).__name__)
        if posting.has_surely_posted_nothing(error):
            schedule.release(database, job, month)
            return
    schedule.finish(database, job, month)


def _build_page(page: StalePage) -> Block:
    link = mrkdwn.link(page.url, mrkdwn.flatten(page.title, TITLE_LENGTH))
    if not link.startswith("<") or len(link) > LINK_LENGTH:
        link = mrkdwn.quote(page.title, TITLE_LENGTH)
    facts = f"{link} · last verified {page.verified_at} · {count(page.answers, 'answer')}"
    button = blocks.build_still_true(page.document_id, "Still true")
    return {**mrkdwn.build_section(facts), "accessory": button}
