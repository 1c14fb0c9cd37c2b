"""What became of one question, from its trace, for whoever is paged."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from app.loop import faults
from app.loop.stages import Fault
from retrieval.errors import ConfigError
from retrieval.records import LEGS

# …/archives/CHANNEL/pTS, where the last six digits of TS are its fraction, and in a thread its ts.
_PERMALINK = re.compile(
    r"https?://\S+/archives/(?P<channel>[A-Z0-9]+)/p(?P<s>\d{10})(?P<us>\d{6})(?:[?#]\S*)?"
)
_TS = re.compile(r"\d{10}\.\d{6}")
_PREFIX = re.compile(r"[0-9a-f]{8}[0-9a-f-]*", re.IGNORECASE)
MOST_NAMED = 5  # traces that one id may stand for


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A section that was handed over, or of those that were not, one that came near."""

    path: str
    relevance: float | None
    verified_at: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """What happened to a job, in procrastinate's words."""

    kind: str  # deferred, started, deferred_for_retry …
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is still to be done about a question."""

    status: str  # todo or doing
    ahead: int  # jobs of the queue that come before it, while it waits
    not_before: datetime | None
    heard_s: float | None  # since its worker's last sign of life; None: it has no worker
    events: tuple[JobEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What somebody thought of the answer."""

    vote: int  # -1 or 1; 0: taken back
    voted_at: datetime
    reason: str | None
    note: str | None
    page: str | None  # that they say holds the right answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """That the question was passed on to people."""

    asked_at: datetime
    channel_id: str
    ts: str | None
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The case that rests on the answer."""

    case_id: str
    state: str
    linked_at: datetime
    reviewed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The question as it was before it was edited, or asked again after it had failed."""

    question: str | None  # None: its asker has deleted it
    asked_at: datetime
    outcome: str
    votes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One question, and all that is known of what became of it; no names of people."""

    trace_id: UUID
    surface: str
    channel_id: str | None
    thread_ts: str | None
    message_ts: str | None
    asked_at: datetime
    completed_at: datetime | None
    question: str | None  # None: its asker has deleted it, which takes its words back
    before: Before | None
    queries: tuple[str, ...]
    rewriting: str | None  # how the queries were worded: rules, model, timed out …
    rewrite_model: str | None
    found: int  # candidates
    legs: Mapping[str, int]  # of which each leg found so many
    kept: tuple[Kept, ...]
    left: tuple[Kept, ...]  # the other candidates, best first
    floor: float | None  # None: nothing was searched
    unknown: tuple[str, ...]  # names in the question that no page mentions
    generator: str | None
    cited: tuple[str, ...]  # pages, in the order of the footnotes
    tokens: Mapping[str, int]
    stage_ms: Mapping[str, float]
    degraded: tuple[str, ...]
    outcome: str
    abstained_because: str | None
    error_class: str | None
    attempts: int
    answer_ts: tuple[str, ...]
    is_untold: bool  # an answer or a notice is still to be told
    job: Job | None
    votes: tuple[Vote, ...]
    passed: Passed | None
    case: Case | None
    fault: Fault | None


def find(connection: Connection, named: str) -> UUID:
    """The trace that an id, the first 8 or more characters of one, or a Slack message stands for.

    A message is named by its link or its ts, and is the question or carries the answer; a link may
    be to another message of a thread in which one question was asked. Raises ConfigError where
    there is none, or several.
    """
    named = named.strip()
    if link := _PERMALINK.fullmatch(named):
        ts = f"{link['s']}.{link['us']}"
        found = _find_by_message(connection, ts, link["channel"])
    elif _TS.fullmatch(named):
        found = _find_by_message(connection, named, None)
    elif _PREFIX.fullmatch(named) and len(digits := named.replace("-", "").lower()) <= 32:
        found = _find_by_prefix(connection, digits)
    else:
        raise ConfigError(
            f"{named!r} is no reference: give the one that the asker was told, at least its first "
            "8 characters, or the link to the question or its answer in Slack."
        )
    if not found:
        raise ConfigError(
            f"No question is known by {named!r}. It may be of another tenant, deleted, or older "
            "than RETENTION_DAYS; a message that was never taken leaves nothing."
        )
    if len(found) > 1:
        raise ConfigError(f"{named!r} stands for several questions: {', '.join(map(str, found))}.")
    return found[0]


def _find_by_prefix(connection: Connection, digits: str) -> list[UUID]:
    return _find(
        connection,
        "trace_id BETWEEN :first AND :last",
        first=UUID(digits.ljust(32, "0")),
        last=UUID(digits.ljust(32, "f")),
    )


def _find_by_message(connection: Connection, ts: str, channel_id: str | None) -> list[UUID]:
    where = "(CAST(:channel_id AS text) IS NULL OR channel_id = :channel_id)"
    for condition in ("message_ts = :ts OR :ts = ANY(answer_ts)", "thread_ts = :ts"):
        if found := _find(connection, f"{where} AND ({condition})", channel_id=channel_id, ts=ts):
            return found
    return []


def _find(connection: Connection, condition: str, **values: object) -> list[UUID]:
    statement = text(f"""
        SELECT trace_id FROM traces WHERE {condition} ORDER BY asked_at DESC LIMIT {MOST_NAMED}
    """)
    return list(connection.execute(statement, values).scalars())


def load(connection: Connection, trace_id: UUID, *, freshness_days: int) -> Story:
    """All that is known of a question; freshness_days tells which page is stale, as ever."""
    row = connection.execute(
        text("""
            SELECT *, is_shown(traces) OR settings ? 'small_talk' AS has_words
            FROM traces WHERE trace_id = :trace_id
        """),
        {"trace_id": trace_id},
    ).one()
    settings, candidates = row.settings, row.candidates
    before = settings.get("before")
    votes = _load_votes(connection, trace_id)
    case = _load_case(connection, trace_id)
    is_judged = case is not None or any(each.vote < 0 for each in votes)
    return Story(
        trace_id=trace_id,
        surface=row.surface,
        channel_id=row.channel_id,
        thread_ts=row.thread_ts,
        message_ts=row.message_ts,
        asked_at=row.asked_at,
        completed_at=row.completed_at,
        question=row.question if row.has_words else None,
        before=_read_before(before, has_words=row.has_words) if before else None,
        queries=tuple(row.queries) if row.has_words else (),
        rewriting=settings.get("rewriting"),
        rewrite_model=settings.get("rewrite_model"),
        found=len(candidates),
        legs=_count_legs(candidates),
        kept=_read_candidates(each for each in candidates if each["section_id"] in row.kept),
        left=_read_candidates(each for each in candidates if each["section_id"] not in row.kept),
        floor=settings.get("floor"),
        unknown=tuple(settings.get("unknown", ())) if row.has_words else (),
        generator=settings.get("generator"),
        cited=tuple(dict.fromkeys(each["path"] for each in row.citations)),
        tokens=row.tokens,
        stage_ms=row.stage_ms,
        degraded=tuple(settings.get("degraded", ())),
        outcome=row.outcome,
        abstained_because=row.abstained_because,
        error_class=row.error_class,
        attempts=row.attempts,
        answer_ts=tuple(row.answer_ts),
        is_untold=row.outbox is not None,
        job=_load_job(connection, trace_id),
        votes=votes,
        passed=_load_passed(connection, trace_id),
        case=case,
        fault=faults.find_fault(connection, trace_id, freshness_days=freshness_days)
        if is_judged
        else None,
    )


def _read_before(before: Mapping[str, Any], *, has_words: bool) -> Before:
    return Before(
        question=before["question"] if has_words else None,
        asked_at=datetime.fromisoformat(before["asked_at"]).astimezone(UTC),
        outcome=before["outcome"],
        votes=len(before["votes"]),
    )


def _count_legs(candidates: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    counted = Counter(
        leg for each in candidates for leg in LEGS if each.get(f"{leg}_rank") is not None
    )
    return {leg: counted[leg] for leg in LEGS}


def _read_candidates(candidates: Iterable[Mapping[str, Any]]) -> tuple[Kept, ...]:
    """Best first; those without a relevance, which were not reranked, last."""
    read = (
        Kept(
            path=each["doc"],
            relevance=each.get("relevance"),
            verified_at=date.fromisoformat(day) if (day := each.get("verified_at")) else None,
        )
        for each in candidates
    )
    return tuple(sorted(read, key=lambda each: -(each.relevance or 0)))


def _load_job(connection: Connection, trace_id: UUID) -> Job | None:
    """The job of a question that is at work, or else that comes first; None where all ended."""
    row = connection.execute(
        text("""
            SELECT own.id, own.status, own.scheduled_at,
                   CAST(extract(epoch FROM now() - last_heartbeat) AS float8) AS heard_s,
                   (SELECT count(*) FROM procrastinate_jobs AS other
                    WHERE other.status = 'todo' AND other.queue_name = own.queue_name
                    AND (other.scheduled_at IS NULL OR other.scheduled_at <= now())
                    AND (other.priority > own.priority
                         OR other.priority = own.priority AND other.id < own.id)) AS ahead
            FROM procrastinate_jobs AS own
            LEFT JOIN procrastinate_workers ON procrastinate_workers.id = worker_id
            WHERE args ->> 'trace_id' = CAST(:trace_id AS text) AND status IN ('todo', 'doing')
            ORDER BY own.status = 'doing' DESC, own.id LIMIT 1
        """),
        {"trace_id": str(trace_id)},
    ).one_or_none()
    if row is None:
        return None
    events = connection.execute(
        text("SELECT type AS kind, at FROM procrastinate_events WHERE job_id = :id ORDER BY id"),
        {"id": row.id},
    )
    return Job(
        status=row.status,
        ahead=row.ahead,
        not_before=row.scheduled_at,
        heard_s=row.heard_s,
        events=tuple(JobEvent(**each._mapping) for each in events),
    )


def _load_votes(connection: Connection, trace_id: UUID) -> tuple[Vote, ...]:
    rows = connection.execute(
        text("""
            SELECT vote, voted_at, reason, note, right_path AS page
            FROM feedback WHERE trace_id = :trace_id ORDER BY voted_at
        """),
        {"trace_id": trace_id},
    )
    return tuple(Vote(**row._mapping) for row in rows)


def _load_passed(connection: Connection, trace_id: UUID) -> Passed | None:
    row = connection.execute(
        text("""
            SELECT asked_at, channel_id, ts, resolved_at
            FROM escalations WHERE trace_id = :trace_id
        """),
        {"trace_id": trace_id},
    ).one_or_none()
    return Passed(**row._mapping) if row else None


def _load_case(connection: Connection, trace_id: UUID) -> Case | None:
    row = connection.execute(
        text("""
            SELECT case_id, state, linked_at, reviewed_at
            FROM case_traces JOIN eval_cases USING (tenant_id, case_id)
            WHERE case_traces.trace_id = :trace_id
        """),
        {"trace_id": trace_id},
    ).one_or_none()
    return Case(**row._mapping) if row else None
