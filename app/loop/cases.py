"""The eval set as people review it: which answers a case rests on, who decided, and what."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
Decision = Literal["approved", "dismissed"]
Origin = Literal["flag", "reply", "import"]

CLAIM_S = 300  # after which a claim without a message is one that nobody is at work on; chosen
HELD_OUT = 4  # of so many approved cases one is kept for reporting, nothing is fitted on it; chosen
# Least cosine of two questions that may be one in other words. Six of the 66,430 pairs reach it of
# the sample's, handbook dev's and claude-docs' questions: four ask the same, two nearly. Below it,
# more and more ask something else.
ALIKE = 0.8

_SELECT = """
    SELECT case_id, state, origin, type, question, history, gold_any, gold_all, answer,
           coalesce(held_out, false) AS held_out, reviewer, created_at, reviewed_at, orphaned_at,
           page_wrong_by, review_channel_id, review_ts,
           CASE WHEN page_wrong_path IS NOT NULL
               THEN jsonb_build_object('doc', page_wrong_path, 'source', page_wrong_source)
           END AS page_wrong,
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
    page_wrong: Gold | None  # which page they say is wrong
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


def find(database: Database, trace_id: UUID) -> Case | None:
    """The case that rests on an answer, among others."""
    with database.unrestricted.transaction() as connection:
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
        return read(connection, case_id)


def read(connection: Connection, case_id: str) -> Case | None:
    """As load, beside what else is read at once."""
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


def approve(
    database: Database,
    case_id: str,
    reviewer: str,
    *,
    gold: Sequence[Gold] | None = None,
    question: str | None = None,
    seen: Sequence[Gold] | None = None,
) -> bool:
    """Take a proposed case into the set; without gold it says that no page answers.

    gold and question replace those that it has. False, and nothing done, when there is no such
    case, somebody has decided about it, or its gold is no longer what was seen.
    """
    with database.unrestricted.transaction() as connection:
        case = _load_open(connection, case_id, seen)
        if case is None:
            return False
        if gold is not None or question is not None:
            _save_said(connection, case, gold, question=question)
        _save_decision(connection, case_id, reviewer, "approved")
    return True


def dismiss(database: Database, case_id: str, reviewer: str) -> bool:
    """Say of a proposed case that the answer was right; False where there is none such by now."""
    with database.unrestricted.transaction() as connection:
        is_open = _load_open(connection, case_id) is not None
        if is_open:
            _save_decision(connection, case_id, reviewer, "dismissed")
    return is_open


def overrule(database: Database, case_id: str, reviewer: str, state: Decision) -> bool:
    """Decide about a case as it is, whatever was decided before; False where that stands already.

    It is for whoever looks after the set, in a terminal: among reviewers the first one counts.
    """
    with database.unrestricted.transaction() as connection:
        case = _load_locked(connection, case_id)
        is_new = case is not None and case.state != state
        if is_new:
            _save_decision(connection, case_id, reviewer, state)
    return is_new


def save_gold(
    database: Database,
    case_id: str,
    reviewer: str,
    *,
    gold: Sequence[Gold],
    question: str | None = None,
    answer: str | None = None,
    seen: Sequence[Gold] | None = None,
) -> bool:
    """Have these answer a proposed case, in place of what did.

    Any of them is enough; all are needed of the pages of which all were. question and answer
    replace those that it has. False, and nothing saved, as approve has it.
    """
    with database.unrestricted.transaction() as connection:
        case = _load_open(connection, case_id, seen)
        if case is None:
            return False
        _save_said(connection, case, gold, question=question, answer=answer)
        _update(connection, case_id, "reviewer = :reviewer", reviewer=reviewer)
    return True


def mark_page_wrong(database: Database, case_id: str, user_id: str, page: Gold) -> bool:
    """Add which page is what is wrong; True for the first who says so of this page alone."""
    with database.unrestricted.transaction() as connection:
        return _update(
            connection,
            case_id,
            """page_wrong_by = :user_id, page_wrong_at = now(), page_wrong_source = :source,
               page_wrong_path = :doc""",
            condition="(page_wrong_source, page_wrong_path) IS DISTINCT FROM (:source, :doc)",
            user_id=user_id,
            source=page.source,
            doc=page.doc,
        )


def claim_review(database: Database, case_id: str, channel_id: str) -> bool:
    """Whether it is this process that posts a case to the reviewers; a dismissed one is not posted.

    A claim of which no message has come in CLAIM_S, as its process has died say, may be taken over.
    """
    with database.unrestricted.transaction() as connection:
        return _update(
            connection,
            case_id,
            "review_channel_id = :channel_id, review_claimed_at = now()",
            condition="""state <> 'dismissed' AND review_ts IS NULL
                AND (review_channel_id IS NULL
                     OR review_claimed_at < now() - make_interval(secs => :claim_s))""",
            channel_id=channel_id,
            claim_s=CLAIM_S,
        )


def save_review_ts(database: Database, case_id: str, ts: str) -> bool:
    """Add the message to the reviewers; False when the case is gone meanwhile, or has another."""
    with database.unrestricted.transaction() as connection:
        return _update(connection, case_id, "review_ts = :ts", condition="review_ts IS NULL", ts=ts)


def release_review(database: Database, case_id: str) -> None:
    """Let a case be posted again, as it reached nobody."""
    with database.unrestricted.transaction() as connection:
        _update(connection, case_id, "review_channel_id = NULL", condition="review_ts IS NULL")


def forget_review(database: Database, case_id: str, ts: str) -> None:
    """Let a case be posted again, as somebody has deleted its message."""
    with database.unrestricted.transaction() as connection:
        _update(
            connection,
            case_id,
            "review_channel_id = NULL, review_ts = NULL",
            condition="review_ts = :ts",
            ts=ts,
        )


