"""What people thought of an answer: one vote a person, the last one counts, and what was wrong."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text

from app.loop import proposing
from retrieval.db import Database
from retrieval.metrics import Gold

Vote = Literal[-1, 1]
Reason = Literal["wrong", "outdated", "missing", "not_asked"]

MOST_PAGES = 100  # options that Slack takes

_VOTES: dict[str, Vote] = {"-1": -1, "thumbsdown": -1, "+1": 1, "thumbsup": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """A vote as Slack tells of it."""

    channel_id: str
    answer_ts: str  # of the message voted on
    user_id: str
    vote: Vote
    voted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What a person says is wrong with an answer, as far as they say it."""

    reason: Reason | None = None
    document_id: int | None = None  # of the page that holds the right answer
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A document as people choose it."""

    document_id: int
    title: str
    path: str


def find_vote(reaction: str) -> Vote | None:
    """The vote that a reaction stands for, whatever its skin tone; None for any other reaction."""
    return _VOTES.get(reaction.partition("::")[0])


def read_reaction(event: Mapping[str, Any]) -> Ballot | None:
    """The vote of a reaction, if it is one on a message."""
    value, item = find_vote(event["reaction"]), event["item"]
    if value is None or item["type"] != "message":
        return None
    return Ballot(
        channel_id=item["channel"],
        answer_ts=item["ts"],
        user_id=event["user"],
        vote=value,
        voted_at=_read_ts(event["event_ts"]),
    )


def read_click(body: Mapping[str, Any]) -> Ballot:
    """The vote of a button; raises ValueError where it stands for none."""
    action, place = body["actions"][0], body["container"]
    value = find_vote(action["value"])
    if value is None:
        raise ValueError("A button for votes that stands for none.")
    return Ballot(
        channel_id=place["channel_id"],
        answer_ts=place["message_ts"],
        user_id=body["user"]["id"],
        vote=value,
        voted_at=_read_ts(action["action_ts"]),
    )


def vote(
    database: Database,
    trace_id: UUID,
    user_id: str,
    value: Vote,
    voted_at: datetime | None = None,
) -> None:
    """Count a person's vote on an answer instead of the one before; voted_at is now by default.

    Votes are handled side by side, and Slack may repeat one late: one given before the last, or
    before that was taken back, changes nothing. A complaint goes when its 👎 becomes a 👍.
    """
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO feedback AS old (trace_id, tenant_id, user_id, vote, voted_at)
                VALUES (:trace_id, :tenant_id, :user_id, :vote, coalesce(:voted_at, now()))
                ON CONFLICT (trace_id, user_id) DO UPDATE
                SET vote = excluded.vote,
                    voted_at = excluded.voted_at,
                    reason = CASE WHEN excluded.vote < 0 THEN old.reason END,
                    right_source = CASE WHEN excluded.vote < 0 THEN old.right_source END,
                    right_path = CASE WHEN excluded.vote < 0 THEN old.right_path END,
                    note = CASE WHEN excluded.vote < 0 THEN old.note END
                WHERE old.voted_at <= excluded.voted_at
            """),
            {
                "trace_id": trace_id,
                "tenant_id": database.tenant_id,
                "user_id": user_id,
                "vote": value,
                "voted_at": voted_at,
            },
        )
        proposing.propose(connection, trace_id)


