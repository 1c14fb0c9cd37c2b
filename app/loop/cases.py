"""The eval set as people review it: which answers a case rests on, who decided, and what."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app.questions import QUESTION_KEY
from retrieval.db import Database
from retrieval.evaluation import SPEAKERS, EvalCase
from retrieval.metrics import Gold
from retrieval.records import Turn

State = Literal["proposed", "approved", "dismissed"]
Origin = Literal["flag", "reply", "import"]

CLAIM_S = 300  # after which a claim without a message is one that nobody is at work on; chosen
HELD_OUT = 4  # of so many approved cases one is kept for reporting, nothing is fitted on it; chosen
# Least cosine of two questions that may be one in other words. Six of the 66,430 pairs reach it of
# the sample's, handbook dev's and claude-docs' questions: four ask the same, two nearly. Below it,
# more and more ask something else.
ALIKE = 0.8

_SELECT = """
    SELECT case_id, state, origin, type, question, history, gold_any, gold_all, answer, held_out,
           reviewer, created_at, reviewed_at, orphaned_at, page_wrong_by, review_channel_id,
           review_ts,
           ARRAY(
               SELECT trace_id FROM case_traces JOIN traces USING (trace_id)
               WHERE case_traces.case_id = eval_cases.case_id ORDER BY asked_at DESC, trace_id
           ) AS trace_ids
    FROM eval_cases
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question with what answers it, as far as people have said."""

    case_id: str
    state: State
    origin: Origin
    type: str
    question: str  # worded to stand on its own, unless there is a history
    history: tuple[Turn, ...]
    gold_any: tuple[Gold, ...]  # with gold_all empty: nobody has said, or, if approved, no page
    gold_all: tuple[Gold, ...]
    answer: str  # in words, for people
    held_out: bool
    # Who decided; of a proposed case, who has chosen its gold: then votes no longer change that.
    reviewer: str | None
    created_at: datetime
    reviewed_at: datetime | None
    orphaned_at: datetime | None  # since when what answers it stands on no page
    page_wrong_by: str | None
    review_channel_id: str | None
    review_ts: str | None
    trace_ids: tuple[UUID, ...]  # of the answers that it rests on, the newest first

    @property
    def gold(self) -> tuple[Gold, ...]:
        """All of it."""
        return self.gold_any + self.gold_all

    @property
    def eval_case(self) -> EvalCase:
        """What is measured of it."""
        return EvalCase(
            case_id=self.case_id,
            type=self.type,
            turns=(*self.history, Turn(speaker="user", text=self.question)),
            gold_any=self.gold_any,
            gold_all=self.gold_all,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a person answered by hand."""

    reply_id: str  # the same for the same message
    question: str
    answer: str
    document_id: int | None  # of the page that says so
    user_id: str  # who has it saved
    trace_id: UUID | None  # of our answer to that question, where there is one


def propose(connection: Connection, trace_id: UUID) -> None:
    """Have what is said of an answer by now stand in the case of its question.

    A 👎 makes a proposed case or joins the one there is; one on an answer newer than the decision
    has a dismissed case proposed again. Gold are the pages that voters name as right, until a
    reviewer chooses. Without any 👎 left, or with its question gone, the answer leaves the case; a
    proposed one that rests on no other goes with it.
    """
    _lock(connection)
    if not _is_flagged(connection, trace_id):
        _leave(connection, trace_id)
        return
    case_id = _find_linked(connection, trace_id)
    if case_id is None:
        case_id = _find_same(connection, _load_question(connection, trace_id))
        case_id = case_id or _insert_flagged(connection, trace_id)
        _link(connection, case_id, trace_id)
    _propose_again(connection, case_id, trace_id)
    _sync_gold(connection, case_id)


