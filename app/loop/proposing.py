"""How cases come to be: what is flagged or answered by hand is proposed, and may be taken back."""

from uuid import UUID

from sqlalchemy import Connection, text

from app.loop.cases import Reply
from app.questions import QUESTION_KEY
from retrieval import db
from retrieval.db import Database
from retrieval.metrics import Gold

# SQL over a trace: whether what it asks stands on its own, since it was worded so to be searched
# for, or since nothing was asked before it in its thread.
_STANDS_ALONE = """(queries <> '{}' OR NOT EXISTS (
    SELECT FROM traces AS earlier
    WHERE earlier.channel_id = traces.channel_id AND earlier.thread_ts = traces.thread_ts
    AND earlier.message_ts < traces.message_ts
))"""
# SQL: what leaves a decision to be made anew. The message to the reviewers stays theirs.
_ANEW = """state = 'proposed', reviewer = NULL, reviewed_at = NULL, page_wrong_by = NULL,
           page_wrong_at = NULL, page_wrong_source = NULL, page_wrong_path = NULL"""


def propose(connection: Connection, trace_id: UUID, page: Gold | None = None) -> None:
    """Have what is said of an answer by now stand in the case of its question.

    A 👎 makes a proposed case or joins the one there is for the same readers. Gold are the pages
    that voters name as right, until a reviewer chooses. What was decided is proposed again by a 👎
    on an answer that a dismissed case did not rest on then, and by a page, if one is named just
    now, that is not among those of an approved case. Without any 👎 left, the answer leaves a
    proposed case, unless that has an answer by hand; one that rests on no other and was never in
    the set goes with it.
    """
    _lock(connection)
    if not _is_flagged(connection, trace_id):
        case_id = _find_linked(connection, trace_id)
        _unlink(connection, trace_id, "state = 'proposed' AND answer = ''")
        if case_id:
            _drop_unfounded(connection, case_id)
            _sync_gold(connection, case_id)
        return
    case_id = _find_linked(connection, trace_id) or _link_to_case(connection, trace_id)
    _propose_again(connection, case_id, trace_id, page)
    _sync_gold(connection, case_id)


def leave(connection: Connection, trace_id: UUID) -> None:
    """Have no case rest on an answer, as its question was edited and is another one now.

    A proposed case that rests on no other goes, unless it has an answer by hand or was ever in the
    set.
    """
    _lock(connection)
    if case_id := _unlink(connection, trace_id):
        _drop_unfounded(connection, case_id)
        _sync_gold(connection, case_id)


def forget(connection: Connection, trace_id: UUID) -> None:
    """Have no case rest on an answer whose question was deleted.

    Who deletes a question takes its words back: a case that rests on no other answer goes, whatever
    was decided and whoever has answered it by hand, unless a file has brought it.
    """
    _lock(connection)
    if case_id := _unlink(connection, trace_id):
        _drop(connection, case_id, "origin <> 'import'")
        _sync_gold(connection, case_id)


def propose_reply(database: Database, reply: Reply) -> str:
    """Have an answer given by hand stand as a proposed case; its id.

    That of the case that its question has already, if it has one for the same readers: it gets the
    answer, and the page if one is known. One that was approved stays as it is.
    """
    with database.unrestricted.transaction() as connection:
        _lock(connection)
        case_id = _find_replied(connection, reply) or f"reply-{reply.reply_id}"
        _update(connection, case_id, _ANEW, "state = 'dismissed'")
        connection.execute(
            text("""
                INSERT INTO eval_cases AS old
                    (case_id, tenant_id, state, origin, type, question, gold_any, answer, author,
                     reviewer)
                SELECT :case_id, :tenant_id, 'proposed', 'reply', 'reply', :question,
                       coalesce(jsonb_agg(jsonb_build_object('doc', path, 'source', source)), '[]'),
                       :answer, :user_id, CASE WHEN count(*) > 0 THEN :user_id END
                FROM documents WHERE document_id = :document_id
                ON CONFLICT (tenant_id, case_id) DO UPDATE
                SET answer = excluded.answer, author = excluded.author,
                    gold_any = CASE WHEN excluded.gold_any = '[]' THEN old.gold_any
                                    ELSE excluded.gold_any END,
                    reviewer = coalesce(excluded.reviewer, old.reviewer)
                WHERE old.state = 'proposed'
            """),
            {
                "case_id": case_id,
                "tenant_id": database.tenant_id,
                "question": reply.question,
                "answer": reply.answer,
                "document_id": reply.document_id,
                "user_id": reply.user_id,
            },
        )
        if reply.trace_id:
            _link(connection, case_id, reply.trace_id)
    return case_id


