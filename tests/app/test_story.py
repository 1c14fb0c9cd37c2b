"""How a question is found by what people have of it, and what is known of it."""

import json
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app import escalation, feedback, story, traces
from app.escalation import Expert
from app.feedback import Complaint
from app.records import Answer
from app.story import Kept, Story
from retrieval.db import Database
from retrieval.errors import ConfigError
from tests.app.jobs_kept import add_job, add_worker
from tests.app.questions import add_page, ask

TS, ANSWER_TS, THREAD_TS = "1767225601.000002", "1767225603.000004", "1767225600.000001"


def write(database: Database, own: UUID, /, **columns: Any) -> UUID:
    """Have a trace hold this."""
    names = ", ".join(
        f"{name} = CAST(:{name} AS jsonb)"
        if isinstance(value, dict | tuple)
        else f"{name} = :{name}"
        for name, value in columns.items()
    )
    values = {
        name: json.dumps(value) if isinstance(value, dict | tuple) else value
        for name, value in columns.items()
    }
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text(f"UPDATE traces SET {names} WHERE trace_id = :own"),
            {"own": own, **values},
        )
    return own


def add(database: Database, *, channel_id: str = "C1", **more: Any) -> UUID:
    """A question in a thread, with an answer there."""
    trace_id = ask(database, channel_id=channel_id, **more)
    return write(database, trace_id, message_ts=TS, thread_ts=THREAD_TS, answer_ts=[ANSWER_TS])


def find(database: Database, named: str) -> UUID:
    with database.unrestricted.transaction() as connection:
        return story.find(connection, named)


def load(database: Database, trace_id: UUID) -> Story:
    with database.unrestricted.transaction() as connection:
        return story.load(connection, trace_id, freshness_days=365)


def link(ts: str, channel_id: str = "C1", query: str = "") -> str:
    return f"https://acme.slack.com/archives/{channel_id}/p{ts.replace('.', '')}{query}"


@pytest.mark.parametrize(
    "named",
    [
        TS,
        ANSWER_TS,
        f" {ANSWER_TS}\n",
        link(TS),
        link(ANSWER_TS, query=f"?thread_ts={THREAD_TS}&cid=C1"),
        link(THREAD_TS),  # what the thread is on, and no question
    ],
)
def test_a_question_is_found_by_its_messages(database: Database, named: str) -> None:
    trace_id = add(database)
    ask(database, channel_id="C2")
    assert find(database, named) == trace_id


def test_a_question_is_found_by_its_id_and_the_beginning_of_it(database: Database) -> None:
    trace_id = ask(database)
    ask(database)
    for named in (str(trace_id), str(trace_id).upper(), trace_id.hex, str(trace_id)[:8]):
        assert find(database, named) == trace_id
    assert find(database, str(trace_id)[:15]) == trace_id


def test_a_link_tells_the_channel_and_a_ts_may_be_of_several(database: Database) -> None:
    first, second = add(database), add(database, channel_id="C2")
    assert find(database, link(ANSWER_TS, "C2")) == second
    with pytest.raises(ConfigError, match="several questions") as raised:
        find(database, TS)
    assert str(first) in str(raised.value) and str(second) in str(raised.value)


def test_a_beginning_that_several_ids_have_is_refused_with_them(database: Database) -> None:
    ids = [UUID(f"12345678-0000-4000-8000-00000000000{number}") for number in (1, 2)]
    for trace_id in ids:
        write(database, ask(database), trace_id=trace_id)
    with pytest.raises(ConfigError, match="several questions") as raised:
        find(database, "12345678")
    assert all(str(trace_id) in str(raised.value) for trace_id in ids)


@pytest.mark.parametrize("named", ["12345678", TS, link(TS), "0" * 32])
def test_what_is_not_there_is_not_found(database: Database, named: str) -> None:
    ask(database)
    with pytest.raises(ConfigError, match="No question is known"):
        find(database, named)


@pytest.mark.parametrize("named", ["", "1234567", "how long?", "https://acme.slack.com/", "0" * 33])
def test_what_is_no_reference_is_refused(database: Database, named: str) -> None:
    with pytest.raises(ConfigError, match="is no reference"):
        find(database, named)


def test_another_tenants_question_is_not_found(database: Database) -> None:
    trace_id = add(database.for_tenant("other"))
    for named in (str(trace_id), TS):
        with pytest.raises(ConfigError, match="No question is known"):
            find(database, named)


