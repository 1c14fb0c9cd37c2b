"""What traces hold of answers that were flagged, and so at which stage each went wrong."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app.freshness import OLDER
from app.loop.stages import Fault, Flagged, Stage, Symptoms, explain, find_stage, guess
from retrieval.metrics import Gold, Result, hits

# SQL: whether the reader may know of a page by its path: one that is there for them, or that was
# before it was removed. Of another nothing is told, not even that it is there.
KNOWN = """(
    EXISTS (SELECT FROM documents WHERE documents.path = {path})
    OR EXISTS (SELECT FROM page_changes WHERE kind = 'removed' AND page_changes.path = {path})
)"""


def find_fault(connection: Connection, trace_id: UUID, *, freshness_days: int) -> Fault | None:
    """The stage at fault for an answer, known or likely; None where its case says it was right."""
    found = _load_flagged(connection, "traces.trace_id = :trace_id", {"trace_id": trace_id})
    if trace_id in found:
        return explain(found[trace_id], freshness_days=freshness_days)
    symptoms = _load_symptoms(connection, trace_id)
    return guess(symptoms) if symptoms else None


def count_stages(
    connection: Connection, *, days: int, channel_id: str | None, freshness_days: int
) -> dict[Stage, int]:
    """How often each stage was at fault for the answers of the last days, of one channel or all;
    none that never was. Only those count of which the right page is known.

    The page that a reviewer chose goes before those that voters named, of which the last counts;
    that no page answers is known, too, once somebody has decided so. A page that was removed since,
    renamed or indexed again, is known among the candidates by its path as it was. Whether it was in
    the corpus when it was asked about, and how fresh, is told as it was then.
    """
    where = """
        is_flagged AND asked_at >= now() - make_interval(days => :days) AND is_question(traces)
        AND (CAST(:channel_id AS text) IS NULL OR channel_id = :channel_id)
    """
    found = _load_flagged(connection, where, {"days": days, "channel_id": channel_id})
    return dict(Counter(find_stage(each, freshness_days=freshness_days) for each in found.values()))


def _load_flagged(
    connection: Connection, where: str, values: Mapping[str, object]
) -> dict[UUID, Flagged]:
    """Those answers of which the right page is known."""
    rows = connection.execute(
        text(f"""
            WITH votes AS (
                SELECT trace_id, true AS is_flagged,
                       bool_or(reason = 'outdated') IS TRUE AS is_outdated,
                       (array_agg(jsonb_build_object('source', right_source, 'doc', right_path)
                                  ORDER BY voted_at DESC)
                        FILTER (WHERE {KNOWN.format(path="right_path")}))[1] AS named
                FROM feedback WHERE vote < 0 GROUP BY trace_id
            ),
            judged AS (
                SELECT traces.*, is_outdated IS TRUE AS is_outdated,
                       page_wrong_path, page_wrong_source,
                       CASE WHEN state = 'dismissed' THEN NULL
                            WHEN reviewer IS NOT NULL AND gold_any || gold_all <> '[]'
                                THEN gold_any || gold_all
                            WHEN state = 'approved' THEN '[]'
                            WHEN named IS NOT NULL THEN jsonb_build_array(named)
                            WHEN page_wrong_path IS NOT NULL THEN jsonb_build_array(
                                jsonb_build_object('source', page_wrong_source,
                                                   'doc', page_wrong_path))
                       END AS pages
                FROM traces
                LEFT JOIN votes USING (trace_id)
                LEFT JOIN case_traces USING (trace_id)
                LEFT JOIN eval_cases USING (case_id)
                WHERE {where}
            )
            SELECT trace_id, (asked_at AT TIME ZONE 'UTC')::date AS asked_on, kept,
                   page.doc, page.span, document_id,
                   coalesce((settings ->> 'floor')::float8, 0) AS floor, relevances,
                   CASE WHEN is_dated THEN found.verified_at ELSE documents.verified_at END
                       AS verified_at,
                   coalesce(next_change.was_indexed, document_id IS NOT NULL) AS was_indexed,
                   coalesce(page_wrong_path = page.doc, false)
                       AND coalesce(page_wrong_source = page.source, true)
                   OR EXISTS (
                       SELECT FROM jsonb_array_elements(citations) AS cited
                       WHERE cited ->> 'path' = page.doc
                       AND (is_outdated OR strpos(cited ->> 'caveat', :older) > 0)
                   ) AS is_disputed
            FROM judged
            LEFT JOIN LATERAL jsonb_to_recordset(pages) AS page (source text, doc text, span text)
                ON true
            LEFT JOIN documents ON path = doc AND documents.source = coalesce(page.source,
                                                                              documents.source)
            CROSS JOIN LATERAL (
                SELECT coalesce(jsonb_object_agg(
                           found ->> 'section_id',
                           coalesce((found ->> 'relevance')::float8, 0)), '{{}}') AS relevances,
                       bool_or(found ? 'verified_at') AS is_dated,
                       max((found ->> 'verified_at')::date) AS verified_at
                FROM jsonb_array_elements(candidates) AS found
                WHERE (found ->> 'document_id')::bigint = documents.document_id
                OR (found ->> 'doc' = page.doc AND NOT EXISTS (
                    SELECT FROM documents AS others
                    WHERE others.document_id = (found ->> 'document_id')::bigint
                ))
            ) AS found
            LEFT JOIN LATERAL (
                SELECT kind = 'removed' OR EXISTS (  -- it stood elsewhere, and was moved
                           SELECT FROM page_changes AS gone
                           WHERE gone.kind = 'removed' AND gone.changed_at > asked_at
                           AND gone.text_hash = noted.text_hash
                       ) AS was_indexed
                FROM page_changes AS noted
                WHERE noted.path = page.doc AND noted.source = coalesce(page.source, noted.source)
                AND kind <> 'changed' AND changed_at > asked_at
                ORDER BY change_id LIMIT 1
            ) AS next_change ON true
            WHERE pages IS NOT NULL
        """),
        {**values, "older": f"{OLDER} ["},
    ).all()
    texts = _load_sections(connection, {row.document_id for row in rows if row.span})
    by_trace: defaultdict[UUID, list[Row[Any]]] = defaultdict(list)
    for row in rows:
        by_trace[row.trace_id].append(row)
    return {trace_id: _build_flagged(pages, texts) for trace_id, pages in by_trace.items()}


def _build_flagged(pages: Sequence[Row[Any]], texts: Mapping[int, Mapping[int, str]]) -> Flagged:
    """What the trace tells of its right pages, of several as if they were one."""
    first, *_ = pages
    dates = [row.verified_at for row in pages]
    relevances: dict[int, float] = {}
    for row in pages:
        found = {int(key): value for key, value in row.relevances.items()}
        relevances |= _narrow(found, row, texts.get(row.document_id, {}))
    return Flagged(
        asked_on=first.asked_on,
        was_indexed=any(row.was_indexed for row in pages),
        verified_at=None if None in dates else max(dates),
        relevances=relevances,
        kept=frozenset(first.kept),
        floor=first.floor,
        is_disputed=any(row.is_disputed for row in pages),
    )


def _narrow(
    found: Mapping[int, float], page: Row[Any], texts: Mapping[int, str]
) -> Mapping[int, float]:
    """Those of a page's candidates that hold the passage which answers.

    All of them where no section holds it, or where some are gone, as the page was indexed again.
    """
    if not page.span or not found.keys() <= texts.keys():
        return found
    gold = Gold(doc=page.doc, span=page.span)
    holding = {
        section_id
        for section_id, section in texts.items()
        if hits(Result(doc=page.doc, text=section), gold)
    }
    return {key: found[key] for key in found.keys() & holding} if holding else found


def _load_sections(
    connection: Connection, document_ids: Iterable[int | None]
) -> dict[int, dict[int, str]]:
    """The sections of some pages as they are now: text by section_id, by document_id."""
    rows = connection.execute(
        text("""
            SELECT document_id, section_id, sections.text
            FROM sections JOIN generations USING (generation_id)
            WHERE state IN ('active', 'kept') AND document_id = ANY(:document_ids)
        """),
        {"document_ids": [each for each in document_ids if each is not None]},
    )
    texts: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for row in rows:
        texts[row.document_id][row.section_id] = row.text
    return dict(texts)


def _load_symptoms(connection: Connection, trace_id: UUID) -> Symptoms | None:
    """None for an answer that was decided to be right, and where there is none."""
    known = KNOWN.format(path="found ->> 'doc'")
    row = connection.execute(
        text(f"""
            SELECT abstained_because, coalesce((settings ->> 'floor')::float8, 0) AS floor,
                   ARRAY(SELECT coalesce((found ->> 'relevance')::float8, 0)
                         FROM jsonb_array_elements(candidates) AS found
                         WHERE {known}) AS relevances,
                   ARRAY(SELECT coalesce((found ->> 'relevance')::float8, 0)
                         FROM jsonb_array_elements(candidates) AS found
                         WHERE (found ->> 'section_id')::bigint <> ALL(kept)
                         AND {known}) AS not_kept,
                   ARRAY(SELECT reason FROM feedback
                         WHERE feedback.trace_id = traces.trace_id AND vote < 0
                         AND reason IS NOT NULL) AS reasons,
                   ARRAY(SELECT cited ->> 'caveat' FROM jsonb_array_elements(citations) AS cited
                         WHERE cited ->> 'caveat' IS NOT NULL) AS caveats
            FROM traces
            LEFT JOIN case_traces USING (trace_id) LEFT JOIN eval_cases USING (case_id)
            WHERE traces.trace_id = :trace_id AND state IS DISTINCT FROM 'dismissed'
        """),
        {"trace_id": trace_id},
    ).one_or_none()
    if row is None:
        return None
    return Symptoms(
        abstained_because=row.abstained_because,
        relevances=tuple(row.relevances),
        left=tuple(row.not_kept),
        floor=row.floor,
        reasons=frozenset(row.reasons),
        caveats=tuple(row.caveats),
    )
