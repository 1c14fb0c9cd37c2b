"""One ticket for each drop, whatever goes wrong with the tracker."""

import threading
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from app import eval_runs as kept
from app.config import Settings
from app.eval_runs import Run
from app.loop import nightly, tickets
from app.loop.tickets import News
from retrieval.db import Database
from tests.app import eval_runs
from tests.app.nights import know_cases, on_github
from tests.stand_ins.tracker import TrackerStandIn

CASES = 40
SECRET = "how much does Ann earn?"  # stands in no ticket
FIRST = "https://github.example/acme/wiki/issues/1"


@pytest.fixture
def github() -> Iterator[TrackerStandIn]:
    with TrackerStandIn() as stand_in:
        yield stand_in


@pytest.fixture
def tracker(github: TrackerStandIn) -> Settings:
    return on_github(github)


def save(database: Database, found: int, *, cases: int = CASES, first: int = 0) -> Run:
    """A run in which so many of the cases were found, the first ones."""
    lost = range(first + found, first + cases)
    return save_lost(database, lost, cases=range(first, first + cases))


def save_lost(
    database: Database, lost: Collection[int], *, cases: Collection[int] = range(CASES)
) -> Run:
    results = [
        eval_runs.result(
            eval_runs.case(f"c{number}", SECRET),
            [eval_runs.OTHER if number in lost else eval_runs.FOUND],
            trails=(eval_runs.trail("search" if number in lost else None),),
        )
        for number in cases
    ]
    know_cases(database, [each.case.case_id for each in results])
    return kept.save(database, eval_runs.run(*results, name="cases"))


def report(database: Database, tracker: Settings, run: Run) -> News | None:
    return nightly.report(database, tracker, None, run).news


def pass_nights(database: Database, tracker: Settings, *found: int) -> list[str | None]:
    """What became of the ticket in each of these nights."""
    news = [report(database, tracker, save(database, each)) for each in found]
    return [each.event if each else None for each in news]


def let_claims_age(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE tickets SET claimed_at = now() - make_interval(secs => :age)"),
            {"age": tickets.CLAIM_S + 1},
        )


