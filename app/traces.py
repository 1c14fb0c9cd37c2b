"""One row a question: claimed when it arrives, completed as it goes, found again by its answer.

What is only written or looked up by an id that somebody has is so whoever may read the answer; what
is shown of traces is read as the database is bound.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector import HalfVector
from sqlalchemy import Connection, Row, text
from sqlalchemy.exc import OperationalError

from app import fillers
from app import outbox as outboxes
from app.loop import proposing
from app.outbox import Outbox
from app.records import Answer, Arrival, Citation, OwnQuestion, PastAnswer
from app.turns import Standing
from retrieval import faults
from retrieval.db import Database
from retrieval.errors import FootnoteError
from retrieval.records import LEGS, Candidate, Retrieval

AT_ONCE = 0  # the attempt of whoever claims a question and answers it then and there
BUSY = "Busy"  # the error_class of what came when too much was waiting
LIMITED = "Limited"  # the error_class of what was one question too many
LOST_AFTER_S = 3_600  # longer than any question waits and is worked on; chosen
RECENT_S = 1_800  # before a direct message: what was asked in it belongs to it; chosen
# Of what was said before a question. As much as one answer may have, so that it is rarely cut.
PAST_TOKENS = 2_000
BYTES_A_TOKEN = 4  # of UTF-8: about what English has; other scripts have fewer characters in them
# Other answers in a channel that began between the first and the last message of one; chosen.
MOST_BETWEEN = 200


class Superseded(FootnoteError):
    """Somebody else is at work on a question by now, or it is gone."""


class Narrowed(FootnoteError):
    """What an answer is made of has other readers by now, or is gone; asking again helps."""


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


def _place(arrival: Arrival) -> dict[str, object]:
    return {
        "team_id": arrival.team_id,
        "channel_id": arrival.channel_id,
        "message_ts": arrival.message_ts,
    }


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


def save_deletion(connection: Connection, team_id: str, channel_id: str, message_ts: str) -> None:
    """Add that a question was deleted.

    All else is kept, but that no case rests on it any more. A message that was no question has
    nothing to be added to.
    """
    trace_id = connection.execute(
        text("""
            UPDATE traces SET settings = settings || '{"deleted": true}'
            WHERE team_id = :team_id AND channel_id = :channel_id AND message_ts = :message_ts
            RETURNING trace_id
        """),
        {"team_id": team_id, "channel_id": channel_id, "message_ts": message_ts},
    ).scalar()
    if trace_id is not None:
        proposing.forget(connection, trace_id)


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
