"""One vote a person."""

from uuid import UUID

import pytest

from app import feedback, traces
from app.feedback import Vote
from app.records import Arrival
from retrieval.db import Database
from tests.app.bot import find_rows


@pytest.fixture
def trace_id(database: Database) -> UUID:
    trace_id = traces.claim(database, Arrival(question="how long?"))
    assert trace_id is not None
    return trace_id


def votes(database: Database) -> list[tuple[str, int]]:
    return sorted((row.user_id, row.vote) for row in find_rows(database, "feedback"))


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


def test_votes_stay_with_their_tenant(
    database: Database, database_url: str, trace_id: UUID
) -> None:
    feedback.vote(database, trace_id, "U1", 1)
    other = Database(database_url, tenant_id="other")
    feedback.take_back(other, trace_id, "U1", 1)
    assert votes(other) == []
    other.close()
    assert votes(database) == [("U1", 1)]
