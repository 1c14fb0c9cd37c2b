"""Who is taken up when, and what becomes of the jobs of workers that are gone."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from app import claims, queueing
from app.records import Arrival
from retrieval.db import Database

QUEUE = queueing.name("acme")
_numbers = count(1)


def ask(database: Database, user_id: str, channel_id: str) -> UUID:
    """A question that was just asked, and its job."""
    ts = f"{next(_numbers)}.0"
    arrival = Arrival(
        question="how?",
        surface="slack",
        team_id="T1",
        channel_id=channel_id,
        user_id=user_id,
        message_ts=ts,
        thread_ts=ts,
    )
    with database.unrestricted.transaction() as connection:
        trace_id = claims.add(connection, arrival, database.tenant_id)
        assert trace_id is not None
        ids = queueing.build_ids(trace_id, database.tenant_id, arrival)
        load = queueing.find_load(connection, QUEUE, ids)
        queueing.defer(connection, QUEUE, ids, round=load.round)
    return trace_id


def fetch(database: Database, worker_id: int | None = None) -> UUID | None:
    """The question that a worker takes up next."""
    with database.transaction() as connection:
        found = connection.execute(
            text("""
                SELECT args ->> 'trace_id'
                FROM procrastinate_fetch_job_v2(CAST(ARRAY[:queue] AS varchar[]), :worker_id)
            """),
            {"queue": QUEUE, "worker_id": worker_id},
        ).scalar()
    return UUID(found) if found else None


def list_order(database: Database) -> list[UUID]:
    """The questions in the order in which they are taken up."""
    order = []
    while trace_id := fetch(database):
        order.append(trace_id)
    return order


@contextmanager
def working(database: Database, *, silent_s: int) -> Iterator[int]:
    """The id of a worker that has given no sign of life for so long."""
    with database.transaction() as connection:
        yield connection.execute(
            text("""
                INSERT INTO procrastinate_workers (last_heartbeat)
                VALUES (now() - make_interval(secs => :silent_s)) RETURNING id
            """),
            {"silent_s": silent_s},
        ).scalar_one()


def test_whoever_asks_many_waits_for_their_own(database: Database) -> None:
    many = [ask(database, "U1", "C1") for _ in range(3)]
    others = [ask(database, f"U{number}", f"C{number}") for number in (2, 3)]
    assert list_order(database) == [many[0], *others, *many[1:]]


def test_people_who_ask_in_one_channel_share_its_turn(database: Database) -> None:
    crowd = [ask(database, f"U{number}", "C1") for number in range(3)]
    alone = ask(database, "U9", "D9")
    assert list_order(database) == [crowd[0], alone, *crowd[1:]]


def test_who_comes_later_is_not_before_what_has_waited_long(database: Database) -> None:
    first = [ask(database, "U1", "C1") for _ in range(4)]
    assert [fetch(database), fetch(database)] == first[:2]
    later = [ask(database, "U2", "C2") for _ in range(2)]
    assert list_order(database) == [first[2], later[0], first[3], later[1]]


def test_what_is_only_to_be_told_is_told_first(database: Database) -> None:
    waiting = ask(database, "U1", "C1")
    told = uuid4()
    ids = queueing.build_ids(told, "acme", Arrival(question="one too many"))
    with database.unrestricted.transaction() as connection:
        queueing.defer(connection, QUEUE, ids)
    assert list_order(database) == [told, waiting]


def test_who_waits_is_told_how_many_are_before(database: Database) -> None:
    asked = [ask(database, f"U{number}", f"C{number}") for number in range(3)]
    fetch(database)
    ahead = [queueing.count_ahead(database, QUEUE, trace_id) for trace_id in asked]
    assert ahead == [None, 1, 2]


@pytest.mark.parametrize(("silent_s", "taken"), [(5, 0), (60, 1)])
def test_what_a_dead_worker_was_at_is_taken_over(
    database: Database, silent_s: int, taken: int
) -> None:
    asked = ask(database, "U1", "C1")
    with working(database, silent_s=silent_s) as worker_id:
        pass
    assert fetch(database, worker_id) == asked
    assert queueing.take_over(database, QUEUE) == taken
    assert queueing.take_over(database, queueing.name("other")) == 0
    assert fetch(database) == (asked if taken else None)


def test_a_job_that_nobody_is_at_is_handed_back(database: Database) -> None:
    asked = ask(database, "U1", "C1")
    with working(database, silent_s=0) as worker_id:
        pass
    fetch(database, worker_id)
    jobs = queueing.list_at_work(database, worker_id)
    assert queueing.hand_back(database, worker_id, jobs) == 1
    assert queueing.list_at_work(database, worker_id) == []
    assert fetch(database) == asked


def test_a_question_and_its_job_are_one_transaction(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.unrestricted.transaction() as connection:
        arrival = Arrival(question="how?")
        trace_id = claims.add(connection, arrival, database.tenant_id)
        assert trace_id is not None
        queueing.defer(connection, QUEUE, queueing.build_ids(trace_id, "acme", arrival))
        raise ZeroDivisionError
    assert fetch(database) is None
    assert claims.begin(database, trace_id) is None
