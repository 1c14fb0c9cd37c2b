"""What Slack sends, and what comes of it."""

import logging
from datetime import date
from threading import Event
from typing import Any

import pytest

from app import feedback
from app.posting import FAILURE
from app.records import Answer, Citation, Turn
from retrieval.db import Database
from retrieval.errors import GenerationError
from tests.app.bot import Bot, connected, find_rows
from tests.stand_ins.slack import SlackStandIn


def posts(bot: Bot) -> list[dict[str, Any]]:
    return [dict(call.params) for call in bot.slack.calls("chat.postMessage")]


def cited_answer() -> Answer:
    citation = Citation(
        marker=1,
        section_id=1,
        path="failover.md",
        title="Failover",
        heading_path=("Failover", "Times"),
        url="https://wiki.example/failover#times",
        cited_text="It takes 30 s.",
        owner="Platform",
        updated_at=None,
        verified_at=date(2026, 3, 1),
    )
    return Answer(text="It takes **30 s** [1].", citations=(citation,))


def test_a_mention_is_answered_in_its_thread_with_sources(bot: Bot) -> None:
    bot.answerer.answers["how long?"] = cited_answer()
    bot.ask("how long?")
    (question, _) = bot.slack.messages("C1")
    (post,) = posts(bot)
    (trace,) = find_rows(bot.database, "traces")
    source = "<https://wiki.example/failover#times|Failover › Times>"
    line = f"[1] {source} · verified 2026-03-01 · Platform"
    assert post["thread_ts"] == question["ts"]  # P13
    types = [block["type"] for block in post["blocks"]]
    assert types == ["section", "context", "context_actions"]
    assert post["blocks"][0]["text"]["text"] == "It takes *30 s* [1]."
    assert post["blocks"][1]["elements"][0]["text"] == line
    assert post["text"] == f"It takes *30 s* [1].\n\n{line}"
    assert (post["unfurl_links"], post["unfurl_media"]) == (False, False)  # P38
    assert post["metadata"] == {
        "event_type": "footnote_answer",
        "event_payload": {"trace_id": str(trace.trace_id)},
    }


def test_a_question_leaves_a_trace_with_the_message_that_answers_it(bot: Bot) -> None:
    answer = bot.ask("is <#C2|help> for R&amp;D?", user_id="U7")
    (trace,) = find_rows(bot.database, "traces")
    assert trace.question == "is #help for R&D?"
    assert (trace.surface, trace.team_id, trace.channel_id) == ("slack", "T0001", "C1")
    assert (trace.user_id, trace.thread_ts) == ("U7", trace.message_ts)
    assert (trace.outcome, trace.answer_ts) == ("answered", [answer["ts"]])


def test_the_asker_sees_at_once_that_it_is_worked_on(bot: Bot) -> None:
    bot.answerer.held["how long?"] = Event()
    event = bot.mention("how long?")
    bot.slack.send_event(event)
    bot.answerer.wait_until_asked("how long?")
    (message,) = bot.slack.messages("C1")
    assert [reaction["name"] for reaction in message["reactions"]] == ["eyes"]
    bot.answerer.held["how long?"].set()
    bot.slack.wait_for_call("reactions.remove")
    assert bot.slack.messages("C1")[0]["reactions"] == []


def test_a_question_in_a_thread_comes_with_what_we_answered_there(bot: Bot) -> None:
    first = bot.ask("how many days?")
    root = first["thread_ts"]
    bot.slack.write("I think it's 25", channel_id="C1", thread_ts=root)
    second = bot.ask("and part-time?", thread_ts=root)
    assert second["thread_ts"] == root
    assert bot.answerer.asked.having()[-1] == (
        Turn(speaker="user", text="how many days?"),
        Turn(speaker="bot", text="You ask: how many days?"),
        Turn(speaker="user", text="and part-time?"),
    )


def test_a_direct_message_is_answered_in_a_thread_on_it(bot: Bot) -> None:
    message = bot.slack.write("how long?", channel_id="D1")
    bot.slack.send_event(message)
    (call,) = bot.slack.wait_for_call("chat.postMessage")
    assert (call.params["channel"], call.params["thread_ts"]) == ("D1", message["ts"])


def test_p02_what_is_first_seen_as_a_retry_is_answered_once(bot: Bot) -> None:
    event = bot.mention("how long?")
    retry = bot.slack.send_event(event, event_id="EvB7", retry_attempt=1)
    bot.slack.wait_for_call("chat.postMessage")
    bot.settle(retry, bot.slack.send_event(event, event_id="EvB7", retry_attempt=2))
    assert len(posts(bot)) == 1


