"""What becomes of a question before anybody works on it: claimed, taken up, asked anew, let go.

Whoever gets a claim answers; each attempt takes the question over from those before it.
"""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app import outbox as outboxes
from app.loop import proposing
from app.outbox import Outbox
from app.records import Arrival
from retrieval.db import Database

BUSY = "Busy"  # the error_class of what came when too much was waiting
LIMITED = "Limited"  # the error_class of what was one question too many
LOST_AFTER_S = 3_600  # longer than any question waits and is worked on; chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A question as an attempt at it finds it."""

    trace_id: UUID
    attempt: int  # from 1; only the latest may write to the trace
    tries: int  # the attempts since it was asked, or asked again, with this one
    arrival: Arrival
    outcome: str
    outbox: Outbox | None
    answer_ts: tuple[str, ...]  # the messages that are known to be seen of its answer
    asked_at: datetime  # aware; or asked again
    age_s: float  # since then, by the database's clock
    is_deleted: bool

    @property
    def is_told(self) -> bool:
        """Whether nothing is left to be told."""
        return self.outcome != "pending" and self.outbox is None


def claim(database: Database, arrival: Arrival) -> UUID | None:
    """Open the trace of a question; None when this message has one already.

    Whoever gets the trace_id answers; a second delivery, in this process or another, gets None.
    """
    with database.unrestricted.transaction() as connection:
        return add(connection, arrival, database.tenant_id)


def add(connection: Connection, arrival: Arrival, tenant_id: str) -> UUID | None:
    """As claim, in a transaction that does more."""
    row = asdict(arrival)
    more = {name: row.pop(name) for name in ("user_team_id", "is_unasked", "is_external")}
    return connection.execute(
        text("""
            INSERT INTO traces (tenant_id, surface, team_id, channel_id, message_ts, thread_ts,
                                user_id, question, arrival, asked_at)
            VALUES (:tenant_id, :surface, :team_id, :channel_id, :message_ts, :thread_ts,
                    :user_id, :question, CAST(:arrival AS jsonb), clock_timestamp())
            ON CONFLICT DO NOTHING
            RETURNING trace_id
        """),
        {"tenant_id": tenant_id, **row, "arrival": json.dumps(more)},
    ).scalar()


def begin(database: Database, trace_id: UUID) -> Begun | None:
    """Have another attempt at a question, which those before may write to no more; None: it is
    gone.
    """
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("""
                UPDATE traces SET attempts = attempts + 1 WHERE trace_id = :trace_id
                RETURNING attempts,
                          attempts - coalesce((settings #>> '{before,attempts}')::int, 0) AS tries,
                          surface, question, team_id, channel_id, message_ts, thread_ts,
                          user_id, arrival, outcome, outbox, answer_ts, asked_at,
                          extract(epoch FROM clock_timestamp() - asked_at)::float8 AS age_s,
                          settings ? 'deleted' AS is_deleted
            """),
            {"trace_id": trace_id},
        ).one_or_none()
    if row is None:
        return None
    return Begun(
        trace_id=trace_id,
        attempt=row.attempts,
        tries=row.tries,
        arrival=Arrival(
            question=row.question,
            surface=row.surface,
            team_id=row.team_id,
            channel_id=row.channel_id,
            message_ts=row.message_ts,
            thread_ts=row.thread_ts,
            user_id=row.user_id,
            **row.arrival,
        ),
        outcome=row.outcome,
        outbox=row.outbox and outboxes.parse(row.outbox),
        answer_ts=tuple(row.answer_ts),
        asked_at=row.asked_at,
        age_s=row.age_s,
        is_deleted=row.is_deleted,
    )


def call(connection: Connection, arrival: Arrival) -> bool:
    """Have a message that nobody had asked us about be one that somebody does ask, if it is being
    answered; whether it is."""
    called = connection.execute(
        text("""
            UPDATE traces SET arrival = arrival || '{"is_unasked": false}'
            WHERE team_id = :team_id AND channel_id = :channel_id AND message_ts = :message_ts
            AND outcome = 'pending'
            AND asked_at > clock_timestamp() - make_interval(secs => :lost_after_s)
        """),
        {**_place(arrival), "lost_after_s": LOST_AFTER_S},
    )
    return called.rowcount > 0


def find_failed(connection: Connection, arrival: Arrival) -> UUID | None:
    """The trace of a message whose question failed, for whoever asks again; else None.

    A question without an answer in Slack LOST_AFTER_S later has failed, whatever became of it.
    """
    return connection.execute(
        text("""
            SELECT trace_id FROM traces
            WHERE team_id = :team_id AND channel_id = :channel_id AND message_ts = :message_ts
            AND NOT settings ? 'deleted'
            AND (outcome = 'failed' OR (
                (outcome = 'pending' OR answer_ts = '{}')
                AND asked_at < clock_timestamp() - make_interval(secs => :lost_after_s)))
            FOR UPDATE
        """),
        {**_place(arrival), "lost_after_s": LOST_AFTER_S},
    ).scalar()


