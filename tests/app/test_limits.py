"""How many questions are answered an hour, by person and by channel."""

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app import claims, traces
from app.attempts import SMALL_TALK
from app.limits import Limits
from app.records import Arrival
from retrieval.db import Database
from tests.app.bot import Bot, connected, find_rows
from tests.app.plans import explain
from tests.stand_ins.slack import SlackStandIn


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    """One that answers two questions of a person, and four in a channel."""
    with connected(
        slack,
        database,
        channels={"C1": "questions"},
        questions_per_person=2,
        questions_per_channel=4,
    ) as bot:
        yield bot


def send(bot: Bot, sent: Mapping[str, Any]) -> None:
    bot.slack.wait_for_ack(bot.slack.send_event(sent))


def refuse(bot: Bot, question: str, *, told: int = 1, **more: Any) -> None:
    """Ask what is one too many, and wait until that was told so often."""
    send(bot, bot.mention(question, **more))
    bot.slack.wait_for_call("chat.postEphemeral", count=told)


def told(bot: Bot) -> list[Mapping[str, Any]]:
    return [call.params for call in bot.slack.calls("chat.postEphemeral")]


def outcomes(bot: Bot) -> list[tuple[str, str | None]]:
    return [(row.outcome, row.error_class) for row in find_rows(bot.database, "traces")]


def age(bot: Bot, minutes: int) -> None:
    with bot.database.unrestricted.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET asked_at = asked_at - make_interval(mins => :minutes)"),
            {"minutes": minutes},
        )


ANSWERED, REFUSED = ("answered", None), ("failed", "Limited")


def test_who_asks_too_much_is_told_once_and_alone_when_to_ask_again(bot: Bot) -> None:
    bot.ask("question 0?")
    bot.ask("question 1?")
    refuse(bot, "question 2?")
    last = bot.slack.send_event(bot.mention("question 3?"))
    bot.settle(last)
    assert outcomes(bot) == [ANSWERED, ANSWERED, REFUSED, REFUSED]
    (message,) = told(bot)
    assert (message["channel"], message["user"]) == ("C1", "U1")
    assert "answered 2 of your questions in the last hour" in message["text"]
    when = re.search(r"<!date\^(\d+)\^\{time\}\|\d\d:\d\d UTC>", message["text"])
    first = find_rows(bot.database, "traces")[0].asked_at
    assert when and int(when[1]) == round(first.timestamp() + 3600)
    assert [turns[-1].text for turns in bot.answerer.asked.having()] == [
        "question 0?",
        "question 1?",
    ]


def test_an_hour_later_all_is_answered(bot: Bot) -> None:
    for number in range(2):
        bot.ask(f"question {number}?")
    refuse(bot, "question 2?")
    age(bot, 61)
    bot.ask("question 3?")
    assert outcomes(bot)[-1] == ANSWERED


def test_another_person_is_answered_until_the_channel_is_full(bot: Bot) -> None:
    for number, user in enumerate(("U1", "U1", "U2", "U2")):
        bot.ask(f"question {number}?", user_id=user)
    refuse(bot, "question 4?", user_id="U3")
    bot.settle()
    assert outcomes(bot) == [ANSWERED] * 4 + [REFUSED]
    (message,) = told(bot)
    assert message["user"] == "U3"
    assert "answered 4 questions in this channel in the last hour" in message["text"]


def test_what_was_overheard_leaves_nothing(bot: Bot) -> None:
    bot.ask("question 0?")
    bot.ask("question 1?")
    overheard = bot.slack.write("what does err 2041 mean?", channel_id="C1")
    bot.settle(bot.slack.send_event({**overheard, "type": "message"}))
    assert outcomes(bot) == [ANSWERED, ANSWERED]
    assert told(bot) == []


def test_editing_a_question_counts_and_its_answer_stays_when_it_is_one_too_many(bot: Bot) -> None:
    first = bot.ask("question 0?")
    bot.ask("question 1?")
    root, *_ = bot.slack.messages("C1", first["thread_ts"])
    edited = bot.slack.edit({**root, "channel": "C1"}, "<@U0BOT> another one?")
    bot.settle(bot.slack.send_event(edited))
    assert outcomes(bot) == [ANSWERED, ANSWERED]
    assert [row.question for row in find_rows(bot.database, "traces")] == [
        "question 0?",
        "question 1?",
    ]
    assert len(told(bot)) == 1


