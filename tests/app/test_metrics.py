"""What is counted of the questions, and when."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from uuid import uuid4

import pytest

from app import posting
from app.jobs import MOST_WAITING, Jobs
from app.metrics import OUTCOMES, MeasuredAnswerer, MeasuredExecutor, Metrics
from app.records import Answer, Arrival
from app.rights import Rights
from retrieval.db import Database
from tests.app.bot import GivenAnswers
from tests.stand_ins.slack import SlackStandIn


class Process:
    """Jobs that are measured, as `serve.run` sets them up."""

    def __init__(self, slack: SlackStandIn, database: Database) -> None:
        self.slack = slack
        self.metrics = Metrics()
        self.answerer = GivenAnswers(database)
        client = posting.build_client(slack.bot_token, slack.api_url)
        self.jobs = Jobs(
            client=client,
            database=database,
            answerer=MeasuredAnswerer(self.answerer, self.metrics),
            rights=Rights(client, database),
            executor=MeasuredExecutor(4, database, self.metrics),
            workers=4,
            refused=self.metrics.count_refused,
        )

    def ask(self, question: str) -> Arrival:
        ts = self.slack.write(question, channel_id="D1")["ts"]
        arrival = Arrival(
            question=question,
            surface="slack",
            team_id="T1",
            channel_id="D1",
            message_ts=ts,
            thread_ts=ts,
        )
        self.jobs.take(arrival)
        return arrival

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"footnote_{name}", labels)

    def counts(self) -> dict[str, float]:
        """The questions by outcome, as far as there are any."""
        found = {each: self.sample("questions_total", outcome=each) or 0 for each in OUTCOMES}
        assert self.sample("answer_seconds_count") == sum(found.values())
        return {outcome: number for outcome, number in found.items() if number}


@contextmanager
def running(slack: SlackStandIn, database: Database) -> Iterator[Process]:
    process = Process(slack, database)
    yield process
    process.jobs.close(timeout_s=30)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(text="28 days."), "answered"),
        (Answer(text="I found nothing.", abstained_because="NO_CANDIDATES"), "abstained"),
        (ValueError("broken"), "failed"),
    ],
)
def test_each_question_is_counted_once_by_its_outcome(
    slack: SlackStandIn, database: Database, answer: Answer | Exception, outcome: str
) -> None:
    with running(slack, database) as process:
        process.answerer.answers["how long?"] = answer
        process.ask("how long?")
    assert process.counts() == {outcome: 1}
    assert process.sample("questions_in_flight") == 0


def test_what_is_refused_because_too_much_waits_has_failed(
    slack: SlackStandIn, database: Database
) -> None:
    with running(slack, database) as process:
        process.answerer.held["slow?"] = Event()
        for _ in range(4 + MOST_WAITING):
            process.ask("slow?")
        overheard = process.ask("one more?")
        process.jobs.take(replace(overheard, message_ts="1767225600.000001", is_unasked=True))
        assert process.sample("questions_total", outcome="failed") == 1
        process.answerer.held["slow?"].set()
    assert process.sample("questions_total", outcome="failed") == 1
    assert process.sample("answer_seconds_count") == 4 + MOST_WAITING


def test_an_answer_counts_once_it_is_posted(slack: SlackStandIn, database: Database) -> None:
    posted = Event()
    slack.delay("chat.postMessage", posted)
    with running(slack, database) as process:
        process.ask("how long?")
        slack.wait_for_call("chat.postMessage")
        assert (process.counts(), process.sample("questions_in_flight")) == ({}, 1)
        posted.set()
    assert process.counts() == {"answered": 1}


def test_an_answer_that_cannot_be_posted_has_failed(
    slack: SlackStandIn, database: Database
) -> None:
    slack.fail_next("chat.postMessage", body={"ok": False, "error": "is_archived"})
    with running(slack, database) as process:
        process.ask("how long?")
    assert process.counts() == {"failed": 1}


def test_a_question_that_is_edited_while_it_is_answered_has_not_failed(
    slack: SlackStandIn, database: Database
) -> None:
    with running(slack, database) as process:
        process.answerer.held["how long?"] = Event()
        arrival = process.ask("how long?")
        process.answerer.wait_until_asked("how long?")
        process.jobs.revise(replace(arrival, question="how far?"))
        process.answerer.held["how long?"].set()
    assert process.counts() == {"answered": 1}


def test_small_talk_is_no_question(slack: SlackStandIn, database: Database) -> None:
    with running(slack, database) as process:
        process.ask("hello")
    assert process.counts() == {}


def test_a_question_whose_trace_cannot_be_read_has_failed() -> None:
    metrics = Metrics()
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")

    def work() -> None:
        metrics.at_work.trace_id = uuid4()

    with MeasuredExecutor(1, unreachable, metrics) as executor:
        executor.submit(work)
    failed = metrics.registry.get_sample_value("footnote_questions_total", {"outcome": "failed"})
    assert failed == 1