def propose_reply(database: Database, reply: Reply) -> str:
    """Have an answer given by hand stand as a proposed case; its id.

    That of the case that its question has already, if it has one: it gets the answer, and the page
    if one is known. One that was approved stays as it is.
    """
    with database.transaction() as connection:
        _lock(connection)
        case_id = reply.trace_id and _find_linked(connection, reply.trace_id)
        case_id = case_id or _find_same(connection, reply.question) or f"reply-{reply.reply_id}"
        _propose_again(connection, case_id)
        connection.execute(
            text("""
                INSERT INTO eval_cases AS old
                    (case_id, tenant_id, state, origin, type, question, gold_any, answer, reviewer)
                SELECT :case_id, :tenant_id, 'proposed', 'reply', 'reply', :question,
                       coalesce(jsonb_agg(jsonb_build_object('doc', path)), '[]'), :answer,
                       CASE WHEN count(*) > 0 THEN :user_id END
                FROM documents WHERE document_id = :document_id
                ON CONFLICT (tenant_id, case_id) DO UPDATE
                SET answer = excluded.answer,
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


def find(database: Database, trace_id: UUID) -> Case | None:
    """The case that rests on an answer, among others."""
    with database.transaction() as connection:
        row = connection.execute(
            text(f"""
                {_SELECT} WHERE case_id = (
                    SELECT case_id FROM case_traces WHERE trace_id = :trace_id
                )
            """),
            {"trace_id": trace_id},
        ).one_or_none()
    return _read(row) if row else None


def load(database: Database, case_id: str) -> Case | None:
    """A case by its id."""
    with database.transaction() as connection:
        row = connection.execute(
            text(f"{_SELECT} WHERE case_id = :case_id"), {"case_id": case_id}
        ).one_or_none()
    return _read(row) if row else None


def list_cases(database: Database, state: State | None = None) -> list[Case]:
    """All cases, or those of one state, the oldest first."""
    with database.transaction() as connection:
        rows = connection.execute(
            text(f"""
                {_SELECT} WHERE CAST(:state AS text) IS NULL OR state = :state
                ORDER BY created_at, case_id
            """),
            {"state": state},
        ).all()
    return list(map(_read, rows))


def approve(database: Database, case_id: str, reviewer: str) -> bool:
    """Take a case into the set as it is; without gold it says that no page answers.

    False when there is no such case, or it is in the set already.
    """
    with database.transaction() as connection:
        is_new = _update(
            connection,
            case_id,
            "state = 'approved', reviewer = :reviewer, reviewed_at = now()",
            condition="state <> 'approved'",
            reviewer=reviewer,
        )
        if is_new:
            choose_part(connection, case_id)
    return is_new


def dismiss(database: Database, case_id: str, reviewer: str) -> bool:
    """Say that the answer was right; False when there is no such case, or that was said already."""
    with database.transaction() as connection:
        return _update(
            connection,
            case_id,
            "state = 'dismissed', reviewer = :reviewer, reviewed_at = now()",
            condition="state <> 'dismissed'",
            reviewer=reviewer,
        )


def save_gold(
    database: Database,
    case_id: str,
    reviewer: str,
    *,
    gold: Sequence[Gold],
    question: str | None = None,
    answer: str | None = None,
) -> bool:
    """Have any of these answer a case, in place of what did; False when there is no such case.

    question and answer replace those that it has.
    """
    with database.transaction() as connection:
        return _update(
            connection,
            case_id,
            """gold_any = CAST(:gold AS jsonb), gold_all = '[]', orphaned_at = NULL,
               reviewer = :reviewer, question = coalesce(:question, question),
               answer = coalesce(:answer, answer)""",
            gold=json.dumps(build_gold(gold)),
            reviewer=reviewer,
            question=question,
            answer=answer,
        )


def mark_page_wrong(database: Database, case_id: str, user_id: str) -> bool:
    """Add that the right page is what is wrong; True for the first who says so alone."""
    with database.transaction() as connection:
        return _update(
            connection,
            case_id,
            "page_wrong_by = :user_id, page_wrong_at = now()",
            condition="page_wrong_by IS NULL",
            user_id=user_id,
        )


def claim_review(database: Database, case_id: str, channel_id: str) -> bool:
    """Whether it is this process that posts a proposed case to the reviewers.

    A claim of which no message has come in CLAIM_S, as its process has died say, may be taken over.
    """
    with database.transaction() as connection:
        return _update(
            connection,
            case_id,
            "review_channel_id = :channel_id, review_claimed_at = now()",
            condition="""state = 'proposed' AND review_ts IS NULL
                AND (review_channel_id IS NULL
                     OR review_claimed_at < now() - make_interval(secs => :claim_s))""",
            channel_id=channel_id,
            claim_s=CLAIM_S,
        )


def save_review_ts(database: Database, case_id: str, ts: str) -> bool:
    """Add the message to the reviewers; False when the case is gone meanwhile."""
    with database.transaction() as connection:
        return _update(connection, case_id, "review_ts = :ts", ts=ts)


def release_review(database: Database, case_id: str) -> None:
    """Let a case be posted again, as it reached nobody."""
    with database.transaction() as connection:
        _update(connection, case_id, "review_channel_id = NULL", condition="review_ts IS NULL")


def choose_part(connection: Connection, case_id: str, *, held_out: bool | None = None) -> None:
    """Hold an approved case out or not, as told, or else the same whenever it is asked.

    As the approved case whose question is nearest, if the two are alike: nothing may be fitted on
    what is reported in other words. Else by its own words.
    """
    _update(
        connection,
        case_id,
        f"""held_out = coalesce(
            :held_out,
            (
                SELECT others.held_out
                FROM case_traces AS own_link JOIN traces AS own USING (trace_id)
                CROSS JOIN case_traces AS other_link
                JOIN traces AS other ON other.trace_id = other_link.trace_id
                JOIN eval_cases AS others ON others.case_id = other_link.case_id
                WHERE own_link.case_id = :case_id AND others.case_id <> :case_id
                AND others.state = 'approved'
                AND CASE WHEN vector_dims(own.embedding) = vector_dims(other.embedding)
                    THEN 1 - (own.embedding <=> other.embedding) >= :alike END
                ORDER BY own.embedding <=> other.embedding LIMIT 1
            ),
            get_byte(sha256(convert_to({QUESTION_KEY}, 'UTF8')), 0) % {HELD_OUT} = 0
        )""",
        held_out=held_out,
        alike=ALIKE,
    )


def build_gold(gold: Iterable[Gold]) -> list[dict[str, str]]:
    """Gold as it is stored, and as files of cases have it."""
    return [{"doc": each.doc, **({"span": each.span} if each.span else {})} for each in gold]


def _lock(connection: Connection) -> None:
    """One at a time: two votes on answers to one question would make two cases of it, and of two
    taken back each would leave the case to the other."""
    connection.execute(
        text(
            "SELECT pg_advisory_xact_lock("
            "hashtext('footnote cases' || current_setting('footnote.tenant_id')))"
        )
    )


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


def _load_question(connection: Connection, trace_id: UUID) -> str:
    """What an answer was searched for, which stands on its own."""
    question: str = connection.execute(
        text("SELECT coalesce(queries[1], question) FROM traces WHERE trace_id = :trace_id"),
        {"trace_id": trace_id},
    ).scalar_one()
    return question


def _find_linked(connection: Connection, trace_id: UUID) -> str | None:
    return connection.execute(
        text("SELECT case_id FROM case_traces WHERE trace_id = :trace_id"), {"trace_id": trace_id}
    ).scalar()


def _find_same(connection: Connection, question: str) -> str | None:
    """The case of a question, as it is worded now or was asked; one that counts before others."""
    return connection.execute(
        text(f"""
            WITH known AS (
                SELECT case_id, question FROM eval_cases WHERE history = '[]'
                UNION ALL
                SELECT case_id, coalesce(queries[1], question)
                FROM case_traces JOIN traces USING (trace_id)
            ),
            asked AS (SELECT CAST(:question AS text) AS question)
            SELECT case_id
            FROM eval_cases JOIN (SELECT case_id, {QUESTION_KEY} AS key FROM known) AS keyed
                USING (case_id)
            WHERE key = (SELECT {QUESTION_KEY} FROM asked)
            ORDER BY state = 'dismissed', created_at, case_id LIMIT 1
        """),
        {"question": question},
    ).scalar()


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


def _leave(connection: Connection, trace_id: UUID) -> None:
    """Unlink an answer, and delete a proposed case that rested on it alone.

    What a person answered by hand stays proposed until its question is deleted.
    """
    case_id = connection.execute(
        text("""
            DELETE FROM case_traces USING eval_cases, traces
            WHERE case_traces.trace_id = :trace_id AND traces.trace_id = :trace_id
            AND eval_cases.case_id = case_traces.case_id
            AND (origin <> 'reply' OR NOT is_shown(traces))
            RETURNING case_traces.case_id
        """),
        {"trace_id": trace_id},
    ).scalar()
    connection.execute(
        text("""
            DELETE FROM eval_cases WHERE case_id = :case_id AND state = 'proposed'
            AND NOT EXISTS (SELECT FROM case_traces WHERE case_traces.case_id = :case_id)
        """),
        {"case_id": case_id},
    )
    if case_id:
        _sync_gold(connection, case_id)


def _propose_again(connection: Connection, case_id: str, trace_id: UUID | None = None) -> None:
    """Have a dismissed case reviewed anew; with a trace only if it was asked since."""
    _update(
        connection,
        case_id,
        """state = 'proposed', reviewer = NULL, reviewed_at = NULL, review_channel_id = NULL,
           review_ts = NULL""",
        condition="""state = 'dismissed' AND (CAST(:trace_id AS uuid) IS NULL OR EXISTS (
            SELECT FROM traces WHERE trace_id = :trace_id AND asked_at > reviewed_at))""",
        trace_id=trace_id,
    )


def _sync_gold(connection: Connection, case_id: str) -> None:
    _update(
        connection,
        case_id,
        """gold_any = (
               SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('doc', right_path)), '[]')
               FROM case_traces JOIN feedback USING (trace_id)
               WHERE case_traces.case_id = :case_id AND vote < 0 AND right_path IS NOT NULL
           )""",
        condition="state = 'proposed' AND origin = 'flag' AND reviewer IS NULL",
    )


def _update(
    connection: Connection,
    case_id: str,
    assignments: str,
    *,
    condition: str = "true",
    **values: object,
) -> bool:
    """Whether there is such a case, and the condition held for it."""
    updated = connection.execute(
        text(f"UPDATE eval_cases SET {assignments} WHERE case_id = :case_id AND ({condition})"),
        {"case_id": case_id, **values},
    )
    return updated.rowcount > 0


def _read(row: Row[Any]) -> Case:
    fields = dict(row._mapping)
    return Case(
        **fields
        | {
            "history": tuple(map(_read_turn, row.history)),
            "gold_any": tuple(Gold(**each) for each in row.gold_any),
            "gold_all": tuple(Gold(**each) for each in row.gold_all),
            "trace_ids": tuple(row.trace_ids),
        }
    )


def _read_turn(turn: Mapping[str, str]) -> Turn:
    return Turn(speaker=SPEAKERS[turn["role"]], text=turn["text"])
