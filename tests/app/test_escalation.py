"""Questions that are passed on to people, from the button to its end."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from sqlalchemy import text

from app import blocks, claims, escalation, traces
from app.escalation import Expert
from app.listeners.escalation import PERHAPS_ASKED
from app.records import Answer, Arrival
from retrieval.db import Database
from tests.app.bot import Bot, Json, connected, find_rows
from tests.app.test_blocks import PINGING
from tests.stand_ins.slack import SlackStandIn

QUESTION = "how long is the queue?"
NOTHING = Answer(text="I couldn't find this.", abstained_because="BELOW_FLOOR")


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    with connected(slack, database, {"*": "C9"}) as bot:
        yield bot


def ask(bot: Bot, question: str = QUESTION, **more: Any) -> Json:
    """The message that says that there is no answer."""
    bot.answerer.answers[question] = NOTHING
    return bot.ask(question, **more)


def deliver(bot: Bot, event: Json) -> None:
    """Send a question and wait for the end of the work on it."""
    before = len(bot.ended.having())
    bot.slack.send_event(event)
    bot.ended.wait_for(count=before + 1)


def find_button(message: Json, action_id: str) -> Json | None:
    buttons = [
        element
        for block in message["blocks"]
        for element in block.get("elements", [])
        if element.get("action_id") == action_id
    ]
    return buttons[0] if buttons else None


def press(bot: Bot, channel_id: str, message: Json, action_id: str, user_id: str) -> str:
    button = find_button(message, action_id)
    assert button is not None
    return bot.slack.send_block_action(
        {key: button[key] for key in ("type", "action_id", "value") if key in button},
        user_id=user_id,
        channel_id=channel_id,
        message_ts=message["ts"],
    )


def ask_person(bot: Bot, message: Json, user_id: str = "U1") -> str:
    return press(bot, "C1", message, blocks.ASK_PERSON, user_id)


def resolve(bot: Bot, message: Json, user_id: str) -> str:
    return press(bot, "C9", message, blocks.RESOLVED, user_id)


def pass_on(bot: Bot, message: Json) -> Json:
    """Have a question passed on; the message to those who may know."""
    ask_person(bot, message)
    bot.slack.wait_for_call("chat.postMessage", where=lambda call: call.params["text"] == told())
    return bot.slack.messages("C9")[0]


def told() -> str:
    return blocks.ASKED.format(channel_id="C9")


def find_texts(bot: Bot, message: Json) -> list[str]:
    """What stands in the thread of the question."""
    return [each["text"] for each in bot.slack.messages("C1", message["thread_ts"])]


def test_a_question_is_passed_on_with_its_asker_and_place(bot: Bot) -> None:
    message = ask(bot)
    assert [block["type"] for block in message["blocks"]] == [
        *("section", "actions", "context_actions"),
    ]
    envelope_id = ask_person(bot, message)
    assert bot.slack.wait_for_ack(envelope_id).ack_seconds < 3
    bot.settle()
    (post,) = bot.slack.messages("C9")
    root = message["thread_ts"]
    link = (
        f"https://stand-in.slack.com/archives/C1/p{root.replace('.', '')}"
        f"?thread_ts={root}&amp;cid=C1"
    )
    assert post["text"] == (
        f"<@U1> asked this in <#C1> (<{link}|see the thread>), and I found no answer. "
        f"Can you help? Please answer there, in the thread.\n> {QUESTION}"
    )
    assert post["blocks"][0]["text"] == {"type": "mrkdwn", "text": post["text"], "verbatim": True}
    assert find_texts(bot, message)[2:] == [told()]
    (row,) = find_rows(bot.database, "escalations")
    (trace,) = find_rows(bot.database, "traces")
    assert (row.trace_id, row.channel_id, row.ts) == (trace.trace_id, "C9", post["ts"])
    assert (row.asked_by, row.resolved_by) == ("U1", None)


def test_however_many_click_a_question_is_passed_on_once(bot: Bot) -> None:
    message = ask(bot)
    bot.settle(*[ask_person(bot, message, f"U{number}") for number in (1, 1, 2, 3, 4)])
    assert len(bot.slack.messages("C9")) == 1
    assert find_texts(bot, message)[2:] == [told()]
    private = bot.slack.calls("chat.postEphemeral")
    assert [call.params["text"] for call in private] == [blocks.ASKED_ALREADY] * 4


def test_who_passes_on_the_question_of_another_is_named(bot: Bot) -> None:
    bot.settle(ask_person(bot, ask(bot), "U2"))
    (post,) = bot.slack.messages("C9")
    assert post["text"].startswith("<@U1> asked this in <#C1>")
    assert ", passed on by <@U2>, and I found no answer." in post["text"]


def test_p28_nothing_in_a_question_pages_or_links(bot: Bot) -> None:
    question = f"{PINGING}\n> *see* <https://evil.example|here>"
    event = bot.mention(question)
    shown = "Page @channel and @oncall, or @here, when @U0AAAA is away.\n> *see* here"
    bot.answerer.answers[shown] = NOTHING
    deliver(bot, event)
    bot.settle(ask_person(bot, bot.slack.messages("C1", event["ts"])[-1]))
    (post,) = bot.slack.messages("C9")
    asked = post["text"].partition("\n> ")[2]
    assert "<" not in asked and "\n" not in asked
    (call,) = (c for c in bot.slack.calls("chat.postMessage") if c.params["channel"] == "C9")
    assert (call.params["parse"], call.params["link_names"]) == ("none", False)


@pytest.mark.parametrize("question", ["&" * 3_000, "`" * 3_000, "how long? " * 300])
def test_a_long_question_is_cut_to_what_slack_takes(bot: Bot, question: str) -> None:
    bot.answerer.answers[question.strip()] = NOTHING
    bot.settle(ask_person(bot, bot.ask(question.replace("&", "&amp;")), "U2"))
    (post,) = bot.slack.messages("C9")
    assert post["text"].count("\n> ") == 1 and "…" in post["text"]


def test_a_direct_message_is_passed_on_without_a_link(bot: Bot) -> None:
    bot.answerer.answers[QUESTION] = NOTHING
    deliver(bot, bot.slack.write(QUESTION, channel_id="D1"))
    message = bot.slack.messages("D1")[-1]
    bot.settle(press(bot, "D1", message, blocks.ASK_PERSON, "U1"))
    (post,) = bot.slack.messages("C9")
    assert post["text"].startswith("<@U1> asked this in a direct message, and I found no answer.")
    assert "write to them directly" in post["text"]
    told_there = blocks.ASKED_DIRECTLY.format(channel_id="C9")
    assert bot.slack.messages("D1")[-1]["text"] == told_there


@pytest.mark.parametrize("error", ["not_in_channel", "channel_not_found", "is_archived"])
def test_where_nobody_is_reached_the_clicker_is_told_and_may_try_again(
    bot: Bot, error: str
) -> None:
    message = ask(bot)
    bot.slack.fail_next("chat.postMessage", body={"ok": False, "error": error})
    ask_person(bot, message)
    (private,) = bot.slack.wait_for_call("chat.postEphemeral")
    assert private.params["text"] == blocks.NOBODY_ASKED
    assert (private.params["user"], private.params["channel"]) == ("U1", "C1")
    assert private.params["thread_ts"] == message["thread_ts"]
    assert find_rows(bot.database, "escalations") == []
    assert find_texts(bot, message)[2:] == []
    pass_on(bot, message)
    assert len(bot.slack.messages("C9")) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"drop_connection": True},
        {"body": {"ok": False, "error": "internal_error"}},
        {"status": 503},
    ],
    ids=["lost", "unsure", "unavailable"],
)
def test_a_post_that_may_stand_there_is_not_made_again_and_the_clicker_is_told(
    bot: Bot, fault: dict[str, Any]
) -> None:
    message = ask(bot)
    bot.slack.fail_next("chat.postMessage", after_storing=True, **fault)
    ask_person(bot, message)
    (private,) = bot.slack.wait_for_call("chat.postEphemeral")
    assert private.params["text"] == PERHAPS_ASKED.format(channel_id="C9")
    bot.settle(ask_person(bot, message))
    assert len(bot.slack.messages("C9")) == 1
    assert bot.slack.calls("chat.postEphemeral")[1].params["text"] == blocks.ASKED_ALREADY
    assert find_texts(bot, message)[2:] == []


def test_what_was_claimed_when_slack_could_not_be_reached_may_be_passed_on_again(
    bot: Bot,
) -> None:
    message = ask(bot)
    bot.app.client.base_url = "http://127.0.0.1:1/api/"
    bot.settle(ask_person(bot, message))
    assert find_rows(bot.database, "escalations") == []


def grow_old(bot: Bot, age_s: int) -> None:
    """Have what was passed on been passed on so long ago."""
    with bot.database.transaction() as connection:
        connection.execute(
            text("UPDATE escalations SET asked_at = now() - make_interval(secs => :age_s)"),
            {"age_s": age_s},
        )


def test_a_claim_that_nobody_is_at_work_on_is_taken_over(bot: Bot) -> None:
    message = ask(bot)
    (trace,) = find_rows(bot.database, "traces")
    # By a process that died before it posted.
    assert escalation.claim(bot.database, trace.trace_id, Expert(channel_id="C8"), "U9")
    grow_old(bot, escalation.CLAIM_S - 60)
    ask_person(bot, message)
    bot.slack.wait_for_call("chat.postEphemeral")
    assert bot.slack.messages("C9") == []
    grow_old(bot, escalation.CLAIM_S + 1)
    bot.settle(*[ask_person(bot, message, f"U{number}") for number in (1, 2, 3)])
    assert len(bot.slack.messages("C9")) == 1
    (row,) = find_rows(bot.database, "escalations")
    assert row.channel_id == "C9" and row.ts is not None


def test_what_was_passed_on_long_ago_is_not_passed_on_again(bot: Bot) -> None:
    message = ask(bot)
    pass_on(bot, message)
    grow_old(bot, 10 * escalation.CLAIM_S)
    bot.settle(ask_person(bot, message, "U2"))
    assert len(bot.slack.messages("C9")) == 1


def delete_question(bot: Bot, message: Json) -> str:
    """Its asker deletes the question that this message answers."""
    root, *_ = bot.slack.messages("C1", message["thread_ts"])
    return bot.slack.send_event(bot.slack.delete({**root, "channel": "C1"}))


def test_what_was_passed_on_goes_with_its_question(bot: Bot) -> None:
    message, other = ask(bot), ask(bot, "how far is the queue?")
    pass_on(bot, message)
    ask_person(bot, other)
    bot.slack.wait_for_call("chat.postMessage", count=6)  # two answers, two posts, two lines
    bot.settle(delete_question(bot, message))
    (left,) = bot.slack.messages("C9")
    assert "how far" in left["text"]
    assert [row.question for row in find_rows(bot.database, "escalations")] == [
        "how far is the queue?"
    ]


def test_a_question_deleted_while_it_is_passed_on_is_taken_back(bot: Bot) -> None:
    message = ask(bot)
    posted = Event()
    bot.slack.delay("chat.postMessage", posted)
    ask_person(bot, message)
    bot.slack.wait_for_call("chat.postMessage", count=2)
    delete_question(bot, message)
    bot.slack.wait_for_call("chat.delete")
    posted.set()
    bot.settle()
    assert bot.slack.messages("C9") == []
    assert told() not in find_texts(bot, message)


def test_the_workspace_is_asked_for_once_and_again_only_where_slack_did_not_say(bot: Bot) -> None:
    first, second = ask(bot), ask(bot, "how far is the queue?")
    at_start = len(bot.slack.calls("auth.test"))
    bot.slack.fail_next("auth.test")
    post = pass_on(bot, first)
    assert "see the thread" not in post["text"]
    ask_person(bot, second)
    bot.slack.wait_for_call("chat.postMessage", count=6)
    assert "see the thread" in bot.slack.messages("C9")[1]["text"]
    resolve(bot, post, "U5")
    bot.slack.wait_for_call("chat.update")
    assert "see the thread" in bot.slack.messages("C9")[0]["text"]
    assert len(bot.slack.calls("auth.test")) == at_start + 2


def test_who_resolves_it_is_named_there_and_in_the_thread(bot: Bot) -> None:
    message = ask(bot)
    post = pass_on(bot, message)
    envelope_id = resolve(bot, post, "U5")
    assert bot.slack.wait_for_ack(envelope_id).ack_seconds < 3
    bot.settle()
    (changed,) = bot.slack.messages("C9")
    assert changed["text"] == f"{post['text']}\n\nResolved by <@U5>"
    assert [block["type"] for block in changed["blocks"]] == ["section", "context"]
    assert find_texts(bot, message)[2:] == [told(), blocks.RESOLVED_BY.format(user_id="U5")]
    (row,) = find_rows(bot.database, "escalations")
    assert row.resolved_by == "U5" and row.resolved_at is not None


def test_a_second_click_on_resolved_changes_nothing(bot: Bot) -> None:
    message = ask(bot)
    post = pass_on(bot, message)
    resolve(bot, post, "U5")
    bot.slack.wait_for_call("chat.update")
    bot.settle(resolve(bot, post, "U6"), resolve(bot, post, "U5"))
    (changed,) = bot.slack.messages("C9")
    assert changed["text"].endswith("Resolved by <@U5>")
    assert len(find_texts(bot, message)) == 4
    assert find_rows(bot.database, "escalations")[0].resolved_by == "U5"


def test_a_post_that_could_not_be_changed_is_by_the_next_click(bot: Bot) -> None:
    message = ask(bot)
    post = pass_on(bot, message)
    bot.slack.fail_next("chat.update")
    resolve(bot, post, "U5")
    bot.slack.wait_for_call("response_url")
    bot.settle(resolve(bot, post, "U6"))
    assert bot.slack.messages("C9")[0]["text"].endswith("Resolved by <@U5>")
    assert len(find_texts(bot, message)) == 4


def test_only_what_was_passed_on_is_shown_to_those_who_were_asked(bot: Bot) -> None:
    message = ask(bot)
    post = pass_on(bot, message)
    with bot.database.transaction() as connection:  # as an edit of the question does
        connection.execute(text("UPDATE traces SET question = 'not for their eyes'"))
    resolve(bot, post, "U5")
    bot.settle()
    (changed,) = bot.slack.messages("C9")
    assert QUESTION in changed["text"] and "not for" not in str(changed)


def test_nothing_is_resolved_while_slack_cannot_be_reached(bot: Bot) -> None:
    post = pass_on(bot, ask(bot))
    bot.app.client.base_url = "http://127.0.0.1:1/api/"
    bot.settle(resolve(bot, post, "U5"))
    assert find_rows(bot.database, "escalations")[0].resolved_by is None


def test_a_thread_that_could_not_be_told_is_told_by_the_next_click(bot: Bot) -> None:
    message = ask(bot)
    post = pass_on(bot, message)
    bot.slack.fail_next("chat.postMessage", body={"ok": False, "error": "is_archived"})
    resolve(bot, post, "U5")
    bot.slack.wait_for_call("response_url")
    assert find_rows(bot.database, "escalations")[0].resolved_by is None
    resolve(bot, post, "U6")
    bot.slack.wait_for_call("chat.update")
    assert find_texts(bot, message)[-1] == blocks.RESOLVED_BY.format(user_id="U6")


def test_what_is_answered_offers_nobody(bot: Bot) -> None:
    assert find_button(bot.ask("hello?"), blocks.ASK_PERSON) is None


def test_without_anybody_to_ask_there_is_no_button(slack: SlackStandIn, database: Database) -> None:
    with connected(slack, database, {"wiki": "C9"}) as bot:
        message = ask(bot)
    assert find_button(message, blocks.ASK_PERSON) is None
    assert [block["type"] for block in message["blocks"]] == ["section", "context_actions"]


def test_a_button_that_outlives_its_experts_asks_nobody(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database, {"*": "C9"}) as bot:
        message = ask(bot)
    with connected(slack, database) as bot:
        # As when it was posted: nobody is named any more.
        slack.send_block_action(
            {"type": "button", "action_id": blocks.ASK_PERSON},
            user_id="U1",
            channel_id="C1",
            message_ts=message["ts"],
        )
        (private,) = slack.wait_for_call("chat.postEphemeral")
    assert private.params["text"] == blocks.NOBODY_ASKED
    assert slack.messages("C9") == []


def test_a_user_group_is_called_once_in_the_thread_of_the_question(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database, {"*": "S9"}) as bot:
        message = ask(bot)
        ask_person(bot, message)
        slack.wait_for_call("chat.postMessage", count=2)
        *_, post = slack.messages("C1", message["thread_ts"])
        assert post["text"].startswith("<!subteam^S9> <@U1> asked this in <#C1>")
        press(bot, "C1", post, blocks.RESOLVED, "U5")
        slack.wait_for_call("chat.update")
    *_, changed, line = slack.messages("C1", message["thread_ts"])
    assert "subteam" not in changed["text"] and changed["text"].endswith("Resolved by <@U5>")
    assert line["text"] == blocks.RESOLVED_BY.format(user_id="U5")


def add_trace(
    database: Database, channel_id: str, source: str | None, owner: str | None = None
) -> Any:
    """A question without an answer, whose best candidate is of this source."""
    arrival = Arrival(
        question="q",
        surface="slack",
        channel_id=channel_id,
        message_ts=source,
        thread_ts="1.1",
    )
    trace_id = claims.claim(database, arrival)
    assert trace_id is not None
    with database.transaction() as connection:
        document_id = connection.execute(
            text("""
                INSERT INTO documents
                    (tenant_id, source, path, title, url, text, content_hash, owner)
                SELECT :tenant_id, CAST(:source AS text), 'a.md', '', '', '', '', :owner
                WHERE CAST(:source AS text) IS NOT NULL
                RETURNING document_id
            """),
            {"tenant_id": database.tenant_id, "source": source, "owner": owner},
        ).scalar()
        connection.execute(
            text("""
                UPDATE traces SET outcome = 'abstained', candidates = jsonb_build_array(
                    jsonb_build_object('document_id', CAST(:document_id AS bigint)))
                WHERE trace_id = :trace_id
            """),
            {"document_id": document_id, "trace_id": trace_id},
        )
    return trace_id


def test_the_source_of_the_best_candidate_decides_whom_to_ask(database: Database) -> None:
    experts = {"wiki": "C2", "*": "C3", "ops": "S4"}
    wiki, other, nothing = (add_trace(database, "C1", each) for each in ("wiki", "hr", None))
    assert escalation.find_expert(database, wiki, experts) == Expert(channel_id="C2")
    assert escalation.find_expert(database, other, experts) == Expert(channel_id="C3")
    assert escalation.find_expert(database, nothing, experts) == Expert(channel_id="C3")
    assert escalation.find_expert(database, other, {"wiki": "C2"}) is None
    ops = add_trace(database, "C1", "ops")
    group = Expert(channel_id="C1", thread_ts="1.1", group_id="S4")
    assert escalation.find_expert(database, ops, experts) == group


def test_the_owner_of_a_page_comes_before_its_source(database: Database) -> None:
    owned = add_trace(database, "C1", "wiki", owner="hr@corp.example")
    experts = {"hr@corp.example": "C5", "wiki": "C2"}
    assert escalation.find_expert(database, owned, experts) == Expert(channel_id="C5")
    assert escalation.find_expert(database, owned, {"wiki": "C2"}) == Expert(channel_id="C2")


def test_a_user_group_is_not_called_where_it_sees_nothing(database: Database) -> None:
    assert escalation.find_expert(database, add_trace(database, "D1", "ops"), {"*": "S4"}) is None


def test_what_is_answered_by_now_has_nobody_to_ask(database: Database) -> None:
    trace_id = add_trace(database, "C1", "wiki")
    traces.save_answer(database, trace_id, Answer(text="It is."), settings={}, stage_ms={})
    assert escalation.find_expert(database, trace_id, {"*": "C3"}) is None


def test_a_tenant_neither_sees_nor_ends_what_another_passed_on(
    database: Database, database_url: str
) -> None:
    trace_id = add_trace(database, "C1", "wiki")
    assert escalation.claim(database, trace_id, Expert(channel_id="C9"), "U1")
    other = Database(database_url, tenant_id="other")
    try:
        assert escalation.load(other, trace_id) is None
        assert not escalation.resolve(other, trace_id, "U2")
        escalation.release(other, trace_id)
    finally:
        other.close()
    assert escalation.load(database, trace_id) is not None
