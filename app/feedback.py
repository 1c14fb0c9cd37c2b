"""What people thought of an answer: one vote a person, the last one counts."""

from typing import Literal
from uuid import UUID

from sqlalchemy import text

from retrieval.db import Database

Vote = Literal[-1, 1]

_VOTES: dict[str, Vote] = {"-1": -1, "thumbsdown": -1, "+1": 1, "thumbsup": 1}


def find_vote(reaction: str) -> Vote | None:
    """The vote that a reaction stands for, whatever its skin tone; None for any other reaction."""
    return _VOTES.get(reaction.partition("::")[0])


def vote(database: Database, trace_id: UUID, user_id: str, value: Vote) -> None:
    """Count a person's vote on an answer instead of the one before."""
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO feedback (trace_id, tenant_id, user_id, vote)
                VALUES (:trace_id, :tenant_id, :user_id, :vote)
                ON CONFLICT (trace_id, user_id)
                DO UPDATE SET vote = excluded.vote, voted_at = excluded.voted_at
            """),
            {
                "trace_id": trace_id,
                "tenant_id": database.tenant_id,
                "user_id": user_id,
                "vote": value,
            },
        )


def take_back(database: Database, trace_id: UUID, user_id: str, value: Vote) -> None:
    """Forget a person's vote, unless they have voted otherwise since."""
    with database.transaction() as connection:
        connection.execute(
            text("""
                DELETE FROM feedback
                WHERE trace_id = :trace_id AND user_id = :user_id AND vote = :vote
            """),
            {"trace_id": trace_id, "user_id": user_id, "vote": value},
        )
