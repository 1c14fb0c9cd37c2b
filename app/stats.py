"""Sums over traces, for /ragstats and `footnote stats`."""

import json
from dataclasses import asdict, dataclass

from sqlalchemy import text

from retrieval.db import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What came of the questions of the last days; those still worked on are only asked."""

    days: int
    asked: int
    answered: int
    abstained: int
    failed: int
    flagged: int  # with at least one 👎
    helpful: int  # with at least one 👍
    median_ms: float | None  # from question to answer or abstention; None before the first


def load_stats(database: Database, days: int = 30) -> Stats:
    """The counts of the last days. A mention that asked nothing is no question."""
    with database.transaction() as connection:
        row = connection.execute(
            text("""
                WITH votes AS (
                    SELECT trace_id,
                           bool_or(vote < 0) AS is_flagged,
                           bool_or(vote > 0) AS is_helpful
                    FROM feedback GROUP BY trace_id
                )
                SELECT count(*) AS asked,
                       count(*) FILTER (WHERE outcome = 'answered') AS answered,
                       count(*) FILTER (WHERE outcome = 'abstained') AS abstained,
                       count(*) FILTER (WHERE outcome = 'failed') AS failed,
                       count(*) FILTER (WHERE is_flagged) AS flagged,
                       count(*) FILTER (WHERE is_helpful) AS helpful,
                       percentile_cont(0.5) WITHIN GROUP (
                           ORDER BY extract(epoch FROM completed_at - asked_at)::float8 * 1000
                       ) FILTER (WHERE outcome IN ('answered', 'abstained')) AS median_ms
                FROM traces LEFT JOIN votes USING (trace_id)
                WHERE asked_at >= now() - make_interval(days => :days) AND question <> ''
            """),
            {"days": days},
        ).one()
    return Stats(days=days, **row._mapping)


def build_text(stats: Stats) -> str:
    """The counts as lines of plain text."""
    if not stats.asked:
        return f"Nobody has asked anything in the last {stats.days} days."
    lines = [
        f"In the last {stats.days} days",
        _counted("Asked", stats.asked),
        _counted("Answered", stats.answered, stats.asked),
        _counted("Abstained", stats.abstained, stats.asked),
        _counted("Failed", stats.failed, stats.asked),
        _counted("Flagged 👎", stats.flagged, stats.asked),
        _counted("Helpful 👍", stats.helpful, stats.asked),
    ]
    if stats.median_ms is not None:
        lines.append(f"Median time: {stats.median_ms / 1000:.1f} s")
    return "\n".join(lines)


def to_json(stats: Stats) -> str:
    """The counts as one line of JSON."""
    median_ms = None if stats.median_ms is None else round(stats.median_ms, 1)
    return json.dumps({**asdict(stats), "median_ms": median_ms})


def _counted(name: str, number: int, of: int | None = None) -> str:
    return f"{name}: {number}" + (f" ({number / of:.0%})" if of else "")
