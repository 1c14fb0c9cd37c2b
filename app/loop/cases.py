"""The eval set as it grows: what people say is wrong with an answer becomes a case."""

from uuid import UUID

from sqlalchemy import Connection, text


def propose(connection: Connection, trace_id: UUID) -> None:
    """Have what is said of an answer by now stand as one proposed case, for a person to review.

    Gold are the pages that those who voted 👎 have named as right; where none is named there is no
    case. One that was approved stays as it is. The question is worded as it was searched for, to
    stand on its own.
    """
    values = {"trace_id": trace_id}
    connection.execute(
        text("DELETE FROM eval_cases WHERE trace_id = :trace_id AND state = 'proposed'"), values
    )
    connection.execute(
        text("""
            INSERT INTO eval_cases
                (case_id, tenant_id, state, type, question, gold_any, trace_id)
            SELECT 'flag-' || trace_id, tenant_id, 'proposed', 'flagged',
                   coalesce(queries[1], question), gold, trace_id
            FROM traces CROSS JOIN LATERAL (
                SELECT jsonb_agg(DISTINCT jsonb_build_object('doc', right_path)) AS gold
                FROM feedback
                WHERE feedback.trace_id = traces.trace_id AND vote < 0 AND right_path IS NOT NULL
            ) AS named
            WHERE trace_id = :trace_id AND gold IS NOT NULL
            ON CONFLICT DO NOTHING
        """),
        values,
    )
