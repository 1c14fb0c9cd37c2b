"""One vote a person."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app import claims, feedback, stats
from app.config import Settings
from app.feedback import Ballot, Complaint, Vote
from app.records import Arrival
from app.stats import Scope, Viewer
from retrieval.db import Database
from tests.app.bot import find_rows
from tests.app.questions import reopen


@pytest.fixture
def trace_id(database: Database) -> UUID:
    trace_id = claims.claim(database, Arrival(question="how long?"))
    assert trace_id is not None
    return trace_id


def votes(database: Database) -> list[tuple[str, int]]:
    """Those that count."""
    rows = find_rows(database, "feedback")
    return sorted((row.user_id, row.vote) for row in rows if row.vote)


@pytest.mark.parametrize(
    ("reaction", "vote"),
    [
        ("-1", -1),
        ("thumbsdown::skin-tone-2", -1),
        ("+1::skin-tone-6", 1),
        ("thumbsup", 1),
        ("1", None),
        ("skin-tone-2", None),
        ("", None),
    ],
)
def test_reactions_are_votes_whatever_the_skin(reaction: str, vote: Vote | None) -> None:
    assert feedback.find_vote(reaction) == vote


def test_the_last_vote_of_a_person_counts(database: Database, trace_id: UUID) -> None:
    feedback.vote(database, trace_id, "U1", -1)
    feedback.vote(database, trace_id, "U2", -1)
    feedback.vote(database, trace_id, "U1", 1)
    assert votes(database) == [("U1", 1), ("U2", -1)]


def test_only_the_vote_that_counts_can_be_taken_back(database: Database, trace_id: UUID) -> None:
    feedback.vote(database, trace_id, "U1", 1)
    feedback.take_back(database, trace_id, "U1", -1)
    feedback.take_back(database, trace_id, "U2", 1)
    assert votes(database) == [("U1", 1)]
    feedback.take_back(database, trace_id, "U1", 1)
    assert votes(database) == []


def test_a_vote_given_after_one_was_taken_back_stays(database: Database, trace_id: UUID) -> None:
    now = datetime.now(UTC)
    feedback.vote(database, trace_id, "U1", -1, now)
    feedback.take_back(database, trace_id, "U1", -1, now - timedelta(seconds=1))
    assert votes(database) == [("U1", -1)]


def test_a_vote_that_slack_repeats_after_its_end_does_not_count(
    database: Database, trace_id: UUID
) -> None:
    voted_at = datetime.now(UTC)
    taken_at = voted_at + timedelta(seconds=1)
    feedback.vote(database, trace_id, "U1", -1, voted_at)
    for user_id in ("U1", "U2"):  # of U2, the end comes first
        feedback.take_back(database, trace_id, user_id, -1, taken_at)
        feedback.vote(database, trace_id, user_id, -1, voted_at)
    assert votes(database) == []
    feedback.vote(database, trace_id, "U1", -1, taken_at + timedelta(seconds=1))
    assert votes(database) == [("U1", -1)]


def test_a_vote_taken_back_before_it_is_told_of_leaves_the_one_before(
    database: Database, trace_id: UUID
) -> None:
    first = datetime.now(UTC)
    feedback.vote(database, trace_id, "U1", 1, first)
    feedback.take_back(database, trace_id, "U1", -1, first + timedelta(seconds=2))
    feedback.vote(database, trace_id, "U1", -1, first + timedelta(seconds=1))
    assert votes(database) == [("U1", 1)]


def test_what_was_said_goes_with_the_vote(database: Database, trace_id: UUID) -> None:
    feedback.vote(database, trace_id, "U1", -1)
    feedback.save_complaint(database, trace_id, "U1", Complaint(reason="wrong", note="2 h"))
    feedback.take_back(database, trace_id, "U1", 1)
    assert feedback.load_complaint(database, trace_id, "U1").note == "2 h"
    feedback.take_back(database, trace_id, "U1", -1)
    assert feedback.load_complaint(database, trace_id, "U1") == Complaint()
    assert feedback.save_complaint(database, trace_id, "U1", Complaint(note="3 h")) is None


def test_what_was_taken_back_is_neither_flagged_nor_among_the_votes_on_an_old_answer(
    database: Database, trace_id: UUID
) -> None:
    feedback.vote(database, trace_id, "U1", -1)
    feedback.take_back(database, trace_id, "U1", -1)
    feedback.vote(database, trace_id, "U2", 1)
    counts = stats.load_stats(
        database, Scope(), viewer=Viewer(is_admin=True), settings=Settings()
    ).counts
    assert (counts.flagged, counts.helpful) == (0, 1)
    reopen(database, trace_id, "how far?")
    (trace,) = find_rows(database, "traces")
    assert [vote["user_id"] for vote in trace.settings["before"]["votes"]] == ["U2"]


def test_votes_stay_with_their_tenant(
    database: Database, database_url: str, trace_id: UUID
) -> None:
    feedback.vote(database, trace_id, "U1", 1)
    other = Database(database_url, tenant_id="other")
    feedback.take_back(other, trace_id, "U1", 1)
    assert votes(other) == []
    other.close()
    assert votes(database) == [("U1", 1)]


def test_a_vote_given_earlier_changes_nothing_when_it_is_counted_later(
    database: Database, trace_id: UUID
) -> None:
    now = datetime.now(UTC)
    feedback.vote(database, trace_id, "U1", 1, now)
    feedback.vote(database, trace_id, "U1", -1, now - timedelta(seconds=1))
    assert votes(database) == [("U1", 1)]
    feedback.vote(database, trace_id, "U1", -1, now)  # delivered in the order given
    assert votes(database) == [("U1", -1)]


def test_a_second_thumbs_down_keeps_what_was_said(database: Database, trace_id: UUID) -> None:
    complaint = Complaint(reason="wrong", note="2 h")
    feedback.vote(database, trace_id, "U1", -1)
    assert feedback.save_complaint(database, trace_id, "U1", complaint) == trace_id
    feedback.vote(database, trace_id, "U1", -1)
    assert feedback.load_complaint(database, trace_id, "U1") == complaint


def test_only_who_voted_against_can_say_what_is_wrong(database: Database, trace_id: UUID) -> None:
    feedback.vote(database, trace_id, "U1", 1)
    for user_id in ("U1", "U2"):
        assert feedback.save_complaint(database, trace_id, user_id, Complaint(note="x")) is None
    assert feedback.load_complaint(database, trace_id, "U2") == Complaint()
    assert [row.note for row in find_rows(database, "feedback")] == [None]


def test_a_page_that_is_gone_is_none(database: Database) -> None:
    assert feedback.load_page(database, 1) is None


def test_a_reaction_tells_who_voted_on_what_and_when() -> None:
    event: dict[str, Any] = {
        "user": "U1",
        "reaction": "thumbsdown",
        "item": {"type": "message", "channel": "C1", "ts": "1767225601.000001"},
        "event_ts": "1767225660.500000",
    }
    assert feedback.read_reaction(event) == Ballot(
        channel_id="C1",
        answer_ts="1767225601.000001",
        user_id="U1",
        vote=-1,
        voted_at=datetime(2026, 1, 1, 0, 1, 0, 500_000, tzinfo=UTC),
    )
    assert feedback.read_reaction({**event, "reaction": "eyes"}) is None
    assert feedback.read_reaction({**event, "item": {"type": "file", "file": "F1"}}) is None


def test_a_button_that_stands_for_no_vote_is_an_error() -> None:
    body = {"actions": [{"value": "maybe"}], "container": {}}
    with pytest.raises(ValueError, match="stands for none"):
        feedback.read_click(body)