def test_what_each_leg_found_and_what_was_kept_is_told(database: Database) -> None:
    candidates = (
        {"section_id": 1, "document_id": 1, "doc": "a.md", "dense_rank": 1, "relevance": 0.2},
        {
            "section_id": 2,
            "document_id": 2,
            "doc": "b.md",
            "dense_rank": 2,
            "lexical_rank": 1,
            "relevance": 0.9,
            "verified_at": "2026-01-31",
        },
        {"section_id": 3, "document_id": 3, "doc": "c.md", "lexical_rank": 2, "relevance": 0.3},
    )
    trace_id = write(
        database,
        ask(database, settings={"floor": 0.5, "generator": "quoted", "rewriting": "rules"}),
        candidates=candidates,
        kept=[2],
        stage_ms={"dense": 1.5, "total": 9},
        attempts=2,
    )
    told = load(database, trace_id)
    assert (told.found, told.legs["dense"], told.legs["lexical"]) == (3, 2, 2)
    assert told.legs["identifier"] == 0
    assert [each.path for each in told.kept] == ["b.md"]
    assert [each.path for each in told.left] == ["c.md", "a.md"]
    assert str(told.kept[0].verified_at) == "2026-01-31"
    assert (told.floor, told.generator, told.attempts) == (0.5, "quoted", 2)
    assert told.left[1] == Kept(path="a.md", relevance=0.2, verified_at=None)


def test_an_open_question_is_told_with_its_job(database: Database) -> None:
    trace_id = ask(database, "pending")
    assert load(database, trace_id).job is None
    add_job(database, ask(database, "pending"))
    add_job(database, ask(database, "pending"), later_s=60)
    add_job(database, trace_id, waiting_s=30)
    add_job(database, ask(database, "pending"), priority=-2)
    job = load(database, trace_id).job
    assert job is not None and (job.status, job.ahead, job.heard_s) == ("todo", 1, None)
    assert [event.kind for event in job.events] == ["deferred"]


def test_p02_a_question_at_work_is_told_with_its_workers_last_sign_of_life(
    database: Database,
) -> None:
    trace_id = ask(database, "pending")
    add_job(database, trace_id, worker_id=add_worker(database, heard_s=90))
    add_job(database, trace_id)  # to be taken up afterwards
    job = load(database, trace_id).job
    assert job is not None and job.status == "doing"
    assert job.heard_s is not None and job.heard_s >= 90
    assert [event.kind for event in job.events] == ["deferred", "started"]


def test_what_people_thought_is_told_without_their_names(database: Database) -> None:
    document_id = add_page(database, "wiki", "leave.md")
    trace_id = ask(database, "answered")
    assert load(database, trace_id).fault is None
    feedback.vote(database, trace_id, "U77", -1)
    complaint = Complaint(reason="outdated", document_id=document_id, note="see there")
    feedback.save_complaint(database, trace_id, "U77", complaint)
    feedback.vote(database, trace_id, "U78", 1)
    told = load(database, trace_id)
    assert [(each.vote, each.reason, each.note, each.page) for each in told.votes] == [
        (-1, "outdated", "see there", "leave.md"),
        (1, None, None, None),
    ]
    assert told.case is not None and (told.case.state, told.case.reviewed_at) == ("proposed", None)
    assert told.fault is not None and told.fault.stage == "search" and told.fault.is_known
    assert "U77" not in repr(told) and "U1" not in repr(told)


def test_that_a_question_was_passed_on_is_told(database: Database) -> None:
    trace_id = ask(database, "abstained")
    assert load(database, trace_id).passed is None
    assert escalation.claim(database, trace_id, Expert(channel_id="C9"), "U1")
    passed = load(database, trace_id).passed
    assert passed is not None
    assert (passed.channel_id, passed.ts, passed.resolved_at) == ("C9", None, None)


def test_an_edited_question_is_told_as_it_was_before(database: Database) -> None:
    trace_id = ask(database, "answered", question="how long?")
    feedback.vote(database, trace_id, "U2", -1)
    asked_at = load(database, trace_id).asked_at
    traces.reopen(database, trace_id, "how long for part-timers?")
    told = load(database, trace_id)
    assert told.question == "how long for part-timers?" and told.before is not None
    assert told.before.question == "how long?" and told.before.votes == 1
    assert told.before.outcome == "answered" and told.before.asked_at == asked_at


def test_p27_what_is_still_to_be_told_is_told(database: Database) -> None:
    trace_id = ask(database, "answered")
    assert not load(database, trace_id).is_untold
    assert load(database, write(database, trace_id, outbox={"messages": []})).is_untold


def test_words_of_a_deleted_question_are_not_told(database: Database) -> None:
    trace_id = ask(database, question="zanzibar?", unknown="zanzibar", settings={"deleted": True})
    told = load(database, trace_id)
    assert told.question is None and "zanzibar" not in repr(told)


def test_small_talk_is_told(database: Database) -> None:
    trace_id = ask(database, question="hello", settings={"small_talk": "greeting"})
    assert load(database, trace_id).question == "hello"


def test_a_question_that_failed_is_told_with_what_failed(database: Database) -> None:
    trace_id = ask(database, "failed", error_class="GenerationError", took_s=3)
    told = load(database, trace_id)
    assert (told.outcome, told.error_class) == ("failed", "GenerationError")
    assert told.floor is None and told.found == 0 and told.kept == ()
    traces.save_answer(database, trace_id, Answer(text="?"), settings={}, stage_ms={})
    assert load(database, trace_id).outcome == "answered"
