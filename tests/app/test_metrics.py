"""What is counted of the questions and of their queue, and when."""

from contextlib import suppress
from uuid import UUID

import pytest
from prometheus_client import generate_latest
from slack_sdk.errors import SlackApiError
from sqlalchemy import text

from app import claims, posting, traces
from app.answering import Answerer, Kept
from app.generate.quoted import Quoter
from app.metrics import OUTCOMES, CountedCalls, Metrics
from app.records import Answer, Arrival, Turn
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.records import LEGS, Query, Retrieval
from retrieval.retrieve import Retriever
from tests.stand_ins.slack import SlackStandIn

QUESTION = "my SSN is 078-05-1120, how many days of leave?"
QUEUE = "answers-1"


class Counted:
    """What a process has counted."""

    def __init__(self) -> None:
        self.metrics = Metrics()

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"footnote_{name}", labels)

    def outcomes(self) -> dict[str, float]:
        """The questions by outcome, as far as there are any."""
        found = {each: self.sample("questions_total", outcome=each) or 0 for each in OUTCOMES}
        assert self.sample("answer_seconds_count") == sum(found.values())
        return {outcome: number for outcome, number in found.items() if number}


@pytest.fixture
def counted() -> Counted:
    return Counted()


def execute(database: Database, statement: str, **values: object) -> None:
    with database.unrestricted.transaction() as connection:
        connection.execute(text(statement), values)


def attempt(database: Database, trace_id: UUID) -> int:
    """Begin another attempt at a question; its number."""
    with database.unrestricted.transaction() as connection:
        number: int = connection.execute(
            text(
                "UPDATE traces SET attempts = attempts + 1 WHERE trace_id = :id RETURNING attempts"
            ),
            {"id": trace_id},
        ).scalar_one()
    return number


def claim(database: Database) -> UUID:
    trace_id = claims.claim(database, Arrival(question=QUESTION))
    assert trace_id is not None
    return trace_id


def save(database: Database, trace_id: UUID, outcome: str) -> None:
    """Complete a trace, as the latest attempt does."""
    with database.transaction() as connection:
        attempts = text("SELECT attempts FROM traces WHERE trace_id = :trace_id")
        latest = connection.execute(attempts, {"trace_id": trace_id}).scalar_one()
    if outcome == "failed":
        traces.save_failure(database, trace_id, "ValueError", attempt=latest)
    elif outcome == "stopped":
        traces.save_stopped(database, trace_id, "28", (), attempt=latest)
    else:
        because = "NO_CANDIDATES" if outcome == "abstained" else None
        answer = Answer(text="28 days.", abstained_because=because)
        traces.save_answer(database, trace_id, answer, settings={}, stage_ms={}, attempt=latest)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_question_is_counted_by_its_outcome(
    counted: Counted, database: Database, outcome: str
) -> None:
    trace_id = claim(database)
    number = attempt(database, trace_id)
    save(database, trace_id, outcome)
    assert counted.metrics.note(database, trace_id, number) == outcome
    assert counted.outcomes() == {outcome: 1}


def test_a_question_of_several_attempts_counts_with_the_last(
    counted: Counted, database: Database
) -> None:
    trace_id = claim(database)
    assert counted.metrics.note(database, trace_id, attempt(database, trace_id)) is None
    assert counted.outcomes() == {}
    number = attempt(database, trace_id)
    save(database, trace_id, "answered")
    assert counted.metrics.note(database, trace_id, number) == "answered"
    assert counted.outcomes() == {"answered": 1}
    assert (counted.sample("attempts_total"), counted.sample("retries_total")) == (2, 1)


def test_an_answer_counts_once_it_is_told(counted: Counted, database: Database) -> None:
    trace_id = claim(database)
    number = attempt(database, trace_id)
    save(database, trace_id, "answered")
    execute(database, "UPDATE traces SET outbox = '{}'")
    assert counted.metrics.note(database, trace_id, number) == "answered"
    assert counted.outcomes() == {}
    number = attempt(database, trace_id)
    execute(database, "UPDATE traces SET outbox = NULL")
    counted.metrics.note(database, trace_id, number)
    assert counted.outcomes() == {"answered": 1}


