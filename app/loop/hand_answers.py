"""Questions that people answer by hand in a thread: what is open there, and what was taken back."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from app.loop import cases
from app.loop.cases import Case
from retrieval.db import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadQuestion:
    """What was asked in a thread."""

    trace_id: UUID
    question: str  # as it was searched for
    user_id: str | None
    is_open: bool  # we found no answer, and no case has one or was decided
    is_open_to_page: bool  # or the one it has names no page, and no reviewer has looked at it


def find_question(
    database: Database, channel_id: str, thread_ts: str, reply_ts: str
) -> ThreadQuestion | None:
    """The last question that we were asked in a thread before a reply."""
    with database.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT traces.trace_id, coalesce(queries[1], traces.question) AS question, user_id,
                       is_unanswered AND coalesce(state = 'proposed' AND eval_cases.answer = '',
                                                  true) AS is_open,
                       is_unanswered AND coalesce(
                           state = 'proposed' AND (eval_cases.answer = '' OR (
                               reviewer IS NULL AND gold_any || gold_all = '[]')),
                           true) AS is_open_to_page
                FROM traces
                CROSS JOIN LATERAL (
                    SELECT outcome = 'abstained' AND answer_ts <> '{}' AS is_unanswered
                ) AS told
                LEFT JOIN case_traces USING (trace_id) LEFT JOIN eval_cases USING (case_id)
                WHERE channel_id = :channel_id AND thread_ts = :thread_ts
                AND message_ts < :reply_ts AND is_shown(traces)
                ORDER BY message_ts DESC LIMIT 1
            """),
            {"channel_id": channel_id, "thread_ts": thread_ts, "reply_ts": reply_ts},
        ).one_or_none()
    return ThreadQuestion(**row._mapping) if row else None


def find_given(
    database: Database, channel_id: str, thread_ts: str, reply_ts: str, answer: str
) -> list[Case]:
    """The proposed cases that have these words of a reply as their answer.

    Words that a reviewer has changed since are his.
    """
    with database.unrestricted.transaction() as connection:
        case_ids: Sequence[str] = (
            connection.execute(
                text("""
                    SELECT case_id FROM eval_cases
                    WHERE state = 'proposed' AND answer = :answer AND (
                        case_id = 'reply-' || :channel_id || '-' || :reply_ts
                        OR EXISTS (
                            SELECT FROM case_traces JOIN traces USING (trace_id)
                            WHERE case_traces.case_id = eval_cases.case_id
                            AND channel_id = :channel_id AND thread_ts = :thread_ts
                        )
                    )
                """),
                {
                    "channel_id": channel_id,
                    "thread_ts": thread_ts,
                    "reply_ts": reply_ts,
                    "answer": answer,
                },
            )
            .scalars()
            .all()
        )
    return [case for case_id in case_ids if (case := cases.load(database, case_id))]


def save_answer(database: Database, case: Case, answer: str) -> None:
    """Have a reply's words as they read now stand in a proposed case, unless they changed there.

    Without words left, a case that rests on them alone is deleted, unless it was ever in the set.
    """
    with database.unrestricted.transaction() as connection:
        values = {"case_id": case.case_id, "before": case.answer, "answer": answer}
        connection.execute(
            text("""
                UPDATE eval_cases SET answer = :answer
                WHERE case_id = :case_id AND state = 'proposed' AND answer = :before
            """),
            values,
        )
        connection.execute(
            text("""
                DELETE FROM eval_cases
                WHERE case_id = :case_id AND state = 'proposed'
                AND answer = '' AND held_out IS NULL AND NOT EXISTS (
                    SELECT FROM case_traces JOIN feedback USING (trace_id)
                    WHERE case_traces.case_id = eval_cases.case_id AND vote < 0
                )
            """),
            values,
        )
