"""Faults planted on the way to an answer, each told from the trace that it left."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from app import answering, feedback
from app.answering import Answerer
from app.feedback import Complaint, Reason
from app.generate.quoted import Quoter
from app.loop import faults
from app.loop.faults import Fault, Stage
from app.records import Turn
from retrieval import indexing
from retrieval.retrieve import Retriever
from tests.folders import read_folder

FRESHNESS_DAYS = 365
ERROR_CODES = "reference/error-codes.md"
Plant = Callable[[Retriever, Path], Retriever]


def leave(retriever: Retriever, folder: Path) -> Retriever:
    """What is at fault is there already."""
    return retriever


def rerank_few(retriever: Retriever, folder: Path) -> Retriever:
    """Only the best three of fusion get as far as the reranker."""
    return replace(retriever, tuning=replace(retriever.tuning, candidates=3))


def write_later(retriever: Retriever, folder: Path) -> Retriever:
    """The page that answers is written once the question was asked."""
    (folder / "shares.md").write_text("# Shares\n\nWe get neither shares nor stock options.\n")
    return retriever


def find_fault(
    retriever: Retriever, question: str, path: str, reason: Reason, folder: Path
) -> Fault | None:
    """The stage at fault after somebody has flagged the answer and named the right page."""
    answerer = Answerer(retriever=retriever, generator=Quoter(retriever.embedder))
    asked = answering.ask(answerer, [Turn(speaker="user", text=question)])
    ingest(retriever, folder)
    database = retriever.database
    with database.transaction() as connection:
        document_id = connection.execute(
            text("SELECT document_id FROM documents WHERE path = :path"), {"path": path}
        ).scalar_one()
    feedback.vote(database, asked.trace_id, "U1", -1)
    complaint = Complaint(reason=reason, document_id=document_id)
    assert feedback.save_complaint(database, asked.trace_id, "U1", complaint)
    with database.transaction() as connection:
        return faults.find_fault(connection, asked.trace_id, freshness_days=FRESHNESS_DAYS)


def ingest(retriever: Retriever, folder: Path) -> None:
    indexing.ingest(
        retriever.database,
        retriever.embedder,
        read_folder(folder),
        source="new",
        tuning=retriever.tuning,
    )


@pytest.mark.parametrize(
    ("stage", "plant", "question", "path", "reason"),
    [
        ("missing", write_later, "do we get shares or stock options?", "shares.md", "missing"),
        (
            "search",
            rerank_few,
            "police want cctv from lille from three weeks ago, do we still have that?",
            "policies/data-retention.md",
            "missing",
        ),
        (
            "rerank",
            leave,
            "site where people follow their parcel can't keep up tonight, what do we sacrifice "
            "first and can I do it without asking",
            "runbooks/peak-season-handbook.md",
            "wrong",
        ),
        (
            "floor",
            leave,
            "why can't my app just read the tables of another team directly",
            "decisions/0012-one-postgres-cluster-per-service.md",
            "missing",
        ),
        ("stale", leave, "what does err 2041 mean?", ERROR_CODES, "outdated"),
        ("generation", leave, "what does err 2041 mean?", ERROR_CODES, "wrong"),
    ],
)
def test_a_planted_fault_is_named_by_its_stage(
    retriever: Retriever,
    tmp_path: Path,
    stage: Stage,
    plant: Plant,
    question: str,
    path: str,
    reason: Reason,
) -> None:
    fault = find_fault(plant(retriever, tmp_path), question, path, reason, tmp_path)
    assert fault is not None and (fault.stage, fault.is_known) == (stage, True)
