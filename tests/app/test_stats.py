"""The counts of the last days."""

import json
from dataclasses import replace
from uuid import UUID

from sqlalchemy import text

from app import feedback, stats
from app.stats import Stats
from retrieval.db import Database


def ask(
    database: Database,
    outcome: str,
    *,
    took_s: float | None = None,
    days_ago: float = 1,
    question: str = "how long?",
) -> UUID:
    statement = text("""
        INSERT INTO traces (tenant_id, surface, question, outcome, asked_at, completed_at)
        SELECT :tenant_id, 'terminal', :question, :outcome, asked_at,
               asked_at + CAST(:took_s AS float8) * interval '1 second'
        FROM (SELECT now() - CAST(:days_ago AS float8) * interval '1 day' AS asked_at) AS times
        RETURNING trace_id
    """)
    values = {
        "tenant_id": database.tenant_id,
        "question": question,
        "outcome": outcome,
        "took_s": took_s,
        "days_ago": days_ago,
    }
    with database.transaction() as connection:
        trace_id: UUID = connection.execute(statement, values).scalar_one()
    return trace_id


def test_no_questions_make_no_figures(database: Database) -> None:
    loaded = stats.load_stats(database)
    assert (loaded.asked, loaded.median_ms) == (0, None)
    assert stats.build_text(loaded) == "Nobody has asked anything in the last 30 days."


def test_questions_are_counted_by_what_came_of_them(database: Database) -> None:
    first, second = (ask(database, "answered", took_s=seconds) for seconds in (1, 2))
    ask(database, "abstained", took_s=6)
    ask(database, "failed", took_s=0)  # counts in no median
    ask(database, "pending")
    ask(database, "answered", took_s=9, days_ago=31)
    ask(database, "answered", took_s=9, question="")  # a bare mention
    feedback.vote(database, first, "U1", -1)
    feedback.vote(database, first, "U2", -1)
    feedback.vote(database, first, "U3", 1)
    feedback.vote(database, second, "U1", 1)
    assert stats.load_stats(database) == Stats(
        days=30,
        asked=5,
        answered=2,
        abstained=1,
        failed=1,
        flagged=1,
        helpful=2,
        median_ms=2000,  # of 1, 2 and 6 s
    )


def test_days_are_counted_back_from_now(database: Database) -> None:
    ask(database, "answered", took_s=1, days_ago=6.9)
    ask(database, "answered", took_s=1, days_ago=7.1)
    assert stats.load_stats(database, days=7).asked == 1


def test_another_tenant_has_its_own_counts(database: Database, database_url: str) -> None:
    ask(database, "answered", took_s=1)
    other = Database(database_url, tenant_id="other")
    assert stats.load_stats(other).asked == 0
    other.close()


COUNTS = Stats(
    days=30,
    asked=8,
    answered=5,
    abstained=2,
    failed=1,
    flagged=1,
    helpful=3,
    median_ms=2345.6,
)


def test_the_text_has_shares_and_seconds() -> None:
    assert stats.build_text(COUNTS) == (
        "In the last 30 days\n"
        "Asked: 8\n"
        "Answered: 5 (62%)\n"
        "Abstained: 2 (25%)\n"
        "Failed: 1 (12%)\n"
        "Flagged 👎: 1 (12%)\n"
        "Helpful 👍: 3 (38%)\n"
        "Median time: 2.3 s"
    )


def test_the_json_is_one_line_with_every_count() -> None:
    assert json.loads(stats.to_json(COUNTS)) == {
        "days": 30,
        "asked": 8,
        "answered": 5,
        "abstained": 2,
        "failed": 1,
        "flagged": 1,
        "helpful": 3,
        "median_ms": 2345.6,
    }
    assert "\n" not in stats.to_json(COUNTS)


def test_the_json_has_tenths_of_a_millisecond() -> None:
    counts = replace(COUNTS, median_ms=2345.6789)
    assert json.loads(stats.to_json(counts))["median_ms"] == 2345.7
    assert json.loads(stats.to_json(replace(COUNTS, median_ms=None)))["median_ms"] is None
