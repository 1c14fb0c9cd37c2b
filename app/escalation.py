"""Questions that were passed on to people: whom to ask, and that each is asked once."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from retrieval.db import Database

ANY_SOURCE = "*"
CLAIM_S = 300  # after which a claim without a message is one that nobody is at work on; chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """Whom to ask, and where."""

    channel_id: str
    thread_ts: str | None = None
    group_id: str | None = None  # a user group, called in the thread of the question


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """A question that was passed on."""

    trace_id: UUID
    question: str  # as it was when it was passed on
    user_id: str  # who asked it
    channel_id: str  # where
    message_ts: str
    thread_ts: str
    asked_by: str  # who had it passed on
    resolved_by: str | None


def find_expert(
    database: Database, trace_id: UUID, experts: Mapping[str, str], *, outcome: str = "abstained"
) -> Expert | None:
    """Whom to ask what Footnote has not answered; None where nobody is named for it, or where the
    trace has another outcome.

    Owner or, if nobody is named for them, source of the best candidate decide, else ANY_SOURCE. A
    user group is called where the question was asked, so there is none to ask in direct messages,
    which it does not see.
    """
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT traces.channel_id, thread_ts, source, owner
                FROM traces LEFT JOIN documents
                    ON document_id = CAST(candidates -> 0 ->> 'document_id' AS bigint)
                WHERE trace_id = :trace_id AND outcome = :outcome
            """),
            {"trace_id": trace_id, "outcome": outcome},
        ).one_or_none()
    if row is None:
        return None
    expert_id = find_expert_id(experts, row.owner, row.source)
    if expert_id is None:
        return None
    if not expert_id.startswith("S"):
        return Expert(channel_id=expert_id)
    if row.channel_id.startswith("D"):
        return None
    return Expert(channel_id=row.channel_id, thread_ts=row.thread_ts, group_id=expert_id)


def find_expert_id(experts: Mapping[str, str], owner: str | None, source: str | None) -> str | None:
    """The channel or user group for a page: by its owner, else by its source, else for any."""
    topics = (owner, source, ANY_SOURCE)
    return next((experts[topic] for topic in topics if topic and topic in experts), None)


def claim(database: Database, trace_id: UUID, expert: Expert, user_id: str) -> bool:
    """Whether it is this click, of all in any process, that passes the question on.

    A claim of which no message has come in CLAIM_S, as its process has died say, may be taken over.
    """
    with database.unrestricted.transaction() as connection:
        claimed = connection.execute(
            text("""
                INSERT INTO escalations AS old
                    (trace_id, tenant_id, channel_id, asked_by, question)
                SELECT trace_id, :tenant_id, :channel_id, :user_id, question
                FROM traces WHERE trace_id = :trace_id AND NOT settings ? 'deleted'
                ON CONFLICT (trace_id) DO UPDATE
                SET channel_id = excluded.channel_id, asked_by = excluded.asked_by,
                    question = excluded.question, asked_at = excluded.asked_at
                WHERE old.ts IS NULL AND old.resolved_at IS NULL
                AND old.asked_at < now() - make_interval(secs => :claim_s)
                RETURNING trace_id
            """),
            {
                "trace_id": trace_id,
                "tenant_id": database.tenant_id,
                "channel_id": expert.channel_id,
                "user_id": user_id,
                "claim_s": CLAIM_S,
            },
        ).scalar()
    return claimed is not None


def release(database: Database, trace_id: UUID) -> None:
    """Let the question be passed on again, as it reached nobody."""
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text("DELETE FROM escalations WHERE trace_id = :trace_id AND ts IS NULL"),
            {"trace_id": trace_id},
        )


def save_ts(database: Database, trace_id: UUID, ts: str) -> bool:
    """Add the message to those who may know; False when the question was deleted meanwhile."""
    with database.unrestricted.transaction() as connection:
        saved = connection.execute(
            text("""
                UPDATE escalations SET ts = :ts FROM traces
                WHERE escalations.trace_id = :trace_id AND traces.trace_id = :trace_id
                AND NOT settings ? 'deleted'
                RETURNING ts
            """),
            {"trace_id": trace_id, "ts": ts},
        ).scalar()
    return saved is not None


def withdraw(
    database: Database, team_id: str, channel_id: str, message_ts: str
) -> tuple[str, str] | None:
    """Forget that a question was passed on, after it was deleted; channel and ts of the message.

    None when it was not, or is being passed on: then save_ts tells.
    """
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("""
                DELETE FROM escalations USING traces
                WHERE escalations.trace_id = traces.trace_id AND team_id = :team_id
                AND traces.channel_id = :channel_id AND message_ts = :message_ts
                RETURNING escalations.channel_id, ts
            """),
            {"team_id": team_id, "channel_id": channel_id, "message_ts": message_ts},
        ).one_or_none()
    return (row.channel_id, row.ts) if row and row.ts else None


def resolve(database: Database, trace_id: UUID, user_id: str) -> bool:
    """Whether it is this click that resolves the question; the first one does, for good."""
    with database.unrestricted.transaction() as connection:
        resolved = connection.execute(
            text("""
                UPDATE escalations SET resolved_by = :user_id, resolved_at = now()
                WHERE trace_id = :trace_id AND resolved_at IS NULL
                RETURNING trace_id
            """),
            {"trace_id": trace_id, "user_id": user_id},
        ).scalar()
    return resolved is not None


def reopen(database: Database, trace_id: UUID) -> None:
    """Let the question be resolved again, as nobody was told."""
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text(
                "UPDATE escalations SET resolved_by = NULL, resolved_at = NULL"
                " WHERE trace_id = :trace_id"
            ),
            {"trace_id": trace_id},
        )


def load(database: Database, trace_id: UUID) -> Escalation | None:
    """A question that was passed on; None when it was not, or is forgotten."""
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT trace_id, escalations.question, user_id, traces.channel_id, message_ts,
                       thread_ts, asked_by, resolved_by
                FROM escalations JOIN traces USING (trace_id)
                WHERE trace_id = :trace_id
            """),
            {"trace_id": trace_id},
        ).one_or_none()
    return Escalation(**row._mapping) if row else None