@pytest.mark.parametrize("order", [("app_mention", "message"), ("message", "app_mention")])
def test_p04_a_mention_that_comes_as_two_events_is_answered_once(
    bot: Bot, order: tuple[str, str]
) -> None:
    message = bot.slack.write("<@U0BOT> how long?", channel_id="D1")
    bot.settle(*[bot.slack.send_event({**message, "type": kind}) for kind in order])
    assert len(posts(bot)) == 1
    assert len(find_rows(bot.database, "traces")) == 1


def test_a_delivery_after_a_restart_is_not_answered_again(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database) as before:
        before.ask("how long?")
        (question, _) = slack.messages("C1")
    with connected(slack, database) as after:
        event = {**question, "type": "app_mention", "channel": "C1"}
        after.settle(slack.send_event(event, retry_attempt=3))
    assert len(slack.calls("chat.postMessage")) == 1


IGNORED = {
    "P07 our own": {"bot_id": "B0BOT", "user": "U0BOT"},
    "P07 our own, without bot_id": {"user": "U0BOT"},
    "P07 another bot's": {"subtype": "bot_message", "bot_id": "B9", "text": "<@U0BOT> how long?"},
    "P10 an unfurled link": {
        "subtype": "message_changed",
        "hidden": True,
        "message": {"text": "how long?", "attachments": [{}]},
    },
    "P10 an edit": {"subtype": "message_changed", "message": {"text": "how far?"}},
    "P10 a deletion": {"subtype": "message_deleted", "deleted_ts": "1700000000.000001"},
    "a join": {"subtype": "channel_join"},
    "in a channel": {"channel": "C1", "channel_type": "channel"},
}