def list_missed(database: Database, days: int) -> list[str]:
    """The ids of the proposed cases of the last days that the reviewers have no message of."""
    with database.unrestricted.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT case_id FROM eval_cases
                WHERE state = 'proposed' AND review_ts IS NULL
                AND created_at >= now() - make_interval(days => :days)
                ORDER BY created_at, case_id
            """),
            {"days": days},
        )
        return list(rows.scalars())


def count_hidden(database: Database) -> int:
    """How many flagged answers wait for a review that those whom the database reads as may not
    read, and that the reviewers have no message of."""
    with database.unrestricted.transaction() as connection:
        found: int = connection.execute(
            text("""
                SELECT count(*) FROM eval_cases
                WHERE state = 'proposed' AND origin = 'flag' AND review_ts IS NULL
                AND NOT audience_ids <@ ARRAY(
                    SELECT audience_id FROM audiences WHERE audience && CAST(:readers AS text[]))
            """),
            {"readers": list(database.audiences)},
        ).scalar_one()
    return found


def choose_part(connection: Connection, case_id: str, *, held_out: bool | None = None) -> None:
    """Hold an approved case out or not: as told, or else once and for all.

    As the approved case whose question is nearest, if the two are alike: nothing may be fitted on
    what is reported in other words. Else by its own words.
    """
    _update(
        connection,
        case_id,
        f"""held_out = coalesce(
            :held_out,
            held_out,
            (SELECT nearest.held_out FROM eval_cases AS nearest WHERE nearest.case_id = :nearest),
            get_byte(sha256(convert_to({QUESTION_KEY}, 'UTF8')), 0) % {HELD_OUT} = 0
        )""",
        held_out=held_out,
        nearest=find_nearest(connection, case_id, "approved"),
    )


def find_nearest(connection: Connection, case_id: str, state: State | None = None) -> str | None:
    """The id of the case, among all or those of one state, whose question is nearest and alike.

    By the vectors of what was searched for, so that nothing is embedded.
    """
    return connection.execute(
        text("""
            SELECT others.case_id
            FROM case_traces AS own_link JOIN traces AS own USING (trace_id)
            CROSS JOIN case_traces AS other_link
            JOIN traces AS other ON other.trace_id = other_link.trace_id
            JOIN eval_cases AS others ON others.case_id = other_link.case_id
            WHERE own_link.case_id = :case_id AND others.case_id <> :case_id
            AND (CAST(:state AS text) IS NULL OR others.state = :state)
            AND CASE WHEN vector_dims(own.embedding) = vector_dims(other.embedding)
                THEN 1 - (own.embedding <=> other.embedding) >= :alike END
            ORDER BY own.embedding <=> other.embedding LIMIT 1
        """),
        {"case_id": case_id, "state": state, "alike": ALIKE},
    ).scalar()


def build_gold(gold: Iterable[Gold]) -> list[dict[str, str]]:
    """Gold as it is stored, and as files of cases have it."""
    return [
        {name: value for name, value in asdict(each).items() if value is not None} for each in gold
    ]


def _load_open(
    connection: Connection, case_id: str, seen: Sequence[Gold] | None = None
) -> Case | None:
    """A case that is proposed still, with the gold that was seen, until the transaction ends."""
    case = _load_locked(connection, case_id)
    if case is None or case.state != "proposed" or (seen is not None and case.gold != tuple(seen)):
        return None
    return case


def _load_locked(connection: Connection, case_id: str) -> Case | None:
    row = connection.execute(
        text(f"{_SELECT} WHERE case_id = :case_id FOR NO KEY UPDATE"), {"case_id": case_id}
    ).one_or_none()
    return _read(row) if row else None


def _save_said(
    connection: Connection,
    case: Case,
    gold: Sequence[Gold] | None,
    *,
    question: str | None = None,
    answer: str | None = None,
) -> None:
    """What people say of a case, as far as they do."""
    golds = (case.gold_any, case.gold_all) if gold is None else _arrange(case, gold)
    _update(
        connection,
        case.case_id,
        """gold_any = CAST(:gold_any AS jsonb), gold_all = CAST(:gold_all AS jsonb),
           orphaned_at = CASE WHEN :is_same THEN orphaned_at END,
           question = coalesce(:question, question), answer = coalesce(:answer, answer)""",
        gold_any=json.dumps(build_gold(golds[0])),
        gold_all=json.dumps(build_gold(golds[1])),
        is_same=gold is None,
        question=question,
        answer=answer,
    )


def _arrange(case: Case, gold: Sequence[Gold]) -> tuple[Sequence[Gold], Sequence[Gold]]:
    """gold_any and gold_all: of the same pages each is what it was, of others any is enough."""
    is_same = [each.doc for each in gold] == [each.doc for each in case.gold]
    end = len(case.gold_any) if is_same else len(gold)
    return gold[:end], gold[end:]


def _save_decision(connection: Connection, case_id: str, reviewer: str, state: Decision) -> None:
    # The time by the clock, as that of links: it tells which answers were known to the reviewer.
    _update(
        connection,
        case_id,
        "state = :state, reviewer = :reviewer, reviewed_at = clock_timestamp()",
        state=state,
        reviewer=reviewer,
    )
    if state == "approved":
        choose_part(connection, case_id)


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
            "page_wrong": Gold(**row.page_wrong) if row.page_wrong else None,
            "trace_ids": tuple(row.trace_ids),
        }
    )


def _read_turn(turn: Mapping[str, str]) -> Turn:
    return Turn(speaker=SPEAKERS[turn["role"]], text=turn["text"])