def test_a_drop_opens_one_ticket_and_recovery_closes_it(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    nights = pass_nights(database, tracker, 40, 34, 34, 34, 40, 40)
    assert nights == [None, "opened", "open", "open", "closed", None]
    (issue,) = github.issues
    assert issue.title == "recall@5 fell from 1.00 to 0.85 (acme/cases)"
    assert issue.state == "closed"
    (comment,) = issue.comments
    assert comment.startswith("Run 5 of ") and "is 1.000, it was 1.000 in run 1 of" in comment


def test_a_ticket_tells_figures_causes_cases_and_no_question(
    database: Database, tracker: Settings, github: TrackerStandIn
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
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    nights = pass_nights(database, tracker, 40, 34, 24, 24, 23)
    assert nights == [None, "opened", "told", "open", "open"]
    (issue,) = github.issues
    (comment,) = issue.comments
    assert comment.startswith("It fell further: run 3 of ") and "| 0.850 | 0.600 |" in comment


def test_a_slow_decay_is_noticed(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    assert pass_nights(database, tracker, 40, 40, 39, 38, 37, 36)[-1] == "opened"
    assert "fell from 1.00 to 0.90" in github.issues[0].title


def test_what_the_tracker_refuses_is_tried_again_with_the_next_run(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(status=401)
    assert pass_nights(database, tracker, 34, 34, 34) == ["failed", "opened", "open"]
    assert len(github.issues) == 1


def test_an_opening_whose_answer_got_lost_is_looked_for_and_not_repeated(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(after_storing=True)
    # The one in between may be another process's, who is at it: it does nothing.
    assert pass_nights(database, tracker, 34, 34) == ["failed", None]
    let_claims_age(database)
    assert pass_nights(database, tracker, 34, 40) == ["open", "closed"]
    assert len(github.issues) == 1


def test_an_opening_that_never_arrived_is_made_up_for(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(status=502)
    pass_nights(database, tracker, 34)
    let_claims_age(database)
    assert pass_nights(database, tracker, 34, 34) == ["opened", "open"]
    assert len(github.issues) == 1


def test_an_opening_that_never_arrived_is_forgotten_with_the_drop(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    github.fail_next(status=502)
    pass_nights(database, tracker, 34)
    let_claims_age(database)
    assert pass_nights(database, tracker, 40, 34) == [None, "opened"]
    assert len(github.issues) == 1


@pytest.mark.parametrize("fault", [{"status": 401}, {"status": 502}, {"after_storing": True}])
def test_a_closing_that_failed_is_tried_again(
    database: Database, tracker: Settings, github: TrackerStandIn, fault: dict[str, Any]
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.fail_next(**fault)
    assert pass_nights(database, tracker, 40, 40, 40) == ["failed", "closed", None]
    assert github.issues[0].state == "closed"
    assert set(github.issues[0].comments) and len(github.issues) == 1


def test_a_closing_whose_process_died_is_made_up_for(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    ticket = tickets.load_open(database, "cases")
    assert ticket

    class Dying:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    recovered = save(database, 40)
    kept.mark_reported(database, recovered)
    with pytest.raises(KeyboardInterrupt):
        tickets.keep_up(database, Dying(), recovered, None)  # type: ignore[arg-type]
    assert tickets.load_open(database, "cases") == ticket
    assert pass_nights(database, tracker, 40) == ["closed"]


def test_a_drop_before_the_closing_was_taken_goes_on_in_the_same_ticket(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.fail_next(status=502)
    assert pass_nights(database, tracker, 40, 34, 34, 40) == ["failed", "told", "open", "closed"]
    (issue,) = github.issues
    fell_again, recovered = issue.comments
    assert "| 1.000 | 0.850 |" in fell_again and "the drop no more" in recovered


@pytest.mark.parametrize("status", [404, 410, 403])
def test_a_ticket_that_the_tracker_has_no_more_is_given_up(
    database: Database, tracker: Settings, github: TrackerStandIn, status: int
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.fail_next(status=status, times=tickets.MOST_GONE)
    nights = pass_nights(database, tracker, *[40] * tickets.MOST_GONE, 40, 34)
    assert nights == ["failed", "failed", "given up", None, "opened"]
    assert len(github.issues) == 2


def test_answers_that_a_ticket_is_gone_count_only_in_a_row(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 36)
    github.fail_next(status=403, times=tickets.MOST_GONE - 1)
    assert pass_nights(database, tracker, 30, 30, 30) == ["failed", "failed", "told"]
    github.fail_next(status=403)
    assert pass_nights(database, tracker, 24, 24) == ["failed", "told"]


def test_a_figure_that_goes_up_and_down_stays_one_ticket(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    nights = pass_nights(database, tracker, 40, 36, 37, 36, 38, 36, 39, 40)
    assert nights == [None, "opened", *["open"] * 4, "closed", None]
    assert len(github.issues) == 1


def test_other_lost_cases_are_told_once_if_they_are_most(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    events = []
    for lost in ((), range(6), range(3, 9), range(20, 26), range(20, 26)):
        news = report(database, tracker, save_lost(database, lost))
        events.append(news and news.event)
    assert events == [None, "opened", "open", "told", "open"]
    (issue,) = github.issues
    (comment,) = issue.comments
    assert comment.startswith("Most of the lost cases are others than those")
    assert "`c20`" in comment and "`c5`" not in comment


def test_a_drop_is_told_however_long_the_tracker_was_away(
    database: Database, github: TrackerStandIn
) -> None:
    away = Settings(tickets="http://127.0.0.1:1/hooks/secret-7")
    pass_nights(database, away, 40, *[34] * 31)
    webhook = Settings(tickets=github.webhook_url)
    assert pass_nights(database, webhook, 34, 34) == ["opened", "open"]
    (event,) = github.events.having()
    assert event["title"].startswith("recall@5 fell from 1.00 to 0.85")
    assert "against run 1 of" in event["body"]


def test_a_run_that_is_reported_late_touches_no_ticket(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    late, latest = save(database, 34), save(database, 40)
    assert report(database, tracker, latest) == News(event="closed", reference=FIRST)
    assert report(database, tracker, late) is None
    assert len(github.issues) == 1


def test_a_run_that_was_not_reported_is_no_witness(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 34)
    save(database, 40)  # by hand
    assert pass_nights(database, tracker, 34) == [None]


def test_a_further_drop_that_was_refused_is_told_the_next_night(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.fail_next(status=401)
    assert pass_nights(database, tracker, 24, 24, 24) == ["failed", "told", "open"]
    assert len(github.issues[0].comments) == 1


def test_a_ticket_closed_by_hand_opens_no_other_for_the_same_drop(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    github.issues[0].state = "closed"
    assert pass_nights(database, tracker, 34, 40, 34) == ["open", "closed", "opened"]
    assert len(github.issues) == 2


def test_a_set_that_has_changed_altogether_closes(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    news = report(database, tracker, save(database, 0, first=100))
    assert news == News(event="closed", reference=FIRST)
    (comment,) = github.issues[0].comments
    assert "no case is left as run 1 of" in comment


def test_two_processes_at_once_open_one_ticket(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40)
    runs = [save(database, 34), save(database, 34)]
    barrier = threading.Barrier(2)

    def work(run: Run) -> None:
        barrier.wait(10)
        report(database, tracker, run)

    with ThreadPoolExecutor(2) as executor:
        list(executor.map(work, runs))
    assert len(github.issues) == 1


def test_each_set_has_a_ticket_of_its_own(
    database: Database, tracker: Settings, github: TrackerStandIn
) -> None:
    pass_nights(database, tracker, 40, 34)
    with database.transaction() as connection:
        connection.execute(text("UPDATE eval_runs SET cases_name = 'others' WHERE run_id = 1"))
    fallen = kept.save(database, replace(save(database, 34), name="others"))
    assert report(database, tracker, fallen) == News(
        event="opened", reference="https://github.example/acme/wiki/issues/2"
    )


def test_a_webhook_is_told_the_same(database: Database, github: TrackerStandIn) -> None:
    webhook = Settings(tickets=github.webhook_url)
    nights = pass_nights(database, webhook, 40, 34, 34, 24, 40)
    assert nights == [None, "opened", "open", "told", "closed"]
    events = github.events.having()
    assert [event["event"] for event in events] == ["opened", "commented", "closed"]
    assert {(each["tenant"], each["set"], each["ticket_id"]) for each in events} == {
        ("acme", "cases", 1)
    }
