"""What Slack sends, and what comes of it."""

import logging
from datetime import date
from threading import Event
from typing import Any

import pytest

from app import conversations, feedback
from app.config import Settings
from app.posting import FAILURE
from app.records import Answer, Citation, Turn
from app.stats import Scope, Viewer, load_stats
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
    assert post["metadata"]["event_type"] == "footnote_answer"
    assert post["metadata"]["event_payload"]["trace_id"] == str(trace.trace_id)


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
    (shown,) = bot.slack.wait_for_call("assistant.threads.setStatus")
    assert shown.params == {
        "channel_id": "C1",
        "thread_ts": event["ts"],  # P13
        "status": "is searching 1,942 pages…",
    }
    bot.answerer.held["how long?"].set()
    _, cleared = bot.slack.wait_for_call("assistant.threads.setStatus", count=2)
    assert cleared.params == {**shown.params, "status": ""}
    assert not bot.slack.calls("reactions.add")


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


def direct(bot: Bot, question: str) -> dict[str, Any]:
    """Write to the bot directly; the message."""
    message = bot.slack.write(question, channel_id="D1")
    bot.slack.send_event(message)
    return message


def answered(bot: Bot, question: str) -> dict[str, Any]:
    """As direct, but once it is answered."""
    before = len(bot.ended.having())
    message = direct(bot, question)
    bot.ended.wait_for(count=before + 1)
    return message


def happened(bot: Bot, event: dict[str, Any]) -> None:
    """Send an event; return when it has been taken note of. Nothing more can be sent then."""
    bot.slack.wait_for_ack(bot.slack.send_event(event))
    bot.app.listener_runner.listener_executor.shutdown()


def edited(bot: Bot, message: dict[str, Any], text: str, **more: Any) -> None:
    """Have a question edited; return once it is answered anew."""
    before = len(bot.ended.having())
    bot.slack.send_event(bot.slack.edit(message, text, **more))
    bot.ended.wait_for(count=before + 1)


def direct_texts(bot: Bot) -> list[str]:
    return [message["text"] for message in bot.slack.messages("D1")]


@pytest.mark.parametrize("end", [Answer(text="30 s"), RuntimeError("broken")], ids=type)
def test_p10_into_a_question_deleted_meanwhile_nothing_is_posted(
    bot: Bot, end: Answer | Exception
) -> None:
    bot.answerer.held["how long?"] = Event()
    bot.answerer.answers["how long?"] = end
    message = direct(bot, "how long?")
    bot.answerer.wait_until_asked("how long?")
    happened(bot, bot.slack.delete(message))
    bot.ended.wait_for()  # by who has taken it back
    bot.answerer.held["how long?"].set()
    bot.settle()
    assert (posts(bot), bot.slack.messages("D1")) == ([], [])
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.question) == ("stopped", "how long?")


def test_p10_the_answer_to_a_deleted_question_goes(bot: Bot) -> None:
    long = "\n\n".join(["word " * 500] * 6)  # in two messages
    bot.answerer.answers["how long?"] = Answer(text=long)
    message = answered(bot, "how long?")
    assert len(bot.slack.messages("D1")) == 3
    deletion = bot.slack.delete(message)
    assert deletion["message"]["subtype"] == "tombstone"  # it had replies
    bot.settle(bot.slack.send_event(deletion), bot.slack.send_event(deletion, retry_attempt=1))
    assert direct_texts(bot) == ["This message was deleted."]
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.question, trace.answer) == ("answered", "how long?", long)
    assert trace.answer_ts == []


def test_a_deletion_of_anything_else_deletes_nothing(bot: Bot) -> None:
    message = answered(bot, "how long?")
    other = bot.slack.write("lunch?", channel_id="D1")
    (*_, answer) = bot.slack.messages("D1", message["ts"])
    happened(bot, bot.slack.delete(other))
    bot.settle()
    assert not bot.slack.calls("chat.delete")
    assert answer in bot.slack.messages("D1")


