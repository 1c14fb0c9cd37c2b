"""What `footnote doctor` says of pages: stale, copied, of one title, or no longer holding."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from app import findings, mrkdwn
from app.counting import count
from app.findings import Finding
from app.loop.stale_pages import IS_STALE

MOST = 5  # that are named; the others are counted
TITLE_LENGTH = 80
DAYS = 90  # of questions that tell how much a page is used
FIRST = 5  # candidates that a question is likely answered from, kept or not

# How many questions each page was of use to; what is passed over for a newer page is not kept.
USED = """
    used AS (
        SELECT document_id, count(DISTINCT trace_id) AS questions
        FROM traces CROSS JOIN LATERAL ROWS FROM (
            jsonb_to_recordset(candidates) AS (document_id bigint, section_id bigint)
        ) WITH ORDINALITY AS candidate (document_id, section_id, rank)
        WHERE asked_at >= now() - make_interval(days => :days) AND is_question(traces)
        AND (rank <= :first OR section_id = ANY(kept))
        GROUP BY document_id
    )
"""


def examine(connection: Connection, freshness_days: int) -> Iterator[Finding]:
    """What people have to decide about pages, those first that questions come upon most."""
    parameters = {"freshness_days": freshness_days, "days": DAYS, "first": FIRST}
    dated = connection.execute(
        text("SELECT count(*) AS total, count(verified_at) AS dated FROM documents")
    ).one()
    if dated.total and not dated.dated:
        yield findings.note(
            "No document says when it was last verified: their age cannot be judged."
        )
    for build, statement in (
        (_build_stale, STALE),
        (_build_superseded, SUPERSEDED),
        (_build_copies, COPIES),
        (_build_titles, TITLES),
    ):
        rows = connection.execute(text(f"WITH {USED} {statement}"), parameters).all()
        if rows:
            yield findings.note(build(rows))


STALE = f"""
    SELECT title, path, verified_at, coalesce(questions, 0) AS questions
    FROM documents LEFT JOIN used USING (document_id) WHERE {IS_STALE}
    ORDER BY questions DESC, verified_at, path
"""
SUPERSEDED = """
    SELECT title, path, superseded_by, questions
    FROM documents JOIN used USING (document_id) WHERE is_superseded
    ORDER BY questions DESC, path
"""
COPIES = """
    SELECT one.title, one.path, other.path AS other_path, similarity,
           coalesce(u.questions, 0) + coalesce(v.questions, 0) AS questions
    FROM copies
    JOIN documents AS one USING (document_id) LEFT JOIN used AS u USING (document_id)
    JOIN documents AS other ON other.document_id = other_id
    LEFT JOIN used AS v ON v.document_id = other_id
    ORDER BY questions DESC, similarity DESC, one.path, other_path
"""
TITLES = """
    SELECT title, count(*) AS pages, coalesce(sum(questions), 0) AS questions
    FROM documents LEFT JOIN used USING (document_id)
    GROUP BY title HAVING count(*) > 1 ORDER BY questions DESC, pages DESC, title
"""


def _build_stale(rows: Sequence[Row[Any]]) -> str:
    listed = (f"{_name(row)} {row.verified_at}{_use(row)}" for row in rows)
    return (
        f"{count(len(rows), 'page')} verified too long ago: {_list(listed, len(rows))}. "
        "Ask their owners, then `footnote verify PAGE`."
    )


def _build_superseded(rows: Sequence[Row[Any]]) -> str:
    def name(row: Row[Any]) -> str:
        by = f", replaced by {_quote(row.superseded_by)}" if row.superseded_by else ""
        return f"{_name(row)}{by}{_use(row)}"

    return (
        f"{count(len(rows), 'page')} still found that no longer hold by their own word: "
        f"{_list(map(name, rows), len(rows))}. Remove them from the source, or say what replaces "
        "them."
    )


def _build_copies(rows: Sequence[Row[Any]]) -> str:
    listed = (
        f"{_name(row)} and {_quote(row.other_path)}, {row.similarity:.0%} alike{_use(row)}"
        for row in rows
    )
    return (
        f"{count(len(rows), 'pair')} of pages that say nearly the same: "
        f"{_list(listed, len(rows))}. Which one holds?"
    )


def _build_titles(rows: Sequence[Row[Any]]) -> str:
    listed = (f"{_quote(row.title)} ({row.pages}){_use(row)}" for row in rows)
    return f"Several pages have one title: {_list(listed, len(rows))}. Which one holds?"


def _list(listed: Iterator[str], total: int) -> str:
    shown = [words for words, _ in zip(listed, range(MOST), strict=False)]
    more = [f"{total - MOST:,} more"] if total > MOST else []
    return "; ".join([*shown, *more])


def _name(row: Row[Any]) -> str:
    return f"{_quote(row.title)} ({mrkdwn.flatten(row.path, TITLE_LENGTH)})"


def _quote(words: str) -> str:
    return f"“{mrkdwn.flatten(words, TITLE_LENGTH)}”"


def _use(row: Row[Any]) -> str:
    return f" [{count(int(row.questions), 'question')}]" if row.questions else ""
