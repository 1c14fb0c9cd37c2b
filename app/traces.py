"""One row a question: completed as its answer is made, and found again by that.

What is only written or looked up by an id that somebody has is so whoever may read the answer; what
is shown of traces is read as the database is bound.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from uuid import UUID

from pgvector import HalfVector
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from app import outbox as outboxes
from app.outbox import Outbox
from app.records import Answer, Citation, PastAnswer
from retrieval import faults
from retrieval.db import Database
from retrieval.errors import FootnoteError
from retrieval.records import LEGS, Candidate, Retrieval

AT_ONCE = 0  # the attempt of whoever claims a question and answers it then and there
# Other answers in a channel that began between the first and the last message of one; chosen.
MOST_BETWEEN = 200


class Superseded(FootnoteError):
    """Somebody else is at work on a question by now, or it is gone."""


class Narrowed(FootnoteError):
    """What an answer is made of has other readers by now, or is gone; asking again helps."""


def save_retrieval(
    database: Database,
    trace_id: UUID,
    retrieval: Retrieval,
    *,
    tokens: Mapping[str, int],
    attempt: int = AT_ONCE,
) -> None:
    """Add what was searched for, its vector, all that was found with its scores, and what was kept.

    tokens are what wording the queries cost. Raises Narrowed and Superseded.
    """
    # What went unanswered for one name is told by it, however the questions were worded.
    unknown = {"unknown": list(retrieval.unknown)} if retrieval.unknown else {}
    _update(
        database,
        trace_id,
        attempt,
        "queries = :queries, candidates = CAST(:candidates AS jsonb), kept = :kept,"
        " settings = settings || CAST(:settings AS jsonb), stage_ms = CAST(:stage_ms AS jsonb),"
        " tokens = CAST(:tokens AS jsonb), embedding = :embedding,"
        " document_ids = document_ids || CAST(:passed_over AS bigint[])",
        queries=[retrieval.query.text, *retrieval.query.variants],
        candidates=json.dumps([build_candidate_row(each) for each in retrieval.candidates]),
        kept=[candidate.section.section_id for candidate in retrieval.kept],
        settings=json.dumps({**retrieval.settings, **unknown}),
        stage_ms=json.dumps(dict(retrieval.stage_ms)),
        tokens=json.dumps(dict(tokens)),
        embedding=HalfVector(list(retrieval.vector)) if retrieval.vector else None,
        # The answer may name them, as those that another page replaces.
        passed_over=[each.section.document_id for each in retrieval.passed_over],
    )


def save_past(database: Database, trace_id: UUID, past: Sequence[PastAnswer]) -> None:
    """Add that a question is answered with others before it in mind.

    Who may not read those may not read this answer, either. Raises Narrowed.
    """
    with _giving_way(), database.unrestricted.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces
                SET document_ids = traces.document_ids || ARRAY(
                        SELECT unnest(document_ids) FROM traces AS past
                        WHERE past.trace_id = ANY(:past)),
                    made_for = traces.made_for || ARRAY(
                        SELECT unnest(audience_ids) FROM traces AS past
                        WHERE past.trace_id = ANY(:past))
                WHERE trace_id = :trace_id
            """),
            {"trace_id": trace_id, "past": [each.trace_id for each in past]},
        )


def build_candidate_row(candidate: Candidate) -> dict[str, Any]:
    """A candidate as the trace keeps it: ids, ranks and each score under its own name, no text."""
    return {
        "section_id": candidate.section.section_id,
        "document_id": candidate.section.document_id,
        "doc": candidate.section.path,
        "verified_at": candidate.section.verified_at and candidate.section.verified_at.isoformat(),
        "chunk_ids": list(candidate.chunk_ids),
        **{
            f"{hit.leg}_{name}": value
            for leg in LEGS
            if (hit := candidate.hit(leg))
            for name, value in (("rank", hit.rank), ("score", hit.score))
        },
        "rrf_score": candidate.rrf_score,
        "relevance": candidate.relevance,
    }