def claim(database: Database, number: int, **more: Any) -> Any:
    values = {"team_id": "T1", "channel_id": "C1", "user_id": "U1", "thread_ts": f"{number}.0"}
    arrival = Arrival(
        question=f"{number}?", surface="slack", message_ts=f"{number}.0", **{**values, **more}
    )
    return arrival, claims.claim(database, arrival)


def refuses(database: Database, per_person: int, arrival: Arrival, trace_id: UUID) -> bool | None:
    """Whether a question is one too many; None where its asker was told so before."""
    limits = Limits(per_person=per_person, per_channel=1_000)
    with database.unrestricted.transaction() as connection:
        refusal = limits.find_refusal(connection, arrival, trace_id)
        if refusal is not None:
            claims.refuse(connection, trace_id, claims.LIMITED, None)
    return refusal is not None and (True if refusal.message else None)


def test_of_questions_that_come_at_once_the_first_ones_are_answered(database: Database) -> None:
    taken = [claim(database, number) for number in range(10)]
    refused = [refuses(database, 6, *each) for each in taken]
    assert refused == [False] * 6 + [True] + [None] * 3


def test_people_who_ask_at_once_are_counted_one_after_the_other(bot: Bot) -> None:
    at_once = Barrier(6)
    written = [bot.slack.write(f"{number}?", channel_id="C1")["ts"] for number in range(6)]

    def take(number: int) -> None:
        ts = written[number]
        arrival = Arrival(
            question=f"{number}?",
            surface="slack",
            team_id="T1",
            channel_id="C1",
            user_id="U1",
            message_ts=ts,
            thread_ts=ts,
        )
        at_once.wait(10)
        bot.jobs.take(arrival)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(take, range(6)))
    bot.settle()
    rows = find_rows(bot.database, "traces")
    assert sorted(str(row.error_class) for row in rows) == ["Limited"] * 4 + ["None"] * 2


def test_of_refusals_at_once_one_is_told(database: Database) -> None:
    _, *taken = [claim(database, number) for number in range(9)]
    at_once = Barrier(len(taken))

    def refuse_together(each: Any) -> bool | None:
        at_once.wait()
        return refuses(database, 1, *each)

    with ThreadPoolExecutor(len(taken)) as threads:
        told = list(threads.map(refuse_together, taken))
    assert sorted(told, key=str) == [None] * 7 + [True]


def test_greetings_and_other_tenants_do_not_count(database: Database) -> None:
    other = Database(database.engine.url.render_as_string(hide_password=False), tenant_id="other")
    for number in range(5):
        claim(other, number)
        _, trace_id = claim(database, number)
        settings = {"small_talk": "greeting"}
        answer = SMALL_TALK["greeting"]
        traces.save_answer(database, trace_id, answer, settings=settings, stage_ms={})
    assert not refuses(database, 1, *claim(database, 7))
    other.close()


OLDER = """
    INSERT INTO traces (tenant_id, surface, team_id, channel_id, message_ts, thread_ts, user_id,
                        question, asked_at)
    SELECT 'acme', 'slack', 'T1', 'C' || number % 40, 'old ' || number, '1.0', 'U' || number % 300,
           'how?', now() - make_interval(mins => number)
    FROM generate_series(1, 5000) AS number
"""


def test_counting_reads_indexes_alone_under_row_level_security(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text(OLDER))
        connection.execute(text("ANALYZE traces"))
    taken = claim(database, 1)

    def count() -> None:
        assert not refuses(database, 100, *taken)

    lines = explain(database.unrestricted, count)
    scans = {word for line in lines if "Index Scan" in line for word in line.split()}
    assert {"traces_asker", "traces_channel", "traces_pkey"} <= scans
    conditions = [line for line in lines if line.startswith("Index Cond:")]
    for column in ("user_id", "channel_id"):
        assert any(column in line and "asked_at > " in line for line in conditions)
    assert not any("Seq Scan on traces" in line for line in lines)