def test_what_was_deleted_is_no_part_of_the_conversation(bot: Bot) -> None:
    message = answered(bot, "how many days?")
    bot.slack.send_event(bot.slack.delete(message))
    bot.slack.wait_for_call("chat.delete")
    follow_up = bot.slack.write("and part-time?", channel_id="D1", thread_ts=message["ts"])
    bot.slack.send_event(follow_up)
    bot.answerer.wait_until_asked("and part-time?")
    assert bot.answerer.asked.having()[-1] == (Turn(speaker="user", text="and part-time?"),)


def test_p10_an_edited_question_is_answered_anew_in_the_same_place(bot: Bot) -> None:
    bot.answerer.answers["how far?"] = cited_answer()
    message = answered(bot, "how long?")
    (_, old) = bot.slack.messages("D1")
    (trace,) = find_rows(bot.database, "traces")
    feedback.vote(bot.database, trace.trace_id, "U1", -1)
    edited(bot, message, "how far?")
    (_, new) = bot.slack.messages("D1")
    assert (old["text"], new["ts"]) == ("You ask: how long?", old["ts"])
    (call,) = bot.slack.calls("chat.update")
    assert len(call.params["text"]) < 4000  # P25
    assert [block["type"] for block in call.params["blocks"]] == [
        *("section", "context", "context_actions")
    ]
    assert (call.params["parse"], call.params["link_names"]) == ("none", False)
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.question, trace.outcome) == ("how far?", "answered")
    assert trace.answer_ts == [old["ts"]]
    before = trace.settings["before"]
    assert (before["question"], before["answer"]) == ("how long?", "You ask: how long?")
    assert [(vote["user_id"], vote["vote"]) for vote in before["votes"]] == [("U1", -1)]
    assert find_rows(bot.database, "feedback") == []  # nobody has voted on the new answer


def test_an_edit_that_comes_before_its_question_is_taken_for_it(bot: Bot) -> None:
    message = bot.slack.write("how long?", channel_id="D1")
    before = bot.slack.edit(message, "how high?")  # comes later still
    edited(bot, message, "how far?")
    bot.slack.wait_for_ack(bot.slack.send_event(before))
    happened(bot, message)
    bot.settle()
    assert direct_texts(bot) == ["how far?", "You ask: how far?"]


def test_a_question_that_comes_after_its_deletion_is_not_answered(bot: Bot) -> None:
    message = bot.slack.write("how long?", channel_id="D1")
    bot.slack.send_event(bot.slack.delete(message))
    bot.ended.wait_for()
    happened(bot, message)
    bot.settle()
    assert posts(bot) == [] and bot.answerer.asked.having() == ()
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.question) == ("stopped", "")  # what is gone is not kept


def test_p25_an_answer_that_grows_or_shrinks_is_changed_message_by_message(bot: Bot) -> None:
    long = Answer(text="\n\n".join(["word " * 500] * 6))
    bot.answerer.answers |= {"long?": long, "longer?": long}
    first, second = answered(bot, "long?"), answered(bot, "short?")
    edited(bot, first, "shorter?")
    edited(bot, second, "longer?")
    assert len(bot.slack.messages("D1", first["ts"])) == 2
    assert len(bot.slack.messages("D1", second["ts"])) == 3
    for trace in find_rows(bot.database, "traces"):
        (_, *messages) = bot.slack.messages("D1", trace.thread_ts)
        assert trace.answer_ts == [message["ts"] for message in messages]
    assert all(len(call.params["text"]) < 4000 for call in bot.slack.calls("chat.update"))