def take_back(
    database: Database,
    trace_id: UUID,
    user_id: str,
    value: Vote,
    taken_at: datetime | None = None,
) -> None:
    """Forget a person's vote, unless they have voted since; taken_at is now by default.

    When that was is kept in its place, so that no vote given before it counts. A vote of theirs
    that is another one stays.
    """
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO feedback AS old (trace_id, tenant_id, user_id, vote, voted_at)
                SELECT trace_id, tenant_id, :user_id, 0, coalesce(:taken_at, now())
                FROM traces WHERE trace_id = :trace_id
                ON CONFLICT (trace_id, user_id) DO UPDATE
                SET vote = CASE WHEN old.vote <> :vote THEN old.vote ELSE 0 END,
                    voted_at = excluded.voted_at,
                    reason = CASE WHEN old.vote <> :vote THEN old.reason END,
                    right_source = CASE WHEN old.vote <> :vote THEN old.right_source END,
                    right_path = CASE WHEN old.vote <> :vote THEN old.right_path END,
                    note = CASE WHEN old.vote <> :vote THEN old.note END
                WHERE old.voted_at <= excluded.voted_at
            """),
            {"trace_id": trace_id, "user_id": user_id, "vote": value, "taken_at": taken_at},
        )
        proposing.propose(connection, trace_id)


def save_complaint(
    database: Database, trace_id: UUID, user_id: str, complaint: Complaint
) -> UUID | None:
    """Keep what a person says is wrong instead of what they said before; the trace's id.

    None, and nothing kept, when there is no 👎 of theirs on such a trace of this tenant. A page
    that they may not read, or that is gone, is left out.
    """
    page_id = complaint.document_id
    if page_id is not None and load_page(database, page_id) is None:
        page_id = None
    with database.unrestricted.transaction() as connection:
        kept = connection.execute(
            text("""
                UPDATE feedback
                SET reason = :reason,
                    note = :note,
                    (right_source, right_path) = (
                        SELECT source, path FROM documents WHERE document_id = :document_id
                    )
                WHERE trace_id = :trace_id AND user_id = :user_id AND vote < 0
                RETURNING right_source, right_path
            """),
            {
                "trace_id": trace_id,
                "user_id": user_id,
                "reason": complaint.reason,
                "note": complaint.note,
                "document_id": page_id,
            },
        ).one_or_none()
        if kept is None:
            return None
        page = Gold(doc=kept.right_path, source=kept.right_source) if kept.right_path else None
        proposing.propose(connection, trace_id, page)
    return trace_id


def load_complaint(database: Database, trace_id: UUID, user_id: str) -> Complaint:
    """What a person has said is wrong with an answer so far; the page, too, that they named."""
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT reason, document_id, note
                FROM feedback LEFT JOIN documents ON source = right_source AND path = right_path
                WHERE trace_id = :trace_id AND user_id = :user_id
            """),
            {"trace_id": trace_id, "user_id": user_id},
        ).one_or_none()
    return Complaint(**row._mapping) if row else Complaint()


def find_pages(database: Database, typed: str) -> list[Page]:
    """The documents whose titles hold all that is typed, in any case, as the database is bound.

    Words may be typed in any order and in part. Titles that begin as typed come first, then the
    shorter ones; at most MOST_PAGES.
    """
    words = [_escape(word) for word in typed.replace("\0", "").split()]
    with database.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT document_id, title, path FROM documents
                WHERE title ILIKE ALL (CAST(:anywhere AS text[]))
                ORDER BY title ILIKE :first DESC, length(title), title, path LIMIT :most
            """),
            {
                "anywhere": [f"%{word}%" for word in words],
                "first": " ".join(words) + "%",
                "most": MOST_PAGES,
            },
        ).all()
    return [Page(**row._mapping) for row in rows]


def load_page(database: Database, document_id: int) -> Page | None:
    """A document, as the database is bound; None when there is no such one."""
    with database.transaction() as connection:
        row = connection.execute(
            text("SELECT document_id, title, path FROM documents WHERE document_id = :document_id"),
            {"document_id": document_id},
        ).one_or_none()
    return Page(**row._mapping) if row else None


def load_place(database: Database, trace_id: UUID) -> tuple[str, str]:
    """The channel and the thread in which an answer stands."""
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("SELECT channel_id, thread_ts FROM traces WHERE trace_id = :trace_id"),
            {"trace_id": trace_id},
        ).one()
    return row.channel_id, row.thread_ts


def _read_ts(ts: str) -> datetime:
    return datetime.fromtimestamp(float(ts), UTC)


def _escape(word: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", word)
