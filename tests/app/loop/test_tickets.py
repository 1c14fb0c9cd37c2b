"""One ticket for each drop, whatever goes wrong with the tracker."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from app import evaluating
from app.config import Settings
from app.evaluating import Run
from app.loop import drops, tickets, trackers
from app.loop.tickets import News
from app.loop.trackers import Tracker
from retrieval.db import Database
from tests.app import eval_runs
from tests.app.nights import on_github
from tests.stand_ins.tracker import TrackerStandIn

CASES = 40
SECRET = "how much does Ann earn?"  # stands in no ticket
FIRST = "https://github.example/acme/wiki/issues/1"


@pytest.fixture
def github() -> Iterator[TrackerStandIn]:
    with TrackerStandIn() as stand_in:
        yield stand_in


@pytest.fixture
def tracker(github: TrackerStandIn) -> Tracker:
    built = trackers.build(on_github(github))
    assert built
    return built


def save(database: Database, found: int, *, cases: int = CASES, first: int = 0) -> Run:
    """A run in which so many of the cases were found."""
    results = [
        eval_runs.result(
            eval_runs.case(f"c{number}", SECRET),
            [eval_runs.FOUND if number < first + found else eval_runs.OTHER],
            trails=(eval_runs.trail(None if number < first + found else "search"),),
        )
        for number in range(first, first + cases)
    ]
    return evaluating.save(database, eval_runs.run(*results, name="cases"))


def keep_up(database: Database, tracker: Tracker, run: Run) -> News | None:
    """As nightly.report does."""
    runs = evaluating.load_runs(database, run.name, before=run.run_id, limit=drops.WINDOW)
    drop = drops.find(runs, run)
    alarm = tickets.raise_alarm(database, drop, run) if drop else None
    return tickets.keep_up(database, tracker, run, runs, alarm)


def pass_nights(database: Database, tracker: Tracker, *found: int) -> list[str | None]:
    """What became of the ticket in each of these nights."""
    news = [keep_up(database, tracker, save(database, each)) for each in found]
    return [each.event if each else None for each in news]


def let_claims_age(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE tickets SET opened_at = now() - make_interval(secs => :age)"),
            {"age": tickets.CLAIM_S + 1},
        )


def test_a_drop_opens_one_ticket_and_recovery_closes_it(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    nights = pass_nights(database, tracker, 40, 34, 34, 34, 40, 40)
    assert nights == [None, "opened", "open", "open", "closed", None]
    (issue,) = github.issues
    assert issue.title == "recall@5 fell from 1.00 to 0.85"
    assert issue.state == "closed"
    (comment,) = issue.comments
    assert comment.startswith("Run 5 of ") and "is 1.000, it was 1.000 in run 1 of" in comment


def test_a_ticket_tells_figures_causes_cases_and_no_question(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    with database.transaction() as connection:
        connection.execute(text("UPDATE eval_runs SET commit = 'abc'"))
    pass_nights(database, tracker, 34)
    (issue,) = github.issues
    assert "over the 40 cases that both have" in issue.body
    assert "| recall@5 | 1.000 | 0.850 | -0.150 |" in issue.body
    assert (
        "The code is at `0123456789abcdef`, it was at `abc`. Explains 6 lost cases." in issue.body
    )
    assert "- `c34`: `leave.md`, found by no leg (was at rank 1)" in issue.body
    assert "footnote eval --cases --compare 1 --report" in issue.body
    assert SECRET not in issue.title + issue.body


def test_a_further_drop_is_told_in_the_same_ticket_once(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    nights = pass_nights(database, tracker, 40, 34, 24, 24, 23)
    assert nights == [None, "opened", "told further", "open", "open"]
    (issue,) = github.issues
    (comment,) = issue.comments
    assert comment.startswith("It fell further: run 3 of ") and "| 0.850 | 0.600 |" in comment


def test_a_slow_decay_is_noticed(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    assert pass_nights(database, tracker, 40, 39, 38, 37, 36)[-1] == "opened"
    assert "fell from 1.00 to 0.90" in github.issues[0].title


def test_what_the_tracker_refuses_is_tried_again_with_the_next_run(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(status=401)
    assert pass_nights(database, tracker, 34, 34, 34) == ["failed", "opened", "open"]
    assert len(github.issues) == 1


def test_an_opening_whose_answer_got_lost_is_looked_for_and_not_repeated(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(after_storing=True)
    # The one in between may be another process's, who is at it: it does nothing.
    assert pass_nights(database, tracker, 34, 34) == ["failed", None]
    let_claims_age(database)
    assert pass_nights(database, tracker, 34, 40) == ["open", "closed"]
    assert len(github.issues) == 1


def test_an_opening_that_never_arrived_is_made_up_for(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(status=502)
    pass_nights(database, tracker, 34)
    let_claims_age(database)
    assert pass_nights(database, tracker, 34, 34) == ["opened", "open"]
    assert len(github.issues) == 1


def test_an_opening_that_never_arrived_is_forgotten_with_the_drop(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(status=502)
    pass_nights(database, tracker, 34)
    let_claims_age(database)
    assert pass_nights(database, tracker, 40, 34) == [None, "opened"]
    assert len(github.issues) == 1


def test_a_closing_that_failed_is_tried_again(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.fail_next(status=401)
    assert pass_nights(database, tracker, 40, 40, 40) == ["failed", "closed", None]
    assert github.issues[0].state == "closed"
    assert len(github.issues[0].comments) == 1


def test_a_further_drop_that_was_refused_is_told_the_next_night(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.fail_next(status=401)
    assert pass_nights(database, tracker, 24, 24, 24) == ["failed", "told further", "open"]
    assert len(github.issues[0].comments) == 1


def test_a_ticket_closed_by_hand_opens_no_other_for_the_same_drop(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.issues[0].state = "closed"
    assert pass_nights(database, tracker, 34, 40, 34) == ["open", "closed", "opened"]
    assert len(github.issues) == 2


def test_a_set_that_has_changed_altogether_neither_opens_nor_closes(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    other = save(database, 0, first=100)
    news = keep_up(database, tracker, other)
    assert news == News(event="open", reference=FIRST)
    # The next one has that one to be compared with, and has not fallen from it.
    news = keep_up(database, tracker, save(database, 1, first=100))
    assert news == News(event="closed", reference=FIRST)
    (comment,) = github.issues[0].comments
    assert "too few cases are left that run 1 of" in comment


def test_two_processes_at_once_open_one_ticket(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    runs = [save(database, 34), save(database, 34)]
    barrier = threading.Barrier(2)

    def work(run: Run) -> None:
        barrier.wait(10)
        keep_up(database, tracker, run)

    with ThreadPoolExecutor(2) as executor:
        list(executor.map(work, runs))
    assert len(github.issues) == 1


def test_each_set_has_a_ticket_of_its_own(
    database: Database, tracker: Tracker, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    with database.transaction() as connection:
        connection.execute(text("UPDATE eval_runs SET cases_name = 'others' WHERE run_id = 1"))
    fallen = evaluating.save(database, replace(save(database, 34), name="others"))
    assert keep_up(database, tracker, fallen) == News(
        event="opened", reference="https://github.example/acme/wiki/issues/2"
    )


def test_a_webhook_is_told_the_same(database: Database, github: TrackerStandIn) -> None:
    webhook = trackers.build(Settings(tickets=github.webhook_url))
    assert webhook
    nights = pass_nights(database, webhook, 40, 34, 34, 24, 40)
    assert nights == [None, "opened", "open", "told further", "closed"]
    events = github.events.having()
    assert [event["event"] for event in events] == ["opened", "commented", "closed"]
    assert {event["ticket_id"] for event in events} == {1}
