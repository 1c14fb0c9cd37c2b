"""The story of a question in words."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app import story_text
from app.loop.stages import Fault
from app.story import Before, Case, Job, JobEvent, Kept, Passed, Story, Vote

ASKED_AT = datetime(2026, 11, 30, 10, 0, 0, tzinfo=UTC)
TRACE_ID = UUID("7c1f0c9e-0000-4000-8000-000000000001")


def after(seconds: float) -> datetime:
    return ASKED_AT + timedelta(seconds=seconds)


def build(**told: Any) -> Story:
    """A question that is answered, but for what is told."""
    story = Story(
        trace_id=TRACE_ID,
        surface="slack",
        channel_id="C1",
        thread_ts="1767225600.000001",
        message_ts="1767225601.000002",
        asked_at=ASKED_AT,
        completed_at=after(12.3),
        question="How many days\nof leave?",
        before=None,
        queries=("how many days of leave",),
        rewriting="model",
        rewrite_model="claude-haiku-5-5",
        found=30,
        legs={"dense": 28, "lexical": 12, "identifier": 0},
        kept=(Kept(path="leave.md", relevance=0.913, verified_at=date(2026, 1, 31)),),
        left=(Kept(path="travel.md", relevance=0.2, verified_at=None),),
        floor=0.512,
        unknown=(),
        generator="claude-sonnet-5-5",
        cited=("leave.md",),
        tokens={"output": 210, "input": 1234},
        stage_ms={"embed": 12.5, "generate": 3000.0, "total": 4100.0},
        degraded=(),
        outcome="answered",
        abstained_because=None,
        error_class=None,
        attempts=1,
        answer_ts=("1767225603.000004",),
        is_untold=False,
        job=None,
        votes=(),
        passed=None,
        case=None,
        fault=None,
    )
    return replace(story, **told)


def build_job(**told: Any) -> Job:
    job = Job(
        status="todo",
        ahead=3,
        not_before=None,
        heard_s=None,
        events=(JobEvent(kind="deferred", at=ASKED_AT),),
    )
    return replace(job, **told)


def tell(**told: Any) -> str:
    return story_text.build(build(**told))


def test_a_story_is_told_in_order_of_time() -> None:
    assert tell() == (
        "Question 7c1f0c9e-0000-4000-8000-000000000001: answered\n"
        "\n"
        "> How many days\n"
        "> of leave?\n"
        "\n"
        "2026-11-30 10:00:00  asked in C1 (message 1767225601.000002, thread 1767225600.000001),"
        " and claimed\n"
        "                     searched for “how many days of leave” (claude-haiku-5-5 to word it:"
        " model)\n"
        "                     found 30 sections: 28 by dense, 12 by lexical, 0 by identifier\n"
        "                     kept 1 section of relevance 0.512 or more\n"
        "                      0.913  leave.md (verified 2026-01-31)\n"
        "                     generator claude-sonnet-5-5, citing leave.md\n"
        "                     tokens: input 1,234, output 210\n"
        "2026-11-30 10:00:12  answered, 12.3 s after it was asked, of which the last attempt took"
        " 4.1 s\n"
        "                     what came of it stands in C1: 1767225603.000004\n"
        "\n"
        "stage            ms\n"
        "total       4,100.0\n"
        "generate    3,000.0\n"
        "embed          12.5"
    )


def test_why_nothing_was_answered_is_told_with_what_came_nearest() -> None:
    told = tell(
        outcome="abstained", abstained_because="BELOW_FLOOR", kept=(), cited=(), generator=None
    )
    assert "not answered (nothing that was found is relevant enough), 12.3 s after" in told
    assert "kept 0 sections of relevance 0.512 or more\n" in told
    assert "nearest were\n                      0.200  travel.md\n" in told
    assert "generator" not in told
    assert "no page mentions “ERR_1” and “ERR_2”" in tell(unknown=("ERR_1", "ERR_2"))


def test_attempts_and_what_failed_are_told() -> None:
    told = tell(outcome="failed", error_class="GenerationError", attempts=3, stage_ms={})
    assert "attempt 3 at it" in told and "failed (GenerationError), 12.3 s after" in told
    assert "stage" not in told
    assert "attempt" not in tell(stage_ms={})


def test_degraded_modes_are_told() -> None:
    told = tell(degraded=("no lexical leg",), rewriting="timed out")
    assert "degraded: no lexical leg\n" in told and "to word it: timed out" in told
    assert "worded by rules" in tell(rewriting="rules")


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (build_job(), "It waits for a worker; 3 jobs ahead of it."),
        (
            build_job(not_before=after(90), ahead=1),
            "It waits for a worker, not before 2026-11-30 10:01:30; 1 job ahead of it.",
        ),
        (build_job(status="doing", heard_s=4.4), "gave a sign of life 4 s ago."),
        (build_job(status="doing", heard_s=61), "Its worker is gone"),
        (build_job(status="doing"), "Its worker is gone"),
        (None, "Nobody is to work on it any more"),
    ],
)
def test_an_open_question_is_told_with_who_is_to_work_on_it(job: Job | None, words: str) -> None:
    told = tell(outcome="pending", completed_at=None, answer_ts=(), job=job)
    assert "no outcome yet\n" in told and words in told.splitlines()[-1]


def test_what_happened_to_a_job_is_told() -> None:
    events = (
        JobEvent(kind="deferred", at=ASKED_AT),
        JobEvent(kind="started", at=after(1)),
        JobEvent(kind="deferred_for_retry", at=after(5)),
    )
    told = tell(outcome="pending", completed_at=None, job=build_job(events=events))
    assert (
        "2026-11-30 10:00:01  taken up by a worker\n"
        "2026-11-30 10:00:05  given back, to be tried again\n"
    ) in told


def test_p27_what_is_still_to_be_told_is_told_with_who_is_to_do_so() -> None:
    told = tell(is_untold=True, answer_ts=(), job=build_job())
    assert "\nStill to be told in Slack: what came of it.\nIt waits for a worker" in told
    assert "Nobody is to do so" in tell(is_untold=True, answer_ts=())
    assert "Still to be told" not in tell() and "Nobody" not in tell()


def test_what_came_after_is_told_in_order_of_time() -> None:
    told = tell(
        votes=(
            Vote(vote=-1, voted_at=after(600), reason="outdated", note="It is 31", page="new.md"),
            Vote(vote=1, voted_at=after(60), reason=None, note=None, page=None),
            Vote(vote=0, voted_at=after(700), reason=None, note=None, page=None),
        ),
        passed=Passed(asked_at=after(120), channel_id="C9", ts="17.1", resolved_at=after(650)),
        case=Case(case_id="flag-1", state="approved", linked_at=after(610), reviewed_at=after(800)),
        fault=Fault(stage="stale", why="an old page was kept", is_known=True),
    )
    (_, *lines) = told.partition("1767225603.000004\n")[2].partition("\n\n")[0].splitlines()
    first = told.partition("1767225603.000004\n")[2].splitlines()[0]
    assert [first, *lines] == [
        "2026-11-30 10:01:00  👍",
        "2026-11-30 10:02:00  passed on to people (C9, 17.1)",
        "2026-11-30 10:10:00  👎 outdated: “It is 31”; the right page is new.md",
        "2026-11-30 10:10:10  became the case flag-1, approved now",
        "2026-11-30 10:10:50  settled by somebody it was passed on to",
        "2026-11-30 10:11:40  a vote was taken back",
        "2026-11-30 10:13:20  that case was decided on",
        "                     at fault: stale – an old page was kept",
    ]


def test_an_edited_question_is_told_as_it_was_before() -> None:
    before = Before(question="How long?", asked_at=after(-60), outcome="abstained", votes=1)
    told = tell(before=before)
    assert (
        "2026-11-30 09:59:00  asked in C1 (message 1767225601.000002, thread 1767225600.000001)\n"
        "                     not answered, 1 vote, then worded “How long?”\n"
        "2026-11-30 10:00:00  edited or asked again, and claimed anew\n"
    ) in told


def test_a_deleted_question_and_one_from_a_terminal_are_told_as_such() -> None:
    assert "\nIts asker has deleted it, so its words are not shown.\n" in tell(question=None)
    told = tell(surface="terminal", channel_id=None, answer_ts=())
    assert "asked in a terminal, and claimed" in told


def test_nothing_in_a_story_is_obeyed_by_a_terminal() -> None:
    assert "\x1b" not in tell(question="\x1b[2J", queries=("\x1b[2J",), cited=("\x1b[2J.md",))


def test_a_story_for_programs_is_one_object() -> None:
    told = json.loads(story_text.to_json(build(job=build_job())))
    assert told["trace_id"] == str(TRACE_ID) and told["asked_at"] == "2026-11-30T10:00:00+00:00"
    assert told["kept"] == [{"path": "leave.md", "relevance": 0.913, "verified_at": "2026-01-31"}]
    assert told["job"]["events"] == [{"kind": "deferred", "at": "2026-11-30T10:00:00+00:00"}]
