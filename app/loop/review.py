"""What a reviewer sees of one case: the answers it rests on, what is said of them, what answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import Connection, text

from app.feedback import Reason
from app.loop import cases, faults
from app.loop.cases import Case
from app.loop.stages import Fault
from app.records import Nearest
from retrieval.db import Database
from retrieval.metrics import Gold, words

MOST_NEAREST = 3  # of what was found where nothing was kept; chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A 👎 with what its voter says is wrong."""

    user_id: str
    reason: Reason | None
    note: str | None
    page: str | None = None  # the path of the one that they name as right


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A section that was found for a question."""

    place: str  # title › heading, or the path where the section is gone
    url: str  # "" where it is gone
    relevance: float  # 0 where it was not scored
    is_kept: bool  # the answer was made from it


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """A page of the index that a case is about."""

    document_id: int
    doc: str  # its path
    title: str
    url: str
    owner: str | None
    source: str
    span: str | None = None  # of what answers, if that is known
    number: int | None = None  # of the case's gold, from 0, that names it

    @property
    def gold(self) -> Gold:
        """The page as a whole, as what answers a case."""
        return Gold(doc=self.doc, source=self.source)

    def is_named(self, gold: Gold) -> bool:
        """Whether gold is of this page; one without a source is of any that has the path."""
        return gold.doc == self.doc and gold.source in (None, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where a question was asked in Slack."""

    channel_id: str
    message_ts: str
    thread_ts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A case with all that helps to decide about it."""

    case: Case
    flags: tuple[Flag, ...]  # on any of its answers, the oldest first
    asked: Asked | None  # last; None outside Slack
    answer: str  # the last one; "" where there is none
    is_abstained: bool  # that answer says that there is none
    found: tuple[Found, ...]  # what was kept for the last answer, else what came nearest
    fault: Fault | None  # of the last answer; None where there is none, or it was right
    pages: tuple[KnownPage, ...]  # that answer, as far as they are in the index
    used: KnownPage | None  # what the last answer rests on first
    alike: Case | None  # the one whose question is nearest, if it is nearly the same

    @property
    def kept(self) -> tuple[Found, ...]:
        """What the last answer was made from, best first."""
        return tuple(each for each in self.found if each.is_kept)

    @property
    def page_at_hand(self) -> KnownPage | None:
        """The page that is wrong, where one says that the page is."""
        return self.pages[0] if self.pages else self.used

    @property
    def page_wrong(self) -> KnownPage | None:
        """The page that somebody has marked as wrong, if it is one of those at hand."""
        pages = (*self.pages, *([self.used] if self.used else []))
        marked = self.case.page_wrong
        return next((page for page in pages if marked and page.is_named(marked)), None)


def load_review(database: Database, case_id: str, freshness_days: int) -> Review | None:
    """A case as it is to be reviewed now; None when there is no such one."""
    with database.snapshot() as connection:
        case = cases.read(connection, case_id)
        if case is None:
            return None
        latest = case.trace_ids[0] if case.trace_ids else None
        alike = cases.find_nearest(connection, case_id)
        answer, is_abstained, asked = _load_answer(connection, latest)
        return Review(
            case=case,
            flags=_load_flags(connection, case.trace_ids),
            asked=asked,
            answer=answer,
            is_abstained=is_abstained,
            found=_load_candidates(connection, latest),
            fault=faults.find_fault(connection, latest, freshness_days=freshness_days)
            if latest
            else None,
            pages=_load_named(connection, case.gold),
            used=_load_used(connection, latest),
            alike=cases.read(connection, alike) if alike else None,
        )


def find_linked_page(database: Database, urls: Sequence[str]) -> int | None:
    """The document_id of the first of these addresses that is a page of the index's.

    What an address has after "?" or "#", and a "/" at its end, do not count.
    """
    with database.transaction() as connection:
        return connection.execute(
            text(r"""
                SELECT document_id
                FROM unnest(CAST(:urls AS text[])) WITH ORDINALITY AS linked (url, number)
                JOIN documents ON regexp_replace(documents.url, '/?([?#].*)?$', '')
                    = regexp_replace(linked.url, '/?([?#].*)?$', '')
                WHERE documents.url <> ''
                ORDER BY number, document_id LIMIT 1
            """),
            {"urls": list(urls)},
        ).scalar()


def load_page(database: Database, document_id: int) -> KnownPage | None:
    """A page; None where it is not in the index any more."""
    with database.transaction() as connection:
        return next(_load_pages(connection, "document_id = :id", id=document_id), None)


def load_named(database: Database, gold: Sequence[Gold]) -> tuple[KnownPage, ...]:
    """The pages of what answers a case, as far as they are in the index."""
    with database.transaction() as connection:
        return _load_named(connection, gold)


def holds(database: Database, document_id: int, span: str) -> bool:
    """Whether a passage stands in a page word for word, whatever the white space and the markup."""
    with database.transaction() as connection:
        page = connection.execute(
            text("SELECT text FROM documents WHERE document_id = :document_id"),
            {"document_id": document_id},
        ).scalar()
    return page is not None and f" {' '.join(words(span))} " in f" {' '.join(words(page))} "


def _load_answer(connection: Connection, trace_id: UUID | None) -> tuple[str, bool, Asked | None]:
    row = connection.execute(
        text("""
            SELECT surface, channel_id, message_ts, thread_ts, coalesce(answer, '') AS answer,
                   outcome = 'abstained' AS is_abstained
            FROM traces WHERE trace_id = :trace_id AND is_shown(traces)
        """),
        {"trace_id": trace_id},
    ).one_or_none()
    if row is None:
        return "", False, None
    asked = Asked(channel_id=row.channel_id, message_ts=row.message_ts, thread_ts=row.thread_ts)
    return row.answer, row.is_abstained, asked if row.surface == "slack" else None


def _load_flags(connection: Connection, trace_ids: Sequence[UUID]) -> tuple[Flag, ...]:
    rows = connection.execute(
        text(f"""
            SELECT user_id, reason, note,
                   CASE WHEN {faults.KNOWN.format(path="right_path")} THEN right_path END AS page
            FROM feedback
            WHERE trace_id = ANY(:trace_ids) AND vote < 0 ORDER BY voted_at
        """),
        {"trace_ids": list(trace_ids)},
    )
    return tuple(Flag(**row._mapping) for row in rows)


def _load_candidates(connection: Connection, trace_id: UUID | None) -> tuple[Found, ...]:
    """What was kept, else what came nearest, under the names that it has now."""
    # The path as the trace has it may be that of a page of which these readers may not know.
    rows = connection.execute(
        text("""
            SELECT known.path, (found ->> 'relevance')::float8 AS relevance,
                   coalesce(sections.heading_path, '{}') AS heading_path,
                   coalesce(title, known.path) AS title, coalesce(url, '') AS url,
                   array_position(kept, (found ->> 'section_id')::bigint) IS NOT NULL AS is_kept
            FROM traces
            CROSS JOIN jsonb_array_elements(candidates) AS found
            LEFT JOIN sections ON sections.section_id = (found ->> 'section_id')::bigint
            LEFT JOIN documents ON documents.document_id = (found ->> 'document_id')::bigint
            CROSS JOIN LATERAL (
                SELECT path FROM documents WHERE path = found ->> 'doc'
                UNION
                SELECT path FROM page_changes WHERE kind = 'removed' AND path = found ->> 'doc'
            ) AS known
            WHERE trace_id = :trace_id
            AND (kept = '{}' OR (found ->> 'section_id')::bigint = ANY(kept))
            ORDER BY array_position(kept, (found ->> 'section_id')::bigint), relevance DESC
            LIMIT CASE WHEN (SELECT kept = '{}' FROM traces WHERE trace_id = :trace_id)
                THEN :nearest END
        """),
        {"trace_id": trace_id, "nearest": MOST_NEAREST},
    )
    return tuple(
        Found(
            place=Nearest(
                path=row.path,
                title=row.title,
                heading_path=tuple(row.heading_path),
                url=row.url,
            ).place,
            url=row.url,
            relevance=row.relevance or 0,
            is_kept=row.is_kept,
        )
        for row in rows
    )


def _load_named(connection: Connection, gold: Sequence[Gold]) -> tuple[KnownPage, ...]:
    known = list(_load_pages(connection, "path = ANY(:paths)", paths=[each.doc for each in gold]))
    named = ((each, next(filter(lambda page: page.is_named(each), known), None)) for each in gold)
    return tuple(
        replace(page, span=each.span, number=number)
        for number, (each, page) in enumerate(named)
        if page
    )


def _load_used(connection: Connection, trace_id: UUID | None) -> KnownPage | None:
    """The page cited first, else kept first."""
    where = """
        document_id = (
            SELECT (found ->> 'document_id')::bigint
            FROM traces CROSS JOIN jsonb_array_elements(candidates) AS found
            WHERE trace_id = :trace_id AND (found ->> 'section_id')::bigint
                = coalesce((citations -> 0 ->> 'section_id')::bigint, kept[1])
            LIMIT 1
        )
    """
    return next(_load_pages(connection, where, trace_id=trace_id), None)


def _load_pages(connection: Connection, where: str, **values: object) -> Iterator[KnownPage]:
    rows = connection.execute(
        text(f"""
            SELECT document_id, path AS doc, title, url, owner, source
            FROM documents WHERE {where} ORDER BY document_id
        """),
        values,
    )
    return (KnownPage(**row._mapping) for row in rows)
