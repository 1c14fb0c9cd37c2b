"""The pages that nobody has verified for long, told once a month to those who look after them."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from functools import partial

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from sqlalchemy import text

from app import blocks, confirming, mrkdwn, posting
from app.blocks import BLOCK_TEXT, Block, Message
from app.config import Settings
from app.counting import count
from app.loop import schedule
from app.rights import Rights, RightsUnknown
from retrieval.db import Database

SCHEDULE = "0 7 * * *"  # UTC; each day, since one that Slack has refused is tried again; chosen
JOB = "stale pages"  # in scheduled_runs; for a month with the place
CITED_DAYS = 90
MOST_PAGES = 12  # in one message
MOST_MESSAGES = 25  # the first of them, and those in its thread; chosen
TITLE_LENGTH = 80
OWNER_LENGTH = 60
LINK_LENGTH = 500  # with its label; of a longer one the label is left, so that all fits a message
NO_OWNER = "*Without an owner*"

# SQL: each citation of what was answered in the last :days.
CITED = """
    SELECT trace_id, citation, (citation ->> 'document_id')::bigint AS document_id
    FROM traces CROSS JOIN LATERAL jsonb_array_elements(citations) AS citation
    WHERE asked_at >= now() - make_interval(days => :days) AND is_question(traces)
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StalePage:
    """A page that may no longer hold."""

    document_id: int
    title: str
    url: str
    owner: str | None
    verified_at: date | None  # too long ago; None: a later edition of it was cited beside it
    answers: int  # of the days that are looked at, which cite it


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one place is told of, by document_ids."""

    due: list[int] = field(default_factory=list)  # pages to confirm or to change
    secret: list[int] = field(default_factory=list)  # pages in which secrets stand


def run(
    find_client: Callable[[], WebClient | None],
    database: Database,
    settings: Settings,
    *,
    progress: Callable[[int, int], None],
) -> None:
    """The work of a day, as the schedule has it done; by whom find_client has, if anybody."""
    client = find_client()
    if client is None:
        log.warning("No stale pages told: tenant %s has not installed the app", settings.tenant_id)
    else:
        post_monthly(client, database, settings, now=datetime.now(UTC))
    progress(1, 1)


def post_monthly(
    client: WebClient, database: Database, settings: Settings, *, now: datetime
) -> None:
    """Tell each place of its stale pages if nobody has in this month, in any process.

    What Slack has refused is tried again when this is next called.
    """
    month = datetime.combine(now.date().replace(day=1), time.min, UTC)
    told = schedule.find_finished(database, month)
    rights = Rights(client, database)
    name_owner = confirming.build_namer(rights)
    for place, told_of in find_places(database, settings).items():
        if f"{JOB} {place}" in told:
            continue
        try:
            audiences = rights.find_for_place(place)
        except RightsUnknown:
            log.warning("No stale pages told in %s: Slack does not say who reads there", place)
            continue
        if "everyone" not in audiences:
            log.warning("No stale pages told in %s: others than colleagues read there", place)
            continue
        readable = database.reading_as(audiences)
        pages, secret = load(readable, told_of.due), load(readable, told_of.secret)
        # Who looks after a page alone needs not be told so.
        is_person = place.startswith(("U", "W"))
        messages = build_messages(pages, None if is_person else name_owner)
        if messages and secret:
            messages[0] = _add(messages[0], f"{_count_secret(secret)}: see the thread.")
        messages += build_secrets(secret)
        if messages and schedule.claim(database, f"{JOB} {place}", month):
            _post(client, database, place, messages, month)


def find_places(database: Database, settings: Settings) -> Mapping[str, Told]:
    """The pages by where they are told."""
    places: dict[str, Told] = defaultdict(Told)
    with database.unrestricted.transaction() as connection:
        due = confirming.load_due(connection, settings.freshness_days)
        secret = confirming.load_secret(connection)
    find = partial(
        confirming.find_places, experts=settings.experts, report_channel=settings.report_channel
    )
    for page in due:
        for place in find(page):
            places[place].due.append(page.document_id)
    for page in secret:
        for place in find(page):
            places[place].secret.append(page.document_id)
    return places


def load(database: Database, document_ids: Sequence[int]) -> list[StalePage]:
    """Those of the pages that are for who reads, the most cited first."""
    with database.transaction() as connection:
        rows = connection.execute(
            text(f"""
                SELECT documents.document_id, title, url, owner, verified_at,
                       count(DISTINCT trace_id) AS answers
                FROM documents LEFT JOIN ({CITED}) AS cited USING (document_id)
                WHERE documents.document_id = ANY(:document_ids)
                GROUP BY documents.document_id
                ORDER BY answers DESC, verified_at, title, document_id
            """),
            {"days": CITED_DAYS, "document_ids": list(document_ids)},
        )
        return [StalePage(**row._mapping) for row in rows]


def build_messages(
    pages: Sequence[StalePage],
    name_owner: Callable[[str | None], str | None] | None = lambda owner: owner,
) -> list[Message]:
    """The list for Slack, each page with the button that says that it is still true.

    The most cited pages come first, and in each message by owner as name_owner has them, or in one
    list. Owners are data: nobody is called. No page: no message.
    """
    if not pages:
        return []
    told = pages[: MOST_PAGES * MOST_MESSAGES]
    if name_owner:
        told = [replace(each, owner=name_owner(each.owner)) for each in told]
    total = count(len(pages), "page")
    parts = [told[start : start + MOST_PAGES] for start in range(0, len(told), MOST_PAGES)]
    starts = range(1, len(told) + 1, MOST_PAGES)
    titles = [
        f"{at:,} to {at + len(part) - 1:,} of {total}"
        for at, part in zip(starts, parts, strict=True)
    ]
    said = (
        "was last verified long ago. Still true? Confirm it, or change it where it is."
        if len(pages) == 1
        else "were last verified long ago. Still true? Confirm them, or change them where they are."
    )
    titles[0] = f"{total} {said}"
    messages = [
        _build_message(title, part, has_owners=name_owner is not None)
        for title, part in zip(titles, parts, strict=True)
    ]
    if len(parts) > 1:
        messages[0] = _add(messages[0], "The others follow in the thread.")
    if more := len(pages) - len(told):
        said = f"and {count(more, 'page')} more, which come up as these are looked at"
        messages[-1] = _add(messages[-1], said)
    return messages


def _add(message: Message, line: str) -> Message:
    return replace(message, blocks=(*message.blocks, mrkdwn.build_context(line)))


def build_secrets(pages: Sequence[StalePage]) -> list[Message]:
    """The pages in which secrets stand, for who looks after them; no page: no message."""
    if not pages:
        return []
    title = f"{_count_secret(pages)}. I mask them here: take them out there, and replace them."
    lines = [f"• {_link(page)}" for page in pages[:MOST_PAGES]]
    if more := len(pages) - len(lines):
        lines += [f"and {count(more, 'page')} more"] * (more > 0)
    texts = mrkdwn.join_lines([f"*{title}*", *lines], BLOCK_TEXT)
    return [Message(text=title, blocks=tuple(map(mrkdwn.build_section, texts)))]


def _count_secret(pages: Sequence[StalePage]) -> str:
    return f"{count(len(pages), 'page')} with passwords, keys or the like"


def _build_message(title: str, pages: Sequence[StalePage], *, has_owners: bool) -> Message:
    built = [mrkdwn.build_section(f"*{title}*")]
    if not has_owners:
        return Message(text=title, blocks=(*built, *map(_build_page, pages)))
    by_owner: dict[str | None, list[StalePage]] = defaultdict(list)
    for page in pages:
        by_owner[page.owner].append(page)
    for owner, owned in by_owner.items():
        name = _embolden(owner) if owner else NO_OWNER
        built += [mrkdwn.build_section(name), *map(_build_page, owned)]
    return Message(text=title, blocks=tuple(built))


def _embolden(owner: str) -> str:
    """An owner in bold, unless the name has marks of style itself."""
    quoted = mrkdwn.quote(owner, OWNER_LENGTH)
    return quoted if quoted.startswith("`") else f"*{quoted}*"


def _post(
    client: WebClient, database: Database, place: str, messages: Sequence[Message], month: datetime
) -> None:
    """Post the first message, and the others in its thread; once that stands there, none of them
    is tried again."""
    job, first_ts = f"{JOB} {place}", None
    try:
        for message in messages:
            ts = posting.tell(client, place, message, thread_ts=first_ts)
            if first_ts is None:
                first_ts = ts
                schedule.finish(database, job, month)  # now: who is killed tells none of them again
    except (SlackApiError, posting.PostLost) as error:
        log.error("Stale pages may not be told in %s: %s", place, type(error).__name__)
        if first_ts is not None:
            return
        if posting.has_surely_posted_nothing(error):
            schedule.release(database, job, month)
        else:
            schedule.finish(database, job, month)


def _build_page(page: StalePage) -> Block:
    facts = f"{_link(page)} · last verified {page.verified_at}"
    if page.answers:
        facts += f" · cited in {count(page.answers, 'answer')} in {CITED_DAYS} days"
    button = blocks.build_still_true(page.document_id, "Still true")
    return {**mrkdwn.build_section(facts), "accessory": button}


def _link(page: StalePage) -> str:
    return mrkdwn.link_or_quote(page.url, page.title, TITLE_LENGTH, most=LINK_LENGTH)
