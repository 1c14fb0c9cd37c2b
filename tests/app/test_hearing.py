"""Socket Mode: that Slack is heard, whatever becomes of a connection."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

import pytest
from slack_bolt import Ack

from app.hearing import Deaf, Hearing, Patience
from retrieval.db import Database
from tests.app.bot import Bot, find_rows
from tests.stand_ins.slack import SlackStandIn

# As in production, a hundred times as fast.
PATIENCE = Patience(
    ping_s=0.1, greeting_s=0.3, least_retry_s=0.05, most_retry_s=0.2, replaced_s=0.2, deaf_s=1.8
)


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    bot = Bot(slack, database)
    yield bot
    bot.settle()


@contextmanager
def hearing(
    bot: Bot, patience: Patience = PATIENCE, gave_up: Event | None = None
) -> Iterator[Hearing]:
    ear = Hearing(bot.app, bot.slack.app_token, (gave_up or Event()).set, patience)
    try:
        ear.open()
        yield ear
    finally:
        ear.close()


def wait_until_well(ear: Hearing, is_well: bool = True) -> None:
    """Return once it is; AssertionError after 10 s."""
    until = time.monotonic() + 10
    while ear.look().is_ok != is_well:
        assert time.monotonic() < until, ear.look()
        time.sleep(0.01)


def posts(slack: SlackStandIn) -> list[str]:
    return [call.params["text"] for call in slack.calls("chat.postMessage")]


def test_a_question_is_heard_and_acknowledged(slack: SlackStandIn, bot: Bot) -> None:
    with hearing(bot) as ear:
        assert ear.look().is_ok
        slack.wait_for_ack(slack.send_event(bot.mention("how long?")))
        slack.wait_for_call("chat.postMessage")
    assert not ear.look().is_ok


# slack_sdk 3.48 leaves the socket of a handshake that is refused to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("form", ["dropped", "mute", "dropped and refused", "mute for long"])
def test_p17_a_connection_that_is_dead_is_replaced_and_red_until_then(
    slack: SlackStandIn, bot: Bot, form: str
) -> None:
    and_new_ones = form in ("dropped and refused", "mute for long")
    with hearing(bot) as ear:
        if form.startswith("dropped"):
            slack.drop_connections(and_new_ones=and_new_ones)
        else:
            slack.mute_connections(and_new_ones=and_new_ones)
        slack.send_event(bot.mention("how long?"))  # kept by Slack
        if and_new_ones:
            wait_until_well(ear, False)
            slack.wait_for_call("apps.connections.open", count=3)
            slack.hear_connections()
        slack.wait_for_call("chat.postMessage")
        wait_until_well(ear)
    assert posts(slack) == ["You ask: how long?"]


def test_p17_a_connection_that_is_cut_is_replaced_at_once(slack: SlackStandIn, bot: Bot) -> None:
    patience = Patience()
    with hearing(bot, patience) as ear:
        began = time.monotonic()
        slack.drop_connections()
        wait_until_well(ear, False)
        slack.send_event(bot.mention("how long?"))
        slack.wait_for_call("chat.postMessage")
        assert time.monotonic() - began < patience.ping_s  # let alone four
        assert ear.look().is_ok


def test_p17_a_connection_that_answers_pings_and_brings_nothing_is_replaced(
    slack: SlackStandIn, bot: Bot
) -> None:
    patience = Patience(ping_s=0.1, quiet_s=0.5, replaced_s=0.1)
    with hearing(bot, patience) as ear:
        slack.forget_connections()
        slack.send_event(bot.mention("how long?"))
        assert ear.look().is_ok
        slack.wait_for_call("chat.postMessage")
        assert ear.look().is_ok
    assert posts(slack) == ["You ask: how long?"]


@pytest.mark.parametrize("fault", ["refused", "unreachable", "broken"])
def test_a_connection_that_cannot_be_replaced_at_once_is_replaced_later(
    slack: SlackStandIn, bot: Bot, fault: str
) -> None:
    with hearing(bot):
        how = {
            "refused": {"body": {"ok": False, "error": "too_many_websockets"}},
            "unreachable": {"drop_connection": True},
            "broken": {"status": 503},
        }[fault]
        slack.fail_next("apps.connections.open", times=3, **how)  # type: ignore[arg-type]
        slack.close_connections()
        slack.send_event(bot.mention("how long?"))
        slack.wait_for_call("chat.postMessage")
    assert len(slack.calls("apps.connections.open")) == 5  # the first, three in vain, the last


def test_why_slack_is_not_heard_is_told(slack: SlackStandIn, bot: Bot) -> None:
    with hearing(bot) as ear:
        slack.fail_next(
            "apps.connections.open", body={"ok": False, "error": "token_revoked"}, times=100
        )
        slack.close_connections()
        slack.wait_for_call("apps.connections.open", count=3)
        check = ear.look()
        assert (check.is_ok, check.is_live) == (False, True)
        assert check.text.startswith("No connection is open. The last sign of life came 0 s ago.")
        assert check.text.endswith(" No new connection is to be had: token_revoked.")


def test_p17_it_gives_up_where_slack_lets_us_connect_and_is_not_heard(
    slack: SlackStandIn, bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    gave_up = Event()
    with pytest.raises(Deaf, match=r"Slack was not heard for 2 s, although it lets us connect\."):
        with hearing(bot, gave_up=gave_up) as ear:
            slack.mute_connections(and_new_ones=True)
            assert gave_up.wait(10)
            assert not ear.look().is_live
    assert [each.levelname for each in caplog.records if "not heard for" in each.message] == [
        "CRITICAL"
    ]


def test_while_slack_is_out_of_reach_it_gives_up_much_later(slack: SlackStandIn, bot: Bot) -> None:
    gave_up = Event()
    patience = Patience(ping_s=0.1, least_retry_s=0.05, most_retry_s=0.1, deaf_s=0.5, away_s=1.5)
    with pytest.raises(Deaf, match="nor is it in reach"):
        with hearing(bot, patience, gave_up) as ear:
            began = time.monotonic()
            slack.fail_next("apps.connections.open", drop_connection=True, times=1_000)
            slack.drop_connections()
            wait_until_well(ear, False)
            assert ear.look().is_live
            assert gave_up.wait(10)
            assert time.monotonic() - began > 1.4


def test_it_gives_up_where_nothing_that_comes_is_worked_on(slack: SlackStandIn, bot: Bot) -> None:
    gave_up, held = Event(), Event()

    def hang(command: dict[str, str], ack: Ack) -> None:
        assert held.wait(20)
        ack()

    bot.app.command("/hang", middleware=[hang])(hang)
    patience = Patience(ping_s=0.1, deaf_s=0.8)
    with pytest.raises(Deaf, match="has not been worked on for 1 s"):
        with hearing(bot, patience, gave_up) as ear:
            slack.send_slash_command("/hang", "", "U1", "C1")
            wait_until_well(ear, False)
            assert "is not worked on yet" in ear.look().text
            assert gave_up.wait(10)
            held.set()


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
def test_a_new_connection_is_open_before_the_old_one_closes(
    slack: SlackStandIn, bot: Bot, reason: str
) -> None:
    with hearing(bot):
        slack.refresh_connections(reason=reason)
        slack.wait_for_ack(slack.send_event(bot.mention("how long?")))
        slack.wait_for_connections(1)
    bot.settle()
    assert posts(slack) == ["You ask: how long?"]


def test_an_old_connection_is_heard_while_there_is_no_new_one(
    slack: SlackStandIn, bot: Bot
) -> None:
    until = Event()
    with hearing(bot):
        slack.delay("apps.connections.open", until)
        slack.warn_connections()
        slack.wait_for_call("apps.connections.open", count=2)
        ack = slack.wait_for_ack(slack.send_event(bot.mention("how long?")))
        assert ack.ack_seconds < 3
        until.set()
        slack.wait_for_connections(2)
        slack.wait_for_connections(1)  # the old one is closed
        slack.wait_for_ack(slack.send_event(bot.mention("and then?")))
    bot.settle()
    assert len(find_rows(bot.database, "traces")) == 2


def test_replaced_connections_leave_no_threads(slack: SlackStandIn, bot: Bot) -> None:
    with hearing(bot):
        slack.refresh_connections()
        slack.wait_for_connections(1)
        before = set(threading.enumerate())
        for _ in range(5):
            slack.refresh_connections()
    ours = [
        each
        for each in set(threading.enumerate()) - before
        if each.name.startswith(("replaced", "hearing"))
    ]
    for thread in ours:
        thread.join(10)
        assert not thread.is_alive()
    until = time.monotonic() + 10
    while len(threading.enumerate()) > len(before):
        assert time.monotonic() < until, threading.enumerate()
        time.sleep(0.01)


def test_what_has_come_is_acknowledged_before_it_closes(slack: SlackStandIn, bot: Bot) -> None:
    questions = [f"question {number}?" for number in range(40)]
    with hearing(bot):
        envelopes = [slack.send_event(bot.mention(question)) for question in questions]
        slack.wait_for_ack(envelopes[0])
    slack.wait_for_connections(0)  # all that was said on it is read
    unacknowledged = slack.find_unacknowledged()
    bot.settle()
    # Nothing is taken and not acknowledged: Slack would send it elsewhere, too.
    assert len(find_rows(bot.database, "traces")) == len(envelopes) - len(unacknowledged)


def test_p05_while_two_on_one_token_are_replaced_each_question_is_acknowledged_and_answered_once(
    slack: SlackStandIn, database: Database
) -> None:
    bots = [Bot(slack, database) for _ in range(4)]
    events = [bots[0].mention(f"question {number}?") for number in range(200)]
    sent: list[str] = []

    def send() -> None:
        until = time.monotonic() + 20
        for event in events:
            # So that some come at each moment.
            while len(slack.acks()) < len(sent) - 30 and time.monotonic() < until:
                time.sleep(0.005)
            sent.append(slack.send_event(event))

    with ExitStack() as stack:
        old = [stack.enter_context(ExitStack()) for _ in range(2)]
        for each, bot in zip(old, bots[:2], strict=True):
            each.enter_context(hearing(bot))
        sending = threading.Thread(target=send)
        sending.start()
        for number, (each, new) in enumerate(zip(old, bots[2:], strict=True)):
            stack.enter_context(hearing(new))
            each.close()
            bots[number].app.listener_runner.listener_executor.shutdown()
            bots[number].close(timeout_s=30)  # what it leaves, another one answers
        sending.join()
        slack.wait_for_connections(2)
        first = {key for key in sent if key not in slack.find_unacknowledged()}
        for key in set(sent) - first:  # what was on its way to who had left
            slack.wait_for_ack(slack.send_again(key))
        for bot in bots[2:]:
            bot.settle()
    acks = slack.acks()
    print(f"{len(first)} of {len(sent)} at once, at most {max(a.ack_seconds for a in acks):.2f} s")
    assert max(ack.ack_seconds for ack in acks) < 3
    assert sorted(posts(slack)) == sorted(f"You ask: question {n}?" for n in range(200))