@pytest.mark.parametrize("fails_again", [False, True])
def test_an_edit_after_a_failure_takes_its_place(bot: Bot, fails_again: bool) -> None:
    bot.answerer.answers["how long?"] = RuntimeError("broken")
    if fails_again:
        bot.answerer.answers["how far?"] = RuntimeError("broken")
    message = answered(bot, "how long?")
    edited(bot, message, "how far?")
    _, answer = direct_texts(bot)
    (trace,) = find_rows(bot.database, "traces")
    failure = FAILURE.format(reference=trace.trace_id)
    assert answer == (failure if fails_again else "You ask: how far?")


def test_an_edit_counts_once_and_for_ten_minutes(bot: Bot) -> None:
    late = answered(bot, "how late?")
    message = answered(bot, "how long?")
    edited(bot, message, "how far?", after_s=599)
    again = bot.slack.edit(message, "how high?", after_s=600)
    bot.settle(
        bot.slack.send_event(again),
        bot.slack.send_event(bot.slack.edit(late, "how soon?", after_s=601)),
    )
    questions = [trace.question for trace in find_rows(bot.database, "traces")]
    assert questions == ["how late?", "how far?"]
    assert len(bot.answerer.asked.having()) == 3


def test_p10_a_preview_that_slack_adds_changes_nothing(bot: Bot) -> None:
    message = answered(bot, "how long? <https://wiki.example>")
    once_edited = bot.slack.edit(message, "how far? <https://wiki.example>")
    bot.slack.send_event(once_edited)
    bot.slack.wait_for_call("chat.update")
    bot.settle(bot.slack.send_event(bot.slack.unfurl(message)))
    assert len(bot.answerer.asked.having()) == 2
    assert len(bot.slack.calls("chat.update")) == 1


def test_an_edit_while_the_answer_is_made_is_answered_alone(bot: Bot) -> None:
    bot.answerer.held["how long?"] = Event()
    message = direct(bot, "how long?")
    bot.answerer.wait_until_asked("how long?")
    happened(bot, bot.slack.edit(message, "how far?"))
    bot.answerer.held["how long?"].set()
    bot.settle()
    assert direct_texts(bot) == ["how far?", "You ask: how far?"]
    assert len(posts(bot)) == 1 and not bot.slack.calls("chat.update")
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.answer) == ("answered", "You ask: how far?")


def test_an_edit_while_the_answer_is_posted_replaces_it(bot: Bot) -> None:
    arrived = Event()
    bot.slack.delay("chat.postMessage", arrived)
    message = direct(bot, "how long?")
    bot.slack.wait_for_call("chat.postMessage")
    happened(bot, bot.slack.edit(message, "how far?"))
    arrived.set()
    bot.settle()
    assert direct_texts(bot) == ["how far?", "You ask: how far?"]


def test_a_deletion_while_the_answer_is_posted_takes_it_back(bot: Bot) -> None:
    arrived = Event()
    bot.slack.delay("chat.postMessage", arrived)
    message = direct(bot, "how long?")
    bot.slack.wait_for_call("chat.postMessage")
    happened(bot, bot.slack.delete(message))
    arrived.set()
    bot.settle()
    assert direct_texts(bot) == ["This message was deleted."]


def test_where_the_old_answer_is_gone_the_new_one_is_posted(bot: Bot) -> None:
    message = answered(bot, "how long?")
    bot.slack.fail_next("chat.update", body={"ok": False, "error": "message_not_found"})
    edited(bot, message, "how far?")
    (trace,) = find_rows(bot.database, "traces")
    (*_, answer) = bot.slack.messages("D1")
    assert (answer["text"], trace.answer_ts) == ("You ask: how far?", [answer["ts"]])


def test_an_edit_is_answered_from_what_was_said_before_it(bot: Bot) -> None:
    message = answered(bot, "how many days?")
    bot.slack.send_event(
        bot.slack.write("and part-time?", channel_id="D1", thread_ts=message["ts"])
    )
    bot.slack.wait_for_call("chat.postMessage", count=2)
    bot.ended.wait_for(count=2)
    edited(bot, message, "how many days of leave?")
    assert bot.answerer.asked.having()[-1] == (
        Turn(speaker="user", text="how many days of leave?"),
    )