def test_an_attempt_that_another_one_has_overtaken_does_not_count_its_question(
    counted: Counted, database: Database
) -> None:
    trace_id = claim(database)
    overtaken, latest = attempt(database, trace_id), attempt(database, trace_id)
    save(database, trace_id, "answered")
    counted.metrics.note(database, trace_id, latest)
    counted.metrics.note(database, trace_id, overtaken)
    assert counted.outcomes() == {"answered": 1}


def test_neither_small_talk_nor_what_is_forgotten_is_a_question(
    counted: Counted, database: Database
) -> None:
    trace_id = claim(database)
    number = attempt(database, trace_id)
    traces.save_answer(
        database,
        trace_id,
        Answer(text="Hi!"),
        settings={"small_talk": "greeting"},
        stage_ms={},
        attempt=number,
    )
    counted.metrics.note(database, trace_id, number)
    execute(database, "DELETE FROM traces WHERE trace_id = :trace_id", trace_id=trace_id)
    assert counted.metrics.note(database, trace_id, number) is None
    assert counted.outcomes() == {}


def test_where_the_database_is_away_a_question_has_no_outcome_yet(counted: Counted) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    assert counted.metrics.note(unreachable, UUID(int=7), 1) is None
    assert counted.outcomes() == {}
    assert counted.sample("attempts_total") == 1


def test_a_question_is_in_flight_while_it_is_worked_on(counted: Counted) -> None:
    with suppress(ValueError), counted.metrics.working():
        assert counted.sample("questions_in_flight") == 1
        raise ValueError
    assert counted.sample("questions_in_flight") == 0


def test_tokens_are_counted_by_the_model_they_were_billed_for(
    counted: Counted, database: Database
) -> None:
    trace_id = claim(database)
    number = attempt(database, trace_id)
    found = Retrieval(
        query=Query(text="leave", question="leave"),
        candidates=(),
        kept=(),
        settings={"rewrite_model": "small", "failed_legs": ["dense"], "instead_of": "large"},
    )
    billed = {"rewrite_input": 300, "rewrite_output": 40}
    traces.save_retrieval(database, trace_id, found, tokens=billed, attempt=number)
    answer = Answer(text="28 days.", tokens={"input": 2_000, "output": 90})
    settings = {"generator": "large"}
    traces.save_answer(database, trace_id, answer, settings=settings, stage_ms={}, attempt=number)
    counted.metrics.note(database, trace_id, number)
    for model, kind, count in (
        *(("small", "rewrite_input", 300), ("small", "rewrite_output", 40)),
        *(("large", "input", 2_000), ("large", "output", 90)),
    ):
        assert counted.sample("tokens_total", model=model, kind=kind) == count
    for kind in ("dense", "model"):
        assert counted.sample("degraded_answers_total", kind=kind) == 1


def test_an_answer_is_counted_by_stages_and_by_the_legs_that_found_what_it_rests_on(
    counted: Counted, retriever: Retriever, embedder: Embedder
) -> None:
    database = retriever.database
    trace_id = claim(database)
    answerer = Answerer(retriever=retriever, generator=Quoter(embedder))
    turns = (Turn(speaker="user", text="How many days of leave can I carry over?"),)
    found, _ = answerer.retrieve_and_answer(turns, Kept(database=database, trace_id=trace_id))
    counted.metrics.note(database, trace_id, traces.AT_ONCE)
    for stage, ms in found.stage_ms.items():
        assert counted.sample("stage_seconds_count", stage=stage) == 1
        assert counted.sample("stage_seconds_sum", stage=stage) == pytest.approx(ms / 1000)
    assert {"embed", "dense", "lexical", "identifier", "late", "rerank", "generate"} < {
        *found.stage_ms
    }
    assert found.kept
    for leg in LEGS:
        kept = sum(each.hit(leg) is not None for each in found.kept)
        assert counted.sample("kept_sections_total", leg=leg) == kept
        is_empty = not any(each.hit(leg) for each in found.candidates)
        assert counted.sample("empty_legs_total", leg=leg) == is_empty
    assert counted.sample("kept_sections_total", leg="dense")
    assert counted.sample("empty_legs_total", leg="identifier")  # no identifier is asked for


