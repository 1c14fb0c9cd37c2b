"""What was said before a question: in its thread, or to us directly."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from app import fillers
from app.claims import LIMITED
from app.records import Arrival, OwnQuestion, PastAnswer
from app.turns import Standing
from retrieval.db import Database

RECENT_S = 1_800  # before a direct message: what was asked in it belongs to it; chosen
# Of what was said before a question. As much as one answer may have, so that it is rarely cut.
PAST_TOKENS = 2_000
BYTES_A_TOKEN = 4  # of UTF-8: about what English has; other scripts have fewer characters in them


def find_past_answers(database: Database, arrival: Arrival) -> list[PastAnswer]:
    """What was asked before a question in the same conversation, oldest first.

    That is its thread. A direct message outside any is one of its own, so there it is what this
    person has asked directly within RECENT_S, and in a thread on such a message also what counts
    there. Only what came after "new topic" counts, and the newest up to PAST_TOKENS: the last
    answer is never cut, nor its question; another question that is too long by itself is left out.
    An answer that nobody has seen is "".
    """
    if fillers.cut_topic(arrival.question) is not None:
        return []
    recent = "user_id = :user_id AND message_ts BETWEEN :since AND :thread_ts"
    if not str(arrival.channel_id).startswith("D"):
        within = "thread_ts = :thread_ts"
    elif arrival.thread_ts == arrival.message_ts:
        within = recent
    else:
        # In the pane of older apps the root is no question, and its thread all that was said.
        within = f"""(
            thread_ts = :thread_ts OR {recent} AND EXISTS (
                SELECT FROM traces WHERE channel_id = :channel_id AND message_ts = :thread_ts
            )
        )"""
    statement = text(f"""
        SELECT trace_id, question, settings ? 'small_talk' AS is_small_talk,
               CASE WHEN answer_ts <> '{{}}' AND outcome <> 'failed' THEN coalesce(answer, '')
                    ELSE '' END AS answer
        FROM traces
        WHERE channel_id = :channel_id AND {within} AND message_ts < :message_ts
        AND NOT settings ? 'deleted'
        ORDER BY message_ts DESC
    """)
    values = {
        "channel_id": arrival.channel_id,
        "thread_ts": arrival.thread_ts,
        "message_ts": arrival.message_ts,
        "user_id": arrival.user_id,
        "since": f"{float(str(arrival.thread_ts)) - RECENT_S:.6f}",
    }
    # A few rows at a time: a thread may be longer than what is taken of it.
    with (
        database.transaction() as connection,
        connection.execution_options(yield_per=10).execute(statement, values) as rows,
    ):
        return list(_take_newest(rows))[::-1]


def _take_newest(rows: Iterable[Row[Any]]) -> Iterator[PastAnswer]:
    left, is_answered = PAST_TOKENS * BYTES_A_TOKEN, False
    for row in rows:
        size = len(f"{row.question}{row.answer}".encode())
        is_last_answer = row.answer != "" and not is_answered
        if not row.is_small_talk and (size <= left or is_last_answer):
            left -= size
            is_answered = is_answered or is_last_answer
            yield PastAnswer(trace_id=row.trace_id, question=row.question, answer=row.answer)
        elif not row.is_small_talk and is_answered:
            return
        if fillers.cut_topic(row.question) is not None:
            return


def find_standing(database: Database, arrival: Arrival) -> Standing | None:
    """How the thread of a message stands with it; None where nobody has asked us there.

    A deleted question is none, but who has joined it has joined the thread.
    """
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("""
                WITH asked AS (
                    SELECT * FROM traces
                    WHERE team_id = :team_id AND channel_id = :channel_id
                    AND thread_ts = :thread_ts AND message_ts <= :message_ts
                )
                SELECT trace_id, user_id,
                       outcome IN ('answered', 'abstained', 'stopped')
                           AND answer_ts <> '{}' AS is_answered,
                       EXISTS (
                           SELECT FROM asked AS later
                           WHERE later.message_ts >= asked.message_ts
                           AND later.settings ? 'joined'
                       ) AS is_joined
                FROM asked
                WHERE NOT settings ? 'deleted'
                ORDER BY message_ts DESC LIMIT 1
            """),
            {
                "team_id": arrival.team_id,
                "channel_id": arrival.channel_id,
                "thread_ts": arrival.thread_ts,
                "message_ts": arrival.message_ts,
            },
        ).one_or_none()
    return Standing(**row._mapping) if row else None


def save_joined(database: Database, trace_id: UUID) -> None:
    """Add that in or after this question others have come to speak in its thread."""
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces SET settings = settings || '{"joined": true}'
                WHERE trace_id = :trace_id
            """),
            {"trace_id": trace_id},
        )


def find_own(
    database: Database, team_id: str, user_id: str, *, limit: int = 10
) -> list[OwnQuestion]:
    """What one person has asked in Slack, latest first."""
    with database.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT question, asked_at, channel_id, thread_ts,
                       CASE WHEN error_class = :limited THEN 'limited' ELSE outcome END AS outcome,
                       answer_ts[1] AS answer_ts
                FROM traces
                WHERE surface = 'slack' AND team_id = :team_id AND user_id = :user_id
                AND is_shown(traces)
                ORDER BY asked_at DESC LIMIT :limit
            """),
            {"team_id": team_id, "user_id": user_id, "limit": limit, "limited": LIMITED},
        ).all()
    return [OwnQuestion(**row._mapping) for row in rows]
