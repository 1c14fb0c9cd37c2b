"""What `footnote doctor` says of pages: stale, copied, of one title, or no longer holding."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy import Connection, Row, text

from app import confirming, findings, mrkdwn
from app.config import Settings
from app.confirming import OwnedPage
from app.counting import count
from app.findings import Finding
from retrieval import editions

MOST = 5  # that are named; the others are counted
PLACES = 3  # of one title that are named
TITLE_LENGTH = 80
DAYS = 90  # of questions that tell how much a page is used
FIRST = 5  # candidates that a question is likely answered from, kept or not

# What _load_used gives, as a table.
USED = """
    used AS (
        SELECT * FROM unnest(CAST(:document_ids AS bigint[]), CAST(:questions AS bigint[]))
            AS used (document_id, questions)
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """A page, and what it names in its place."""

    document_id: int
    title: str
    source: str
    path: str
    url: str
    is_superseded: bool
    superseded_by: str | None


def examine(connection: Connection, settings: Settings) -> Iterator[Finding]:
    """What people have to decide about pages, those first that questions come upon most."""
    due = confirming.load_due(connection, settings.freshness_days)
    parameters = {"due": [page.document_id for page in due], **_load_used(connection)}
    yield from _examine_sources(connection)
    for build, statement in (
        (_build_to_come, TO_COME),
        (_build_stale, STALE),
        (_build_superseded, SUPERSEDED),
        (_build_copies, COPIES),
        (_build_titles, TITLES),
    ):
        rows = connection.execute(text(f"WITH {USED} {statement}"), parameters).all()
        if rows:
            yield findings.note(build(rows))
    yield from _examine_untold(due, settings)
    yield from _examine_successors(connection)


# What states a day that was to come when the page was read counts as verified on an earlier one.
TO_COME = """
    SELECT title, source, path, stated_on, coalesce(questions, 0) AS questions
    FROM documents LEFT JOIN used USING (document_id)
    WHERE stated_on IS NOT NULL AND coalesce(verified_at < stated_on, true)
    ORDER BY questions DESC, source, path
"""
STALE = """
    SELECT title, source, path, verified_at, coalesce(questions, 0) AS questions
    FROM documents LEFT JOIN used USING (document_id) WHERE document_id = ANY(:due)
    ORDER BY questions DESC, verified_at, source, path
"""
SUPERSEDED = """
    SELECT title, source, path, superseded_by, questions
    FROM documents JOIN used USING (document_id) WHERE is_superseded
    ORDER BY questions DESC, source, path
"""
COPIES = """
    SELECT one.title, one.source, one.path, other.title AS other_title,
           other.source AS other_source, other.path AS other_path, similarity,
           coalesce(u.questions, 0) + coalesce(v.questions, 0) AS questions
    FROM copies
    JOIN documents AS one USING (document_id) LEFT JOIN used AS u USING (document_id)
    JOIN documents AS other ON other.document_id = other_id
    LEFT JOIN used AS v ON v.document_id = other_id
    ORDER BY questions DESC, similarity DESC, one.source, one.path, other_source, other_path
"""
TITLES = f"""
    SELECT title, count(*) AS pages, coalesce(sum(questions), 0) AS questions,
           (array_agg(path ORDER BY source, path))[1:{PLACES}] AS paths,
           (array_agg(source ORDER BY source, path))[1:{PLACES}] AS sources
    FROM documents LEFT JOIN used USING (document_id)
    GROUP BY title HAVING count(*) > 1 ORDER BY questions DESC, pages DESC, title
"""


def _load_used(connection: Connection) -> Mapping[str, Sequence[int]]:
    """How many questions each page was of use to, by document_ids; what is passed over for a newer
    page is not kept."""
    rows = connection.execute(
        text("""
            SELECT document_id, count(DISTINCT trace_id) AS questions
            FROM traces CROSS JOIN LATERAL ROWS FROM (
                jsonb_to_recordset(candidates) AS (document_id bigint, section_id bigint)
            ) WITH ORDINALITY AS candidate (document_id, section_id, rank)
            WHERE asked_at >= now() - make_interval(days => :days) AND is_question(traces)
            AND (rank <= :first OR section_id = ANY(kept)) AND document_id IS NOT NULL
            GROUP BY document_id
        """),
        {"days": DAYS, "first": FIRST},
    ).all()
    return {
        "document_ids": [row.document_id for row in rows],
        "questions": [row.questions for row in rows],
    }


def _examine_sources(connection: Connection) -> Iterator[Finding]:
    """Which sources give no dates, so that their pages are never put back for their age."""
    rows = connection.execute(
        text("SELECT source, count(verified_at) AS dated FROM documents GROUP BY source ORDER BY 1")
    ).all()
    undated = [mrkdwn.flatten(row.source, TITLE_LENGTH) for row in rows if not row.dated]
    if undated and len(undated) == len(rows):
        yield findings.note(
            "No document says when it was last verified: their age cannot be judged."
        )
    elif undated:
        yield findings.note(
            f"No page of {', '.join(undated)} says when it was last verified, pages of other "
            "sources do: where they differ, age does not tell which one holds."
        )


def _examine_untold(due: Sequence[OwnedPage], settings: Settings) -> Iterator[Finding]:
    """Stale pages that no monthly list names, as there is nobody in Slack to tell."""
    untold = [
        page
        for page in due
        if not confirming.find_places(page, settings.experts, settings.report_channel)
    ]
    if untold:
        yield findings.note(
            f"{count(len(untold), 'stale page')} told to nobody in Slack: "
            f"{_list(map(_name, untold), len(untold))}. Name their owners by their ids in Slack, "
            "a channel for owner or source in EXPERTS, or set REPORT_CHANNEL."
        )


def _examine_successors(connection: Connection) -> Iterator[Finding]:
    """Pages that no longer hold and name in their place themselves, or nothing that is there."""
    rows = connection.execute(
        text("""
            SELECT document_id, title, source, path, url, is_superseded, superseded_by
            FROM documents WHERE EXISTS (SELECT FROM documents WHERE superseded_by IS NOT NULL)
            ORDER BY source, path
        """)
    )
    pages = [_Page(**row._mapping) for row in rows]
    find = partial(_find_successor, by_word=_sort_by_word(pages))
    listed = [f"{_name(page)}: {fault}" for page in pages if (fault := _find_fault(page, find))]
    if listed:
        yield findings.note(
            f"{count(len(listed), 'page')} that no longer hold by their own word name in their "
            f"place no page that does: {_list(iter(listed), len(listed))}. Say in each which page "
            "replaces it, by title, path or address."
        )


def _find_fault(page: _Page, find: Callable[[_Page], _Page | None]) -> str | None:
    if page.superseded_by is None:
        return None
    successor = find(page)
    if successor == page:
        return "itself"
    if successor is None:
        is_elsewhere = "://" in page.superseded_by
        return None if is_elsewhere else f"{_quote(page.superseded_by)}, no such page"
    last = editions.find_last(page, find)
    if last == page:
        return f"{_quote(successor.title)}, a circle"
    is_over = last is None or (last.is_superseded and "://" not in (last.superseded_by or ""))
    return f"{_quote((last or successor).title)}, which does not hold either" if is_over else None


def _sort_by_word(pages: Sequence[_Page]) -> Mapping[str, Sequence[_Page]]:
    """Pages by what they may be named by, which compares each name with few of them."""
    by_word: dict[str, list[_Page]] = defaultdict(list)
    for page in pages:
        file = PurePosixPath(page.path)
        for word in {each.casefold() for each in (page.title, page.url, file.name, file.stem)}:
            by_word[word].append(page)
    return by_word


def _find_successor(page: _Page, by_word: Mapping[str, Sequence[_Page]]) -> _Page | None:
    name = (page.superseded_by or "").strip().casefold()
    words = (name, PurePosixPath(name.split("#")[0]).name)
    return editions.find_successor(page, [each for word in words for each in by_word.get(word, ())])


def _build_to_come(rows: Sequence[Row[Any]]) -> str:
    listed = (f"{_name(row)} {row.stated_on}{_use(row)}" for row in rows)
    return (
        f"{count(len(rows), 'page')} verified, by their own word, on a day that was to come when "
        f"they were read: {_list(listed, len(rows))}. That counts as no date: correct it there."
    )


def _build_stale(rows: Sequence[Row[Any]]) -> str:
    listed = (f"{_name(row)} {row.verified_at}{_use(row)}" for row in rows)
    return (
        f"{count(len(rows), 'page')} verified too long ago: {_list(listed, len(rows))}. "
        "Ask their owners, then `footnote verify PAGE`."
    )


def _build_superseded(rows: Sequence[Row[Any]]) -> str:
    names_none = any(not row.superseded_by for row in rows)
    or_say = ", or say what replaces those that name no other" if names_none else ""

    def name(row: Row[Any]) -> str:
        by = f"replaced by {_quote(row.superseded_by)}" if row.superseded_by else "naming no other"
        return f"{_name(row)}, {by}{_use(row)}"

    return (
        f"{count(len(rows), 'page')} still found that no longer hold by their own word: "
        f"{_list(map(name, rows), len(rows))}. Remove them from the source{or_say}."
    )


def _build_copies(rows: Sequence[Row[Any]]) -> str:
    listed = (
        f"{_name(row)} and {_quote(row.other_title)} ({_place(row.other_source, row.other_path)}), "
        f"{row.similarity:.0%} alike{_use(row)}"
        for row in rows
    )
    return (
        f"{count(len(rows), 'pair')} of pages that say nearly the same: "
        f"{_list(listed, len(rows))}. Which one holds?"
    )


def _build_titles(rows: Sequence[Row[Any]]) -> str:
    def name(row: Row[Any]) -> str:
        places = [*map(_place, row.sources, row.paths)]
        more = [f"{row.pages - PLACES:,} more"] if row.pages > PLACES else []
        return f"{_quote(row.title)} ({', '.join([*places, *more])}){_use(row)}"

    listed = map(name, rows)
    return f"Several pages have one title: {_list(listed, len(rows))}. Which one holds?"


def _list(listed: Iterator[str], total: int) -> str:
    shown = [words for words, _ in zip(listed, range(MOST), strict=False)]
    more = [f"{total - MOST:,} more"] if total > MOST else []
    return "; ".join([*shown, *more])


def _name(row: Row[Any] | _Page | OwnedPage) -> str:
    return f"{_quote(row.title)} ({_place(row.source, row.path)})"


def _place(source: str, path: str) -> str:
    return f"{mrkdwn.flatten(path, TITLE_LENGTH)} of {mrkdwn.flatten(source, TITLE_LENGTH)}"


def _quote(words: str) -> str:
    return f"“{mrkdwn.flatten(words, TITLE_LENGTH)}”"


def _use(row: Row[Any]) -> str:
    return f" [{count(int(row.questions), 'question')}]" if row.questions else ""
