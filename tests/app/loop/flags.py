"""Answers that are flagged or given by hand, and the cases that come of them."""

from uuid import UUID

from sqlalchemy import text

from app import claims, feedback
from app.feedback import Complaint
from app.loop import cases
from app.loop.cases import Case, Reply
from retrieval.db import Database
from tests.app import questions


def flag(database: Database, trace_id: UUID, user_id: str = "U1", page: int | None = None) -> None:
    feedback.vote(database, trace_id, user_id, -1)
    feedback.save_complaint(database, trace_id, user_id, Complaint(document_id=page))


def ask_flagged(database: Database, question: str = "how long?", page: int | None = None) -> Case:
    trace_id = questions.ask(database, question=question)
    flag(database, trace_id, page=page)
    return find(database, trace_id)


def find(database: Database, trace_id: UUID) -> Case:
    case = cases.find(database, trace_id)
    assert case is not None
    return case


def load(database: Database, case_id: str) -> Case:
    case = cases.load(database, case_id)
    assert case is not None
    return case


def list_briefly(database: Database) -> list[tuple[str, str, list[str]]]:
    return [
        (case.question, case.state, [gold.doc for gold in case.gold_any])
        for case in cases.list_cases(database)
    ]


def delete(database: Database, trace_id: UUID) -> None:
    with database.transaction() as connection:
        row = connection.execute(
            text("SELECT team_id, channel_id, message_ts FROM traces WHERE trace_id = :id"),
            {"id": trace_id},
        ).one()
    with database.unrestricted.transaction() as connection:
        claims.save_deletion(connection, row.team_id, row.channel_id, row.message_ts)


def reply(
    reply_id: str = "C1-1",
    question: str = "how long?",
    answer: str = "Two hours.",
    document_id: int | None = None,
    trace_id: UUID | None = None,
) -> Reply:
    return Reply(
        reply_id=reply_id,
        question=question,
        answer=answer,
        document_id=document_id,
        user_id="U9",
        trace_id=trace_id,
    )