def _lock(connection: Connection) -> None:
    """One at a time: two votes on answers to one question would make two cases of it, and of two
    taken back each would leave the case to the other."""
    db.lock(connection, "cases")


def _is_flagged(connection: Connection, trace_id: UUID) -> bool:
    return bool(
        connection.execute(
            text("""
                SELECT EXISTS (
                    SELECT FROM traces JOIN feedback USING (trace_id)
                    WHERE trace_id = :trace_id AND vote < 0 AND is_shown(traces)
                )
            """),
            {"trace_id": trace_id},
        ).scalar()
    )


def _load_question(connection: Connection, trace_id: UUID) -> str | None:
    """What an answer is to, as it stands on its own; None where that is not known."""
    return connection.execute(
        text(f"""
            SELECT coalesce(queries[1], question) FROM traces
            WHERE trace_id = :trace_id AND {_STANDS_ALONE}
        """),
        {"trace_id": trace_id},
    ).scalar()


def _find_linked(connection: Connection, trace_id: UUID) -> str | None:
    return connection.execute(
        text("SELECT case_id FROM case_traces WHERE trace_id = :trace_id"), {"trace_id": trace_id}
    ).scalar()


def _find_same(
    connection: Connection, question: str, trace_id: UUID | None, document_id: int | None = None
) -> str | None:
    """The case of a question, as it is worded now or was asked; one that counts before others.

    It is for those who may read the answer, if there is one, and the page: another would be taken
    from its reviewers, or what was flagged would be shown to none.
    """
    return connection.execute(
        text(f"""
            WITH asked AS (
                SELECT case_id, traces.question AS typed, {_STANDS_ALONE} AS stands_alone,
                       coalesce(queries[1], question) AS question
                FROM case_traces JOIN traces USING (trace_id)
            ),
            known AS (
                SELECT case_id, question FROM asked WHERE stands_alone
                UNION ALL
                SELECT case_id, question FROM eval_cases
                WHERE history = '[]' AND NOT EXISTS (
                    SELECT FROM asked WHERE asked.case_id = eval_cases.case_id
                    AND typed = eval_cases.question AND NOT stands_alone
                )
            ),
            wanted AS (SELECT CAST(:question AS text) AS question),
            readers AS (  -- but for everyone: colleagues review
                SELECT unnest(audience_ids) AS audience_id FROM traces WHERE trace_id = :trace_id
                UNION SELECT audience_id FROM documents WHERE document_id = :document_id
                EXCEPT VALUES (0), (1)
            )
            SELECT case_id
            FROM eval_cases JOIN (SELECT case_id, {QUESTION_KEY} AS key FROM known) AS keyed
                USING (case_id)
            WHERE key = (SELECT {QUESTION_KEY} FROM wanted)
            AND array_remove(audience_ids, 0)
                = ARRAY(SELECT audience_id FROM readers ORDER BY audience_id)
            ORDER BY state = 'dismissed', created_at, case_id LIMIT 1
        """),
        {"question": question, "trace_id": trace_id, "document_id": document_id},
    ).scalar()


def _find_replied(connection: Connection, reply: Reply) -> str | None:
    """The case of what a person answered by hand."""
    if reply.trace_id is not None:
        if case_id := _find_linked(connection, reply.trace_id):
            return case_id
        if _load_question(connection, reply.trace_id) is None:
            return None
    return _find_same(connection, reply.question, reply.trace_id, reply.document_id)


def _link_to_case(connection: Connection, trace_id: UUID) -> str:
    """Have the case of its question rest on an answer, a new one if there is none; its id."""
    question = _load_question(connection, trace_id)
    case_id = _find_same(connection, question, trace_id) if question else None
    case_id = case_id or _insert_flagged(connection, trace_id)
    _link(connection, case_id, trace_id)
    return case_id