def add_job(database: Database, queue: str, status: str = "todo", age_s: int = 0) -> None:
    with database.unrestricted.transaction() as connection:
        job_id = connection.execute(
            text("""
                INSERT INTO procrastinate_jobs (queue_name, task_name, args)
                VALUES (:queue, 'answer', '{"trace_id": "5eed"}') RETURNING id
            """),
            {"queue": queue},
        ).scalar_one()
        connection.execute(
            text(
                "UPDATE procrastinate_jobs SET status = CAST(:status AS"
                " procrastinate_job_status) WHERE id = :id"
            ),
            {"status": status, "id": job_id},
        )
        connection.execute(
            text(
                "UPDATE procrastinate_events SET at = at - make_interval(secs => :age_s)"
                " WHERE job_id = :id"
            ),
            {"age_s": age_s, "id": job_id},
        )


def test_the_queue_is_shown_with_the_age_of_the_oldest_that_waits(
    counted: Counted, database: Database
) -> None:
    for queue, status, age_s in (
        *((QUEUE, "todo", 90), (QUEUE, "todo", 5), (QUEUE, "doing", 300)),
        *((QUEUE, "failed", 900), ("answers-2", "todo", 900)),
    ):
        add_job(database, queue, status, age_s)
    counted.metrics.watch(database, QUEUE)
    assert counted.sample("queue_waiting") == 2
    assert counted.sample("queue_at_work") == 1
    assert counted.sample("database_up") == 1
    oldest = counted.sample("queue_oldest_seconds")
    assert oldest is not None and 90 <= oldest < 300


def test_the_queue_is_looked_at_once_a_second_at_most(counted: Counted, database: Database) -> None:
    now = [100.0]
    counted.metrics.watch(database, QUEUE, now=lambda: now[0])
    assert counted.sample("queue_waiting") == 0
    assert counted.sample("queue_oldest_seconds") == 0
    add_job(database, QUEUE)
    now[0] = 100.9
    assert counted.sample("queue_waiting") == 0
    now[0] = 101.0
    assert counted.sample("queue_waiting") == 1


def test_of_a_database_that_is_away_no_queue_is_shown_but_that_it_is(counted: Counted) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    counted.metrics.watch(unreachable, QUEUE)
    assert counted.sample("database_up") == 0
    assert counted.sample("queue_waiting") is None
    assert b"footnote_questions_total" in generate_latest(counted.metrics.registry)


def test_each_call_of_slack_is_counted_by_what_came_of_it(
    counted: Counted, slack: SlackStandIn
) -> None:
    client = posting.build_client(slack.bot_token, slack.api_url, CountedCalls(counted.metrics))
    slack.fail_next("auth.test", status=429, headers={"Retry-After": "0"})
    client.auth_test()  # and again
    slack.fail_next("auth.test", status=503)
    slack.fail_next("auth.test", body={"ok": False, "error": "account_inactive"})
    hasty = posting.hasten(client)
    for _ in range(2):
        with pytest.raises(SlackApiError):
            hasty.auth_test()
    slack.fail_next("auth.test", drop_connection=True)
    with pytest.raises(posting.CONNECTION_FAULTS):
        hasty.auth_test()
    for outcome in ("ok", "429", "5xx", "refused", "lost"):
        assert counted.sample("slack_calls_total", method="auth.test", outcome=outcome) == 1


def test_nothing_that_is_shown_tells_who_asked_what(counted: Counted, database: Database) -> None:
    arrival = Arrival(question=QUESTION, surface="slack", channel_id="C1", user_id="U7")
    trace_id = claims.claim(database, arrival)
    assert trace_id is not None
    number = attempt(database, trace_id)
    save(database, trace_id, "answered")
    counted.metrics.note(database, trace_id, number)
    add_job(database, QUEUE)
    counted.metrics.watch(database, QUEUE)
    shown = generate_latest(counted.metrics.registry).decode()
    assert 'footnote_questions_total{outcome="answered"} 1.0' in shown
    for word in ("SSN", "leave", "C1", "U7", "acme", "5eed", str(trace_id)):
        assert word not in shown
