"""What the asker sees while a question is worked on."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from time import monotonic
from typing import Any

import pytest

from app import posting, status
from app.answering import Reading, Searching
from app.records import Arrival
from app.status import Status
from tests.app.bot import Bot
from tests.stand_ins.slack import SlackStandIn

SET_STATUS = "assistant.threads.setStatus"


class Held(ThreadPoolExecutor):
    """Begins with nothing before it is let go."""

    def __init__(self) -> None:
        super().__init__(1)
        self.go = Event()

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        super().submit(self.go.wait, 10)
        return super().submit(work, *args, **kwargs)


@pytest.fixture
def executor() -> Iterator[Held]:
    with Held() as executor:
        yield executor
        executor.go.set()


@pytest.fixture
def shown(slack: SlackStandIn, executor: Held) -> Status:
    ts = slack.write("how long?", channel_id="C1")["ts"]
    arrival = Arrival(question="how long?", channel_id="C1", message_ts=ts, thread_ts=ts)
    return Status(posting.build_client(slack.bot_token, slack.api_url), arrival, executor)


def statuses(slack: SlackStandIn) -> list[str]:
    return [call.params["status"] for call in slack.calls(SET_STATUS)]


def reactions(slack: SlackStandIn) -> list[str]:
    return [
        call.method
        for method in ("reactions.add", "reactions.remove")
        for call in slack.calls(method)
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (status.describe(Searching(page_count=1942)), "is searching 1,942 pages…"),
        (status.describe(Searching(page_count=1)), "is searching 1 page…"),
        (status.describe(Reading(section_count=5)), "is reading 5 sections…"),
        (status.describe_wait(1), "is waiting: 1 question before yours"),
    ],
)
def test_a_stage_is_told_in_plain_words(said: str, words: str) -> None:
    assert said == words


def test_it_is_cleared_at_the_end(slack: SlackStandIn, executor: Held, shown: Status) -> None:
    executor.go.set()
    shown.show("is searching 9 pages…")
    slack.wait_for_call(SET_STATUS)
    shown.clear()
    shown.show("is reading 2 sections…")
    executor.shutdown()
    assert statuses(slack) == ["is searching 9 pages…", ""]
    assert reactions(slack) == []


def test_of_several_only_the_last_is_shown(
    slack: SlackStandIn, executor: Held, shown: Status
) -> None:
    shown.show("is searching 9 pages…")
    shown.show("is reading 2 sections…")
    executor.go.set()
    slack.wait_for_call(SET_STATUS)
    assert statuses(slack) == ["is reading 2 sections…"]


def test_the_next_one_comes_a_second_later(
    slack: SlackStandIn, executor: Held, shown: Status
) -> None:
    executor.go.set()
    times = []
    for number in range(1, 3):
        shown.show(f"is reading {number + 1} sections…")
        slack.wait_for_call(SET_STATUS, count=number)
        times.append(monotonic())
    assert times[1] - times[0] > status.INTERVAL_S * 0.9


def test_an_end_is_not_waited_for(slack: SlackStandIn, executor: Held, shown: Status) -> None:
    executor.go.set()
    shown.show("is searching 9 pages…")
    slack.wait_for_call(SET_STATUS)
    shown.show("is reading 2 sections…")
    start = monotonic()
    shown.clear()
    executor.shutdown()
    assert monotonic() - start < status.INTERVAL_S
    assert statuses(slack) == ["is searching 9 pages…", ""]


def test_what_ended_before_anything_was_shown_shows_nothing(
    slack: SlackStandIn, executor: Held, shown: Status
) -> None:
    shown.show("is searching 9 pages…")
    shown.clear()
    executor.go.set()
    executor.shutdown()
    assert (statuses(slack), reactions(slack)) == ([], [])


@pytest.mark.parametrize(
    "fault",
    [
        {"body": {"ok": False, "error": "not_allowed_token_type"}},
        {"status": 500},
        {"drop_connection": True},
    ],
    ids=["refused", "broken", "lost"],
)
def test_where_slack_takes_no_status_a_reaction_stands_in_once(
    slack: SlackStandIn, executor: Held, shown: Status, fault: dict[str, Any]
) -> None:
    executor.go.set()
    slack.fail_next(SET_STATUS, **fault)
    shown.show("is searching 9 pages…")
    slack.wait_for_call("reactions.add")
    shown.show("is reading 2 sections…")
    shown.clear()
    executor.shutdown()
    assert statuses(slack) == ["is searching 9 pages…", ""]
    assert reactions(slack) == ["reactions.add", "reactions.remove"]
    assert slack.messages("C1")[0]["reactions"] == []


def test_a_call_for_patience_is_no_refusal(
    slack: SlackStandIn, executor: Held, shown: Status
) -> None:
    executor.go.set()
    slack.fail_next(SET_STATUS, status=429, headers={"Retry-After": "60"})
    shown.show("is searching 9 pages…")
    slack.wait_for_call(SET_STATUS)
    shown.show("is reading 2 sections…")
    slack.wait_for_call(SET_STATUS, count=2)
    assert reactions(slack) == []


def test_a_later_refusal_leaves_what_is_shown(
    slack: SlackStandIn, executor: Held, shown: Status
) -> None:
    executor.go.set()
    shown.show("is searching 9 pages…")
    slack.wait_for_call(SET_STATUS)
    slack.fail_next(SET_STATUS, drop_connection=True)
    shown.show("is reading 2 sections…")
    slack.wait_for_call(SET_STATUS, count=2)
    shown.clear()
    executor.shutdown()
    assert statuses(slack)[-1] == ""
    assert reactions(slack) == []


def test_p06_who_has_to_wait_is_told_for_how_many(bot: Bot) -> None:
    questions = [f"question {number}?" for number in range(6)]  # two more than workers
    for question in questions:
        bot.answerer.held[question] = Event()
        bot.slack.send_event(bot.mention(question))
        bot.slack.wait_for_call(SET_STATUS, count=questions.index(question) + 1)
    assert statuses(bot.slack) == [
        *["is searching 1,942 pages…"] * 4,
        "is waiting: 4 questions before yours",
        "is waiting: 5 questions before yours",
    ]
    for until in bot.answerer.held.values():
        until.set()
    bot.settle()
    assert len(bot.slack.calls("chat.postMessage")) == 6


def test_an_answer_does_not_wait_for_its_status(bot: Bot) -> None:
    taken = Event()
    bot.slack.delay(SET_STATUS, taken)
    bot.answerer.held["how long?"] = Event()
    bot.slack.send_event(bot.mention("how long?"))
    bot.slack.wait_for_call(SET_STATUS)
    bot.answerer.held["how long?"].set()
    bot.slack.wait_for_call("chat.postMessage")
    taken.set()


def test_p06_of_sixty_questions_at_once_all_are_taken_and_those_that_wait_are_told(
    bot: Bot,
) -> None:
    until = Event()
    questions = [f"question {number}?" for number in range(60)]
    bot.answerer.held = dict.fromkeys(questions, until)
    envelopes = [bot.slack.send_event(bot.mention(question)) for question in questions]
    assert max(bot.slack.wait_for_ack(each).ack_seconds for each in envelopes) < 3
    bot.slack.wait_for_call(SET_STATUS, count=60)
    told = [each for each in statuses(bot.slack) if each.startswith("is waiting: ")]
    assert sorted(told, key=lambda each: int(each.split()[2])) == [
        f"is waiting: {ahead} questions before yours" for ahead in range(4, 60)
    ]
    until.set()
    bot.settle()
    texts = [call.params["text"] for call in bot.slack.calls("chat.postMessage")]
    assert sorted(texts) == sorted(f"You ask: {question}" for question in questions)