def save_answer(
    database: Database,
    trace_id: UUID,
    answer: Answer,
    *,
    settings: Mapping[str, object],
    stage_ms: Mapping[str, float],
    attempt: int = AT_ONCE,
    outbox: Outbox | None = None,
) -> None:
    """Complete the trace with the answer; settings, stage_ms and tokens add to the search's.

    outbox is what its asker is to be told. Raises Narrowed and Superseded.
    """
    nearest = {"nearest": asdict(answer.nearest)} if answer.nearest else {}
    _update(
        database,
        trace_id,
        attempt,
        f"answer = :answer, {_CITE},"
        " abstained_because = :abstained_because, tokens = tokens || CAST(:tokens AS jsonb),"
        " settings = settings || CAST(:settings AS jsonb),"
        " stage_ms = stage_ms || CAST(:stage_ms AS jsonb),"
        " outcome = :outcome, completed_at = clock_timestamp(),"
        " outbox = CAST(:outbox AS jsonb)",
        outbox=outboxes.build_json(outbox),
        answer=answer.text if answer.text_for_others is None else answer.text_for_others,
        abstained_because=answer.abstained_because,
        tokens=json.dumps(dict(answer.tokens)),
        settings=json.dumps({**settings, **nearest}),
        stage_ms=json.dumps(dict(stage_ms)),
        outcome="abstained" if answer.abstained_because else "answered",
        **_cite(answer.citations),
    )


# SQL: what an answer cites, and the pages that it names in their place.
_CITE = (
    "citations = CAST(:citations AS jsonb),"
    " document_ids = document_ids || CAST(:successors AS bigint[])"
)


def _cite(citations: Sequence[Citation]) -> dict[str, object]:
    return {
        "citations": json.dumps([asdict(citation) for citation in citations], default=str),
        "successors": [each.successor.document_id for each in citations if each.successor],
    }


def save_failure(
    database: Database,
    trace_id: UUID,
    error_class: str,
    *,
    attempt: int = AT_ONCE,
    outbox: Outbox | None = None,
) -> None:
    """Complete the trace of a question that got no answer because something broke.

    Its tokens are those of rewording alone: of a call that broke off nobody says what was billed.
    outbox is what its asker is to be told. Raises Superseded.
    """
    _update(
        database,
        trace_id,
        attempt,
        "outcome = 'failed', error_class = :error_class, completed_at = clock_timestamp(),"
        " outbox = CAST(:outbox AS jsonb)",
        error_class=error_class,
        outbox=outboxes.build_json(outbox),
    )


def save_stopped(
    database: Database,
    trace_id: UUID,
    seen: str,
    citations: Sequence[Citation],
    *,
    attempt: int = AT_ONCE,
) -> None:
    """Complete the trace of a question whose asker had seen enough with what was seen, and what it
    cites.

    Its tokens are those of rewording alone: Claude tells what is billed only at the end. Raises
    Superseded.
    """
    _update(
        database,
        trace_id,
        attempt,
        "outcome = 'stopped', answer = nullif(:seen, ''), completed_at = clock_timestamp(),"
        f" outbox = NULL, {_CITE}",
        seen=seen,
        **_cite(citations),
    )


def save_answer_ts(
    database: Database,
    trace_id: UUID,
    answer_ts: Sequence[str],
    *,
    attempt: int = AT_ONCE,
    is_told: bool = False,
) -> None:
    """Add the Slack messages that carry the answer; is_told: all of it stands there.

    Raises Superseded.
    """
    _update(
        database,
        trace_id,
        attempt,
        "answer_ts = :answer_ts" + (", outbox = NULL" if is_told else ""),
        answer_ts=list(answer_ts),
    )


def is_pending(database: Database, trace_id: UUID) -> bool:
    """Whether a question has no outcome yet."""
    return _holds(database, trace_id, "outcome = 'pending'")


def is_latest(database: Database, trace_id: UUID, attempt: int) -> bool:
    """Whether an attempt at a question is still the one that is to answer it."""
    return _holds(database, trace_id, "attempts = :attempt", attempt=attempt)