@pytest.mark.parametrize("more", IGNORED.values(), ids=IGNORED.keys())
def test_what_is_no_question_is_not_answered(
    bot: Bot, more: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    message = {**bot.slack.write("how long?", channel_id="D1"), **more}
    bot.settle(*[bot.slack.send_event(message) for _ in range(3)])
    assert (posts(bot), find_rows(bot.database, "traces")) == ([], [])
    assert not caplog.records


def test_a_deletion_while_the_answer_is_made_keeps_the_trace(bot: Bot) -> None:
    bot.answerer.held["how long?"] = Event()
    message = bot.slack.write("how long?", channel_id="D1")
    bot.slack.send_event(message)
    bot.answerer.wait_until_asked("how long?")
    deletion = {
        "type": "message",
        "subtype": "message_deleted",
        "hidden": True,
        "channel": "D1",
        "channel_type": "im",
        "deleted_ts": message["ts"],
        "ts": "1800000000.000001",
    }
    envelope_id = bot.slack.send_event(deletion)
    bot.answerer.held["how long?"].set()
    bot.settle(envelope_id)
    (trace,) = find_rows(bot.database, "traces")
    assert trace.outcome == "answered"


def test_a_bare_mention_gets_a_human_line_and_no_search(bot: Bot) -> None:
    answer = bot.ask("")
    assert answer["text"].startswith("Ask me a question")
    assert bot.answerer.asked.having() == ()


def test_a_question_is_not_blocked_by_another(bot: Bot) -> None:
    bot.answerer.held["slow?"] = Event()
    bot.slack.send_event(bot.mention("slow?"))
    bot.answerer.wait_until_asked("slow?")
    assert bot.ask("fast?")["text"] == "You ask: fast?"
    assert len(posts(bot)) == 1
    bot.answerer.held["slow?"].set()
    bot.slack.wait_for_call("chat.postMessage", count=2)


@pytest.mark.parametrize(
    "error",
    [GenerationError("Claude said nothing"), RuntimeError("how long? xoxb-stand-in")],
    ids=type,
)
def test_p15_a_failure_is_told_in_one_fixed_sentence(
    bot: Bot, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    bot.answerer.answers["how long?"] = error
    answer = bot.ask("how long?")
    (trace,) = find_rows(bot.database, "traces")
    assert answer["text"] == FAILURE.format(reference=trace.trace_id)
    assert (trace.outcome, trace.error_class) == ("failed", type(error).__name__)
    assert bot.slack.messages("C1")[0]["reactions"] == []
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert str(trace.trace_id) in record.getMessage()
    assert record.exc_info is not None and record.exc_info[1] is error
    assert "how long?" not in record.getMessage()


def test_a_question_that_cannot_be_claimed_gets_the_same_sentence(
    slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with connected(slack, unreachable) as bot:
        bot.slack.send_event(bot.mention("how long is the queue?"))
        (call,) = slack.wait_for_call("chat.postMessage")
        bot.settle()
    sentence, reference = FAILURE.split("{reference}")[0], call.params["text"][-36:]
    assert call.params["text"] == sentence + reference
    assert reference in caplog.text
    assert "how long is the queue?" not in caplog.text


def test_an_answer_needs_no_sign_that_it_is_worked_on(bot: Bot) -> None:
    bot.slack.fail_next("reactions.add", body={"ok": False, "error": "missing_scope"})
    assert bot.ask("how long?")["text"] == "You ask: how long?"


def test_what_nobody_listens_to_is_acknowledged_and_not_logged(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    bot.settle(bot.slack.send_event({"type": "channel_rename", "channel": {"name": "secret"}}))
    assert not caplog.records


def react(bot: Bot, answer: dict[str, Any], name: str, **more: Any) -> str:
    return bot.slack.send_event(
        {
            "type": "reaction_added",
            "user": "U1",
            "reaction": name,
            "item": {"type": "message", "channel": "C1", "ts": answer["ts"]},
            "event_ts": "1800000000.000001",
            **more,
        }
    )


def votes(bot: Bot) -> dict[str, int]:
    return {row.user_id: row.vote for row in find_rows(bot.database, "feedback")}


@pytest.mark.parametrize(
    ("name", "vote"),
    [
        ("-1", {"U1": -1}),
        ("thumbsdown", {"U1": -1}),
        ("-1::skin-tone-3", {"U1": -1}),
        ("thumbsdown::skin-tone-6", {"U1": -1}),
        ("+1", {"U1": 1}),
        ("thumbsup::skin-tone-2", {"U1": 1}),
        ("tada", {}),
    ],
)
def test_a_thumb_on_an_answer_is_a_vote(bot: Bot, name: str, vote: dict[str, int]) -> None:
    bot.settle(react(bot, bot.ask("how long?"), name))
    assert votes(bot) == vote


def test_a_vote_belongs_to_the_trace_of_the_answer(bot: Bot) -> None:
    bot.ask("how long?")
    bot.settle(react(bot, bot.ask("how far?"), "-1"))
    (row,) = find_rows(bot.database, "feedback")
    assert row.trace_id == find_rows(bot.database, "traces")[1].trace_id


def test_each_person_has_a_vote_of_their_own(bot: Bot) -> None:
    answer = bot.ask("how long?")
    bot.settle(react(bot, answer, "-1"), react(bot, answer, "+1", user="U2"))
    assert votes(bot) == {"U1": -1, "U2": 1}


def test_a_reaction_on_anything_else_is_no_vote(bot: Bot) -> None:
    answer = bot.ask("how long?")
    (question, _) = bot.slack.messages("C1")
    elsewhere = {"type": "message", "channel": "C2", "ts": answer["ts"]}
    bot.settle(
        react(bot, question, "-1"),
        react(bot, answer, "-1", item=elsewhere),
        react(bot, answer, "-1", item={"type": "file", "file": "F1"}),
    )
    assert votes(bot) == {}


@pytest.mark.parametrize(("removed", "left"), [("-1::skin-tone-3", {}), ("+1", {"U1": -1})])
def test_a_vote_is_taken_back_with_its_reaction(
    bot: Bot, removed: str, left: dict[str, int]
) -> None:
    answer = bot.ask("how long?")
    (trace,) = find_rows(bot.database, "traces")
    feedback.vote(bot.database, trace.trace_id, "U1", -1)
    bot.settle(react(bot, answer, removed, type="reaction_removed"))
    assert votes(bot) == left


def test_ragstats_is_seen_by_nobody_else(bot: Bot) -> None:
    bot.ask("how long?")
    envelope_id = bot.slack.send_slash_command("/ragstats", "", "U1", "C1")
    assert bot.slack.wait_for_ack(envelope_id).ack_seconds < 3
    (call,) = bot.slack.wait_for_call("response_url")
    assert call.params["response_type"] == "ephemeral"
    assert "Asked: 1\nAnswered: 1 (100%)" in call.params["text"]


def test_ragstats_tells_privately_that_it_failed(slack: SlackStandIn) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with connected(slack, unreachable) as bot:
        slack.send_slash_command("/ragstats", "", "U1", "C1")
        (call,) = bot.slack.wait_for_call("response_url")
    assert call.params["response_type"] == "ephemeral"
    assert call.params["text"].startswith(FAILURE.split("{")[0])