def test_in_a_channel_only_an_edit_that_still_mentions_us_is_answered(bot: Bot) -> None:
    bot.ask("how long?")
    question = {**bot.slack.messages("C1")[0], "channel": "C1"}
    bot.settle(bot.slack.send_event(bot.slack.edit(question, "forget it")))
    assert len(bot.answerer.asked.having()) == 1


def test_an_edit_that_cannot_be_looked_up_even_at_last_is_not_told(
    slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with connected(slack, unreachable, is_working=False) as bot:
        message = slack.write("how long is the queue?", channel_id="D1")
        edited = slack.edit(message, "how far is it?")
        bot.settle(slack.send_event(edited, retry_attempt=3))
    assert not slack.calls("chat.postMessage")
    assert "how far is it?" not in caplog.text
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    ("said", "kind", "line"),
    [
        ("", "nothing", "Ask me a question and "),
        ("hi", "greeting", "Hi! Ask me a question"),
        ("cheers, that helped", "thanks", "You're welcome!"),
    ],
)
def test_small_talk_gets_a_human_line_and_no_search(
    bot: Bot, said: str, kind: str, line: str
) -> None:
    answer = bot.ask(said)
    assert answer["text"].startswith(line)
    assert [block["type"] for block in answer["blocks"]] == ["section"]  # no buttons to vote
    assert bot.answerer.asked.having() == ()
    assert not bot.slack.calls("assistant.threads.setStatus")
    (trace,) = find_rows(bot.database, "traces")
    assert (trace.outcome, trace.settings) == ("answered", {"small_talk": kind})
    assert (trace.candidates, trace.queries) == ([], [])
    viewer = Viewer(user_id="U1")
    counts = load_stats(bot.database, Scope(), viewer=viewer, settings=Settings()).counts
    assert (counts.asked, counts.answered, counts.abstained) == (0, 0, 0)
    assert conversations.find_own(bot.database, "T0001", "U1") == []


def test_thanks_are_no_part_of_the_conversation(bot: Bot) -> None:
    root = bot.ask("how many days?")["thread_ts"]
    bot.ask("thanks!", thread_ts=root)
    bot.ask("and part-time?", thread_ts=root)
    assert [turn.text for turn in bot.answerer.asked.having()[-1]] == [
        "how many days?",
        "You ask: how many days?",
        "and part-time?",
    ]


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
    assert "reactions" not in bot.slack.messages("C1")[0]
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert str(trace.trace_id) in record.getMessage()
    assert record.exc_info is not None and record.exc_info[1] is error
    assert "how long?" not in record.getMessage()


def test_a_question_that_cannot_be_claimed_even_at_last_gets_the_same_sentence(
    slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with connected(slack, unreachable, is_working=False) as bot:
        bot.slack.send_event(bot.mention("how long is the queue?"), retry_attempt=3)
        (call,) = slack.wait_for_call("chat.postMessage")
        bot.settle()
    sentence, reference = FAILURE.split("{reference}")[0], call.params["text"][-36:]
    assert call.params["text"] == sentence + reference
    assert reference in caplog.text
    assert "how long is the queue?" not in caplog.text


def test_an_answer_needs_no_sign_that_it_is_worked_on(bot: Bot) -> None:
    bot.slack.fail_next("assistant.threads.setStatus", drop_connection=True)
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
    rows = find_rows(bot.database, "feedback")
    return {row.user_id: row.vote for row in rows if row.vote}


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
    with connected(slack, unreachable, is_working=False) as bot:
        slack.send_slash_command("/ragstats", "", "U1", "C1")
        (call,) = bot.slack.wait_for_call("response_url")
    assert call.params["response_type"] == "ephemeral"
    assert call.params["text"].startswith(FAILURE.split("{")[0])
