"""Questions asked before, pages and runs, straight into the tables."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from app import claims
from app.feedback import Complaint, save_complaint
from app.records import Citation
from retrieval import audiences
from retrieval.db import Database


def ask(
    database: Database,
    outcome: str = "answered",
    *,
    question: str = "how long?",
    took_s: float | None = None,
    days_ago: float = 1,
    user_id: str = "U1",
    channel_id: str = "C1",
    unknown: str | None = None,
    tokens: dict[str, int] | None = None,
    settings: Mapping[str, object] | None = None,
    error_class: str | None = None,
) -> UUID:
    """A question in Slack, and what came of it."""
    statement = text("""
        INSERT INTO traces (tenant_id, surface, team_id, question, outcome, asked_at, completed_at,
                            user_id, channel_id, message_ts, thread_ts, settings, tokens, queries,
                            error_class)
        SELECT :tenant_id, 'slack', 'T0001', :question, :outcome, asked_at,
               asked_at + CAST(:took_s AS float8) * interval '1 second', :user_id, :channel_id,
               gen_random_uuid()::text, '1767225600.000001', CAST(:settings AS jsonb),
               CAST(:tokens AS jsonb), ARRAY[CAST(:question AS text)], :error_class
        FROM (SELECT now() - CAST(:days_ago AS float8) * interval '1 day' AS asked_at) AS times
        RETURNING trace_id
    """)
    values = {
        "tenant_id": database.tenant_id,
        "question": question,
        "outcome": outcome,
        "took_s": took_s,
        "days_ago": days_ago,
        "user_id": user_id,
        "channel_id": channel_id,
        "settings": json.dumps({**(settings or {}), **({"unknown": [unknown]} if unknown else {})}),
        "tokens": json.dumps(tokens or {}),
        "error_class": error_class,
    }
    with database.transaction() as connection:
        trace_id: UUID = connection.execute(statement, values).scalar_one()
    return trace_id


def reopen(database: Database, trace_id: UUID, question: str) -> None:
    """Have a question begin again as it was edited."""
    with database.unrestricted.transaction() as connection:
        claims.begin_anew(connection, trace_id, question)


def add_page(
    database: Database,
    source: str,
    path: str,
    *,
    verified_days_ago: int | None = None,
    added_days_ago: int = 900,
    audience: str = "everyone",
    **more: object,
) -> int:
    """A page without text, with more in its row; its document_id."""
    days = verified_days_ago
    verified_at = None if days is None else datetime.now(UTC).date() - timedelta(days=days)
    values = {"tenant_id": database.tenant_id, "source": source, "path": path, "title": path}
    values |= {"url": "", "text": "", "content_hash": "", "verified_at": verified_at, **more}
    names = ", ".join(values)
    statement = text(f"""
        INSERT INTO documents ({names}) VALUES (:{names.replace(", ", ", :")})
        RETURNING document_id
    """)
    with database.unrestricted.transaction() as connection:
        document_id: int = connection.execute(statement, values).scalar_one()
        audiences.assign(connection, (audience,), [document_id])
        connection.execute(
            text("""
                UPDATE page_changes SET changed_at = now() - make_interval(days => :days_ago)
                WHERE change_id = (SELECT max(change_id) FROM page_changes)
            """),
            {"days_ago": added_days_ago},
        )
    return document_id


def build_citation(**stated: Any) -> Citation:
    """A citation of a page on leave, but for what is stated."""
    return Citation(
        **{
            "marker": 1,
            "section_id": 1,
            "path": "leave.md",
            "title": "Leave",
            "heading_path": (),
            "url": "https://wiki.example/leave",
            "cited_text": "30 days",
            "owner": None,
            "updated_at": None,
            "verified_at": None,
            **stated,
        }
    )


def complain(database: Database, trace_id: UUID, user_id: str, document_id: int) -> None:
    """Name the right page for an answer that this person has flagged."""
    complaint = Complaint(document_id=document_id)
    assert save_complaint(database, trace_id, user_id, complaint) == trace_id


def add_run(database: Database, name: str, recall_at_5: float | None) -> None:
    """A run over a set of cases."""
    means = {"all": {"cases": 10} | ({} if recall_at_5 is None else {"recall@5": recall_at_5})}
    statement = text("""
        INSERT INTO eval_runs (tenant_id, cases_name, settings, means, results)
        VALUES (:tenant_id, :name, '{}', CAST(:means AS jsonb), '[]')
    """)
    with database.transaction() as connection:
        connection.execute(
            statement,
            {"tenant_id": database.tenant_id, "name": name, "means": json.dumps(means)},
        )