def _insert_flagged(connection: Connection, trace_id: UUID) -> str:
    """A new case; its id tells the trace, and the wording if a case has its former one."""
    case_id: str = connection.execute(
        text("""
            INSERT INTO eval_cases (case_id, tenant_id, state, origin, type, question)
            SELECT CASE WHEN EXISTS (SELECT FROM eval_cases WHERE case_id = plain)
                       THEN plain || '-' || left(md5(asked), 8) ELSE plain END,
                   tenant_id, 'proposed', 'flag', 'flagged', asked
            FROM traces CROSS JOIN LATERAL (
                SELECT 'flag-' || trace_id AS plain, coalesce(queries[1], question) AS asked
            ) AS named
            WHERE trace_id = :trace_id
            RETURNING case_id
        """),
        {"trace_id": trace_id},
    ).scalar_one()
    return case_id


def _link(connection: Connection, case_id: str, trace_id: UUID) -> None:
    connection.execute(
        text("""
            INSERT INTO case_traces (trace_id, tenant_id, case_id)
            SELECT trace_id, tenant_id, :case_id FROM traces WHERE trace_id = :trace_id
            ON CONFLICT DO NOTHING
        """),
        {"case_id": case_id, "trace_id": trace_id},
    )


def _unlink(connection: Connection, trace_id: UUID, condition: str = "true") -> str | None:
    """The case that rested on an answer until now, and for which the condition holds."""
    return connection.execute(
        text(f"""
            DELETE FROM case_traces USING eval_cases
            WHERE case_traces.trace_id = :trace_id AND eval_cases.case_id = case_traces.case_id
            AND ({condition})
            RETURNING case_traces.case_id
        """),
        {"trace_id": trace_id},
    ).scalar()


def _drop_unfounded(connection: Connection, case_id: str) -> None:
    # held_out is chosen when a case first comes into the set: no vote takes it out of there.
    _drop(connection, case_id, "state = 'proposed' AND answer = '' AND held_out IS NULL")


def _drop(connection: Connection, case_id: str, condition: str) -> None:
    """Delete a case that rests on no answer, if the condition holds for it."""
    connection.execute(
        text(f"""
            DELETE FROM eval_cases WHERE case_id = :case_id AND ({condition})
            AND NOT EXISTS (SELECT FROM case_traces WHERE case_traces.case_id = :case_id)
        """),
        {"case_id": case_id},
    )


def _propose_again(connection: Connection, case_id: str, trace_id: UUID, page: Gold | None) -> None:
    """Have a decided case reviewed anew if the reviewer did not know of this answer, or page."""
    _update(
        connection,
        case_id,
        _ANEW,
        """(state = 'dismissed' AND EXISTS (
                SELECT FROM case_traces WHERE trace_id = :trace_id AND linked_at > reviewed_at
            ))
            OR (state = 'approved' AND CAST(:doc AS text) IS NOT NULL AND NOT EXISTS (
                SELECT FROM jsonb_array_elements(gold_any || gold_all) AS known
                WHERE known ->> 'doc' = :doc AND coalesce(known ->> 'source', :source) = :source
            ))""",
        trace_id=trace_id,
        doc=page and page.doc,
        source=page and page.source,
    )


def _sync_gold(connection: Connection, case_id: str) -> None:
    _update(
        connection,
        case_id,
        """gold_any = (
               SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object(
                   'doc', right_path, 'source', right_source)), '[]')
               FROM case_traces JOIN feedback USING (trace_id)
               WHERE case_traces.case_id = :case_id AND vote < 0 AND right_path IS NOT NULL
           ), gold_all = '[]'""",
        "state = 'proposed' AND origin <> 'import' AND reviewer IS NULL",
    )


def _update(
    connection: Connection, case_id: str, assignments: str, condition: str, **values: object
) -> None:
    connection.execute(
        text(f"UPDATE eval_cases SET {assignments} WHERE case_id = :case_id AND ({condition})"),
        {"case_id": case_id, **values},
    )
