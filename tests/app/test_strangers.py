"""People of other companies in shared channels: nothing comes of what they do, unless it is set."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from slack_bolt import BoltContext
from slack_bolt.authorization import AuthorizeResult

from app import abstaining, blocks, modals
from app.feedback import Complaint
from app.listeners import strangers
from app.records import Answer
from retrieval.db import Database
from tests.app.bot import Bot, Json, connected, find_rows
from tests.app.test_actions import (
    add_document,
    find_options,
    open_form,
    send,
    vote_against,
    votes,
)
from tests.app.test_escalation import ask_person
from tests.app.test_overhearing import FOLLOW_UP, Channel
from tests.stand_ins.slack import SlackStandIn

QUESTION = "how long is the queue?"
NOTHING = Answer(text="I couldn't find this.", abstained_because="BELOW_FLOOR")
STRANGER = "U7"


@pytest.fixture
def shared(slack: SlackStandIn) -> SlackStandIn:
    """Slack, where C1 is shared with the company of the stranger."""
    slack.workspace.channels["C1"] = {"is_ext_shared": True}
    slack.workspace.users[STRANGER] = {"team_id": "T0002"}
    return slack


@pytest.fixture
def bot(shared: SlackStandIn, database: Database) -> Iterator[Bot]:
    with connected(shared, database, {"*": "C9"}) as bot:
        yield bot


@pytest.fixture
def open_bot(
    shared: SlackStandIn, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bot]:
    """The bot where strangers are answered, too."""
    monkeypatch.setenv("ANSWER_STRANGERS", "true")
    with connected(shared, database, {"*": "C9"}) as bot:
        yield bot


def ask(bot: Bot) -> Json:
    """The message that says to a colleague that there is no answer."""
    bot.answerer.answers[QUESTION] = NOTHING
    return bot.ask(QUESTION)


def react(bot: Bot, message: Json, user_id: str) -> str:
    item = {"type": "message", "channel": "C1", "ts": message["ts"]}
    event = {"type": "reaction_added", "user": user_id, "reaction": "-1", "item": item}
    return bot.slack.send_event({**event, "event_ts": bot.slack.workspace.next_ts()})


def build_event(**event: Any) -> Json:
    return {"team_id": "T1", "event": event}


def build_button(team_id: str, enterprise_id: str | None = None) -> Json:
    return {
        "type": "block_actions",
        "user": {"id": "U1", "team_id": team_id},
        "team": {"id": team_id, "enterprise_id": enterprise_id},
    }


def build_context(enterprise_id: str | None) -> BoltContext:
    context = BoltContext()
    context.set_authorize_result(AuthorizeResult(enterprise_id=enterprise_id, team_id="T1"))
    return context


SHARED = {"is_ext_shared_channel": True}
OF_OURS = [
    build_event(type="message", team="T1"),
    build_event(type="message", team="T1") | SHARED,
    build_event(type="message", team="T1", user_team="E1", source_team="E1") | SHARED,
    build_event(type="message", team="T3"),  # another workspace of E1
    build_event(type="reaction_added", user="U1"),
    {"command": "/ragstats", "team_id": "T1"},
    {"command": "/ragstats", "team_id": "T3", "enterprise_id": "E1"},
    build_button("T1"),
    build_button("T3", "E1"),
    {"type": "block_actions", "user": {"id": "U1"}},
]
OF_STRANGERS = [
    build_event(type="message", team="T2") | SHARED,
    build_event(type="app_mention", team="T1", user_team="T2", source_team="T2") | SHARED,
    build_event(type="app_mention", team="T1", user_team="E2", source_team="E2") | SHARED,
    build_event(type="message", subtype="message_changed", message={"team": "T2"}) | SHARED,
    build_event(type="message", subtype="message_deleted", previous_message={"team": "T2"})
    | SHARED,
    build_event(type="reaction_added", user="U1") | SHARED,  # whoever that is
    {"command": "/ragstats", "team_id": "T2"},
    {"command": "/ragstats", "team_id": "T2", "enterprise_id": "E2"},
    build_button("T2"),
    build_button("T2", "E2"),
    {**build_button("T2"), "team": {"id": "T1", "enterprise_id": "E1"}},
]


@pytest.mark.parametrize("body", OF_OURS)
def test_who_is_of_our_workspace_or_organisation_is_no_stranger(body: Json) -> None:
    assert not strangers.is_stranger(body, build_context("E1"))


@pytest.mark.parametrize("body", OF_STRANGERS)
def test_who_is_of_neither_or_cannot_be_told_in_a_shared_channel_is(body: Json) -> None:
    assert strangers.is_stranger(body, build_context("E1"))
    assert strangers.is_stranger(body, build_context(None))


def test_without_an_organisation_another_workspace_is_another_company() -> None:
    assert strangers.is_stranger(build_event(type="message", team="T3"), build_context(None))


def test_a_colleague_in_a_shared_channel_is_answered(bot: Bot) -> None:
    assert bot.ask(QUESTION)["text"] == f"You ask: {QUESTION}"


def test_a_mention_by_a_stranger_is_declined_to_them_alone(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    root = bot.slack.write("lunch?", channel_id="C1")
    event = bot.mention(QUESTION, user_id=STRANGER, thread_ts=root["ts"])
    bot.settle(bot.slack.send_event(event), bot.slack.send_event({**event, "type": "message"}))
    (told,) = bot.slack.calls("chat.postEphemeral")
    assert (told.params["user"], told.params["text"]) == (STRANGER, strangers.DECLINED)
    assert (told.params["channel"], told.params["thread_ts"]) == ("C1", root["ts"])
    assert bot.slack.calls("chat.postMessage") == bot.slack.calls("reactions.add") == ()
    assert (find_rows(bot.database, "traces"), bot.answerer.asked.having()) == ([], ())
    assert f"app_mention of {STRANGER} in C1" in caplog.text and "the queue" not in caplog.text


def test_a_stranger_who_cannot_be_told_is_still_not_told_in_public(bot: Bot) -> None:
    bot.slack.fail_next("chat.postEphemeral", body={"ok": False, "error": "user_not_in_channel"})
    bot.settle(bot.slack.send_event(bot.mention(QUESTION, user_id=STRANGER)))
    assert bot.slack.calls("chat.postMessage") == bot.slack.calls("response_url") == ()


def test_what_a_stranger_does_is_acknowledged_and_has_no_effect(bot: Bot) -> None:
    message = ask(bot)
    view = modals.build_complaint_view(
        find_rows(bot.database, "traces")[0].trace_id, Complaint(), None
    )
    slack = bot.slack
    posts = slack.calls("chat.postMessage")
    add_document(bot.database, "Queues", "ops/queues.md")
    assert find_options(bot, view, "queues", STRANGER) == {}
    assert send(bot, view, STRANGER, note="x") is None
    envelope_ids = [
        react(bot, message, STRANGER),
        react(bot, message, "U1"),  # Slack does not say that this one is a colleague's
        vote_against(bot, message, STRANGER),
        ask_person(bot, message, STRANGER),
        slack.send_message_shortcut(
            "ask_footnote", slack.write("q", channel_id="C1"), user_id=STRANGER, channel_id="C1"
        ),
        slack.send_slash_command("/ragstats", "", STRANGER, "C1"),
    ]
    bot.settle(*envelope_ids)
    assert max(ack.ack_seconds for ack in slack.acks()) < 3
    assert (votes(bot), find_rows(bot.database, "escalations")) == ({}, [])
    assert slack.calls("chat.postMessage") == posts and len(bot.answerer.asked.having()) == 1
    for method in ("chat.postEphemeral", "response_url", "views.open"):
        assert slack.calls(method) == ()


@pytest.mark.parametrize("is_mention", [False, True], ids=["writes", "mentions us"])
def test_a_stranger_in_a_thread_is_spoken_to_as_a_colleague_is(
    shared: SlackStandIn, database: Database, is_mention: bool
) -> None:
    channel = Channel(shared, database)
    root = channel.ask()
    text = "<@U0BOT> and for us?" if is_mention else "our lawyers say 20. Do you agree?"
    said = shared.write(text, channel_id="C1", thread_ts=root, user_id=STRANGER)
    channel.hear(said, *([{**said, "type": "app_mention"}] if is_mention else []))
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible == before
    assert len(find_rows(database, "traces")) == 1


def test_a_stranger_is_told_nothing_of_a_database_that_is_gone(
    shared: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    channel = Channel(shared, gone, is_working=False)
    said = shared.write(f"<@U0BOT> {QUESTION}", channel_id="C1", user_id=STRANGER)
    channel.hear(said, {**said, "type": "app_mention"})
    channel.say(QUESTION, thread_ts=said["ts"], user_id=STRANGER)
    (told,) = shared.calls("chat.postEphemeral")
    assert told.params["text"] == strangers.DECLINED
    assert not shared.calls("chat.postMessage")
    assert "Could not see" in caplog.text and "the queue" not in caplog.text


def test_a_question_of_a_stranger_to_the_whole_channel_is_not_taken(
    shared: SlackStandIn, database: Database
) -> None:
    bot = Channel(shared, database, "questions").say(QUESTION, user_id=STRANGER)
    assert (find_rows(database, "traces"), bot.answerer.asked.having()) == ([], ())


def test_a_colleague_there_votes_by_button_and_says_more(bot: Bot) -> None:
    view = open_form(bot, ask(bot))
    assert send(bot, view, note="2 h") is None
    assert find_rows(bot.database, "feedback")[0].note == "2 h"


def test_a_stranger_who_is_answered_votes_but_gets_no_form_and_no_titles(open_bot: Bot) -> None:
    bot = open_bot
    bot.answerer.answers[QUESTION] = NOTHING
    message = bot.ask(QUESTION, user_id=STRANGER)
    assert message["text"] == f"{NOTHING.text} {abstaining.AMONG_COMPANIES}"
    trace_id = find_rows(bot.database, "traces")[0].trace_id
    view = modals.build_complaint_view(trace_id, Complaint(), None)
    add_document(bot.database, "Queues", "ops/queues.md")
    assert find_options(bot, view, "queues", STRANGER) == {}
    assert set(find_options(bot, view, "queues")) != set()
    bot.settle(vote_against(bot, message, STRANGER), react(bot, message, "U8"))
    assert votes(bot) == {STRANGER: -1, "U8": -1}
    assert bot.slack.calls("views.open") == ()
    shown = [call.params["blocks"] for call in bot.slack.calls("chat.postEphemeral")]
    assert blocks.SAY_MORE not in str(shown)
