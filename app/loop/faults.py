"""At which stage a flagged answer went wrong, by the page that its voter names as the right one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from sqlalchemy import Connection, text

# In the order in which they are looked for: not in the corpus; not among the candidates; kept, and
# wrongly told; cut by the floor; above it, and another page kept instead: of such, what is old
# loses to what was verified later.
Stage = Literal["missing", "search", "generation", "floor", "stale", "rerank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """The trace of an answer that was flagged, with what is known of the right page."""

    asked_on: date
    is_indexed: bool  # the right page is in the corpus now
    verified_at: date | None
    relevances: Mapping[int, float]  # of the candidates from the right page, by section_id
    kept: frozenset[int]  # section ids of what was handed over, of whatever page
    floor: float  # 0 where nothing was searched


def find_stage(flagged: Flagged, *, freshness_days: int) -> Stage:
    """The first stage that the right page did not get through.

    A page counts as stale by its age when it was asked about; without a date it has none. That it
    is stale loses it nothing where it was used.
    """
    if not flagged.relevances:
        return "search" if flagged.is_indexed else "missing"
    if flagged.kept & flagged.relevances.keys():
        return "generation"
    if not flagged.kept or max(flagged.relevances.values()) < flagged.floor:
        return "floor"
    oldest = flagged.asked_on - timedelta(days=freshness_days)
    is_stale = flagged.verified_at is not None and flagged.verified_at < oldest
    return "stale" if is_stale else "rerank"


def count_stages(
    connection: Connection, *, days: int, channel_id: str | None, freshness_days: int
) -> dict[Stage, int]:
    """How often each stage was at fault for the answers of the last days, of one channel or all;
    none that never was. Of several pages named for one answer, the last counts.

    A page that was removed since, renamed or indexed again, is known among the candidates by its
    path as it was.
    """
    flagged = _load_flagged(connection, days, channel_id)
    return dict(Counter(find_stage(each, freshness_days=freshness_days) for each in flagged))


def _load_flagged(connection: Connection, days: int, channel_id: str | None) -> list[Flagged]:
    rows = connection.execute(
        text("""
            WITH named AS (
                SELECT DISTINCT ON (trace_id) trace_id, right_source, right_path
                FROM feedback WHERE vote < 0 AND right_path IS NOT NULL
                ORDER BY trace_id, voted_at DESC
            )
            SELECT asked_at::date AS asked_on, document_id IS NOT NULL AS is_indexed, verified_at,
                   kept, coalesce((settings ->> 'floor')::float8, 0) AS floor,
                   (SELECT coalesce(jsonb_object_agg(
                        found ->> 'section_id',
                        coalesce((found ->> 'relevance')::float8, 0)), '{}')
                    FROM jsonb_array_elements(candidates) AS found
                    WHERE (found ->> 'document_id')::bigint = documents.document_id
                    OR (found ->> 'doc' = right_path AND NOT EXISTS (
                        SELECT FROM documents AS others
                        WHERE others.document_id = (found ->> 'document_id')::bigint
                    ))) AS relevances
            FROM named JOIN traces USING (trace_id)
            LEFT JOIN documents ON source = right_source AND path = right_path
            WHERE asked_at >= now() - make_interval(days => :days) AND is_question(traces)
            AND (CAST(:channel_id AS text) IS NULL OR channel_id = :channel_id)
        """),
        {"days": days, "channel_id": channel_id},
    )
    return [
        Flagged(
            asked_on=row.asked_on,
            is_indexed=row.is_indexed,
            verified_at=row.verified_at,
            relevances={int(key): value for key, value in row.relevances.items()},
            kept=frozenset(row.kept),
            floor=row.floor,
        )
        for row in rows
    ]