def is_told_without(database: Database, trace_id: UUID, ts: str) -> bool:
    """Whether all that there is to say stands in other messages than this one, or nothing is to be
    said any more."""
    with database.unrestricted.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT outcome <> 'pending' AND outbox IS NULL AND NOT :ts = ANY(answer_ts) AS told
                FROM traces WHERE trace_id = :trace_id
            """),
            {"trace_id": trace_id, "ts": ts},
        ).one_or_none()
    return row is None or bool(row.told)


def find_by_answer(database: Database, channel_id: str, answer_ts: str) -> UUID | None:
    """The trace whose answer is this Slack message, if it is one of ours; a failure is none.

    An answer of several messages is found by its first one, the latest before this message but for
    those of answers that came in between.
    """
    with database.unrestricted.transaction() as connection:
        return connection.execute(
            text("""
                SELECT trace_id FROM (
                    SELECT trace_id, answer_ts FROM traces
                    WHERE channel_id = :channel_id AND answer_ts[1] <= :ts
                    AND outcome <> 'failed'
                    ORDER BY answer_ts[1] DESC LIMIT :most
                ) AS latest
                WHERE :ts = ANY(answer_ts)
            """),
            {"channel_id": channel_id, "ts": answer_ts, "most": MOST_BETWEEN},
        ).scalar()


def find_by_message(
    database: Database, team_id: str, channel_id: str, message_ts: str
) -> UUID | None:
    """The trace of the question that a Slack message asks, if it is one."""
    with database.unrestricted.transaction() as connection:
        return connection.execute(
            text("""
                SELECT trace_id FROM traces
                WHERE team_id = :team_id AND channel_id = :channel_id AND message_ts = :message_ts
            """),
            {"team_id": team_id, "channel_id": channel_id, "message_ts": message_ts},
        ).scalar()


def are_readable(database: Database, trace_ids: Collection[UUID]) -> bool:
    """Whether those whom the database reads as may read all that traces are made of by now."""
    if not trace_ids:
        return True
    with database.transaction() as connection:
        count: int = connection.execute(
            text("SELECT count(*) FROM traces WHERE trace_id = ANY(:trace_ids)"),
            {"trace_ids": list(trace_ids)},
        ).scalar_one()
    return count == len(set(trace_ids))


def list_degraded(settings: Mapping[str, Any]) -> list[str]:
    """What a question was answered without, by the settings of its trace: legs of the search, and
    the model."""
    return [*settings.get("failed_legs", ()), *(["model"] if "instead_of" in settings else [])]


def is_deleted(database: Database, trace_id: UUID) -> bool:
    """Whether the question was deleted since."""
    return _holds(database, trace_id, "settings ? 'deleted'")


@contextmanager
def _giving_way() -> Iterator[None]:
    """Have it be Narrowed where somebody is changing the readers of its pages meanwhile."""
    try:
        yield
    except OperationalError as error:
        if faults.find_code(error) not in (faults.DEADLOCK, faults.LOCKED):
            raise
        raise Narrowed("A page is getting another audience.") from error


def _holds(database: Database, trace_id: UUID, condition: str, **values: object) -> bool:
    """Whether something is so of a trace; of one that is gone, nothing is."""
    with database.unrestricted.transaction() as connection:
        return bool(
            connection.execute(
                text(f"SELECT {condition} FROM traces WHERE trace_id = :trace_id"),
                {"trace_id": trace_id, **values},
            ).scalar()
        )


def _update(
    database: Database, trace_id: UUID, attempt: int, assignments: str, **values: object
) -> None:
    with _giving_way(), database.unrestricted.transaction() as connection:
        updated = connection.execute(
            text(f"""
                UPDATE traces SET {assignments}
                WHERE trace_id = :trace_id AND attempts = :attempt
            """),
            {"trace_id": trace_id, "attempt": attempt, **values},
        )
    if not updated.rowcount:
        raise Superseded("Somebody else is at work on the question, or it is gone.")