def find_revised(connection: Connection, arrival: Arrival) -> UUID | None:
    """The trace of a question whose text has changed, once; None when there is nothing to do."""
    return connection.execute(
        text("""
            UPDATE traces SET settings = settings || '{"revised": true}'
            WHERE team_id = :team_id AND channel_id = :channel_id AND message_ts = :message_ts
            AND question <> :question AND NOT settings ?| ARRAY['revised', 'deleted']
            RETURNING trace_id
        """),
        {**_place(arrival), "question": arrival.question},
    ).scalar()


def save_revised(connection: Connection, trace_id: UUID) -> None:
    """Add that a question was changed: what it read before may come yet."""
    connection.execute(
        text("""
            UPDATE traces SET settings = settings || '{"revised": true}'
            WHERE trace_id = :trace_id
        """),
        {"trace_id": trace_id},
    )


def begin_anew(connection: Connection, trace_id: UUID, question: str) -> None:
    """Have a trace begin again with the question as it reads now; no attempt at it counts any more.

    What it was and what came of it stays in settings, the votes included: they were on that answer.
    So does for whom it is, if there was an answer; and where that stands, so that it is replaced.
    """
    connection.execute(
        text("""
            WITH votes AS (
                DELETE FROM feedback WHERE trace_id = :trace_id
                RETURNING user_id, vote, voted_at, reason, right_source, right_path, note
            )
            UPDATE traces
            SET question = :question, asked_at = clock_timestamp(), completed_at = NULL,
                queries = '{}', candidates = '[]', kept = '{}', answer = NULL,
                citations = '[]', abstained_because = NULL, stage_ms = '{}', tokens = '{}',
                embedding = NULL, outcome = 'pending', error_class = NULL, outbox = NULL,
                attempts = attempts + 1,
                document_ids = CASE WHEN answer IS NULL THEN '{}' ELSE document_ids END,
                made_for = CASE WHEN answer IS NULL THEN '{}' ELSE made_for END,
                settings = jsonb_build_object('before', jsonb_build_object(
                    'question', question, 'asked_at', asked_at, 'answer', answer,
                    'citations', citations, 'outcome', outcome, 'tokens', tokens,
                    'generator', settings -> 'generator',
                    'rewrite_model', settings -> 'rewrite_model',
                    'abstained_because', abstained_because, 'attempts', attempts + 1,
                    'votes', (SELECT coalesce(jsonb_agg(votes), '[]') FROM votes
                              WHERE vote <> 0)))
                    || jsonb_strip_nulls(jsonb_build_object(
                        'revised', settings -> 'revised', 'deleted', settings -> 'deleted',
                        'joined', settings -> 'joined'))
            WHERE trace_id = :trace_id
        """),
        {"trace_id": trace_id, "question": question},
    )
    proposing.leave(connection, trace_id)


def refuse(connection: Connection, trace_id: UUID, error_class: str, outbox: Outbox | None) -> None:
    """Complete the trace of a question that is not taken up, with what its asker is to be told.

    That counts as made in the attempt that comes.
    """
    connection.execute(
        text("""
            UPDATE traces
            SET outcome = 'failed', error_class = :error_class, completed_at = clock_timestamp(),
                outbox = jsonb_set(CAST(:outbox AS jsonb), '{attempt}', to_jsonb(attempts + 1))
            WHERE trace_id = :trace_id
        """),
        {"trace_id": trace_id, "error_class": error_class, "outbox": outboxes.build_json(outbox)},
    )


def drop(connection: Connection, trace_id: UUID) -> None:
    """Delete a trace, so that its message counts as never seen."""
    connection.execute(
        text("DELETE FROM traces WHERE trace_id = :trace_id"), {"trace_id": trace_id}
    )


def forget_unasked(database: Database, trace_id: UUID) -> bool:
    """Forget a message that nobody has asked us about so far; whether it was one."""
    with database.unrestricted.transaction() as connection:
        forgotten = connection.execute(
            text("""
                DELETE FROM traces
                WHERE trace_id = :trace_id AND (arrival ->> 'is_unasked')::boolean
            """),
            {"trace_id": trace_id},
        )
    return forgotten.rowcount > 0


def save_deletion(
    connection: Connection, team_id: str, channel_id: str, message_ts: str
) -> UUID | None:
    """Add that a question was deleted; its trace.

    All else is kept, but that no case rests on it any more. A message that was no question has
    nothing to be added to.
    """
    trace_id: UUID | None = connection.execute(
        text("""
            UPDATE traces SET settings = settings || '{"deleted": true}'
            WHERE team_id = :team_id AND channel_id = :channel_id AND message_ts = :message_ts
            RETURNING trace_id
        """),
        {"team_id": team_id, "channel_id": channel_id, "message_ts": message_ts},
    ).scalar()
    if trace_id is not None:
        proposing.forget(connection, trace_id)
    return trace_id


def _place(arrival: Arrival) -> dict[str, object]:
    return {
        "team_id": arrival.team_id,
        "channel_id": arrival.channel_id,
        "message_ts": arrival.message_ts,
    }
