"""The buttons below an answer, and the form after a 👎."""

from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from app import blocks, feedback, modals, posting
from app.feedback import Complaint
from app.records import Answer
from retrieval import audiences
from retrieval.db import Database
from tests.app.bot import Bot, Json, connected, find_rows
from tests.stand_ins import slack_limits
from tests.stand_ins.slack import SlackStandIn

QUESTION = "how long is the queue?"


@pytest.fixture
def answer(bot: Bot) -> Json:
    """The message with an answer, below which one can vote."""
    bot.answerer.answers[QUESTION] = Answer(
        text="I couldn't find this.", abstained_because="BELOW_FLOOR"
    )
    return bot.ask(QUESTION)


def press(bot: Bot, message: Json, name: str, user_id: str = "U1") -> str:
    """Press one of the two buttons below an answer."""
    (element,) = message["blocks"][-1]["elements"]
    action = {"type": element["type"], "action_id": element["action_id"]}
    return bot.slack.send_block_action(
        {**action, "value": element[name]["value"]},
        user_id=user_id,
        channel_id="C1",
        message_ts=message["ts"],
    )


def vote_for(bot: Bot, message: Json, user_id: str = "U1") -> str:
    return press(bot, message, "positive_button", user_id)


def vote_against(bot: Bot, message: Json, user_id: str = "U1") -> str:
    return press(bot, message, "negative_button", user_id)


def react(bot: Bot, message: Json, kind: str, event_ts: str = "1800000000.000001") -> str:
    item = {"type": "message", "channel": "C1", "ts": message["ts"]}
    event = {"type": kind, "user": "U1", "reaction": "-1::skin-tone-4", "item": item}
    return bot.slack.send_event({**event, "event_ts": event_ts})


def say_more(bot: Bot, shown: Any) -> str:
    """Press the button of a message that only U1 sees."""
    (button,) = shown.params["blocks"][-1]["elements"]
    return bot.slack.send_block_action(
        {key: button[key] for key in ("type", "action_id", "value")},
        user_id="U1",
        channel_id="C1",
        message_ts=shown.answer["message_ts"],
    )


def open_form(bot: Bot, message: Json) -> Json:
    """Vote against an answer, and see the form once the vote is counted."""
    already = len(bot.slack.calls("chat.postEphemeral"))
    vote_against(bot, message)
    bot.slack.wait_for_call("chat.postEphemeral", count=already + 1)
    return dict(bot.slack.calls("views.open")[-1].answer["view"])


def values(
    reason: str | None = None, page: int | None = None, note: str | None = None
) -> dict[str, Any]:
    """What is in the form when it is sent."""

    def chosen(value: object) -> Json | None:
        return None if value is None else {"value": str(value)}

    return {
        "reason": {"reason": {"type": "radio_buttons", "selected_option": chosen(reason)}},
        "page": {"page": {"type": "external_select", "selected_option": chosen(page)}},
        "note": {"note": {"type": "plain_text_input", "value": note}},
    }


def send(bot: Bot, view: Json, user_id: str = "U1", **said: Any) -> Any:
    """Send the form; what it is answered with, None when it closes."""
    envelope_id = bot.slack.send_view_submission(view, user_id=user_id, values=values(**said))
    return bot.slack.wait_for_ack(envelope_id).payload


def votes(bot: Bot) -> dict[str, int]:
    rows = find_rows(bot.database, "feedback")
    return {row.user_id: row.vote for row in rows if row.vote}


def add_document(database: Database, title: str, path: str, audience: str = "everyone") -> int:
    with database.unrestricted.transaction() as connection:
        audience_id = audiences.load_id(connection, (audience,))
        added = connection.execute(
            text("""
                INSERT INTO documents (tenant_id, audience_id, source, path, title, url, text,
                                       content_hash)
                VALUES (:tenant_id, :audience_id, 'wiki', :path, :title, '', '', '')
                RETURNING document_id
            """),
            {
                "tenant_id": database.tenant_id,
                "audience_id": audience_id,
                "path": path,
                "title": title,
            },
        )
        return int(added.scalar_one())


@pytest.mark.parametrize(("name", "vote"), [("positive_button", 1), ("negative_button", -1)])
def test_a_click_is_a_vote_and_thanked_for_in_the_thread(
    bot: Bot, answer: Json, name: str, vote: feedback.Vote
) -> None:
    envelope_id = press(bot, answer, name)
    assert bot.slack.wait_for_ack(envelope_id).ack_seconds < 3
    bot.settle()
    (row,) = find_rows(bot.database, "feedback")
    (trace,) = find_rows(bot.database, "traces")
    assert (row.trace_id, row.user_id, row.vote) == (trace.trace_id, "U1", vote)
    (thanks,) = bot.slack.calls("chat.postEphemeral")
    where = {key: thanks.params[key] for key in ("channel", "user", "thread_ts")}
    assert where == {"channel": "C1", "user": "U1", "thread_ts": answer["thread_ts"]}
    assert thanks.params["text"] == blocks.THANKS[vote]
    assert len(bot.slack.messages("C1")) == 2  # nobody else sees anything


def test_the_last_vote_of_each_person_counts(bot: Bot, answer: Json) -> None:
    for number, vote in enumerate([vote_for, vote_against, vote_for], start=1):
        vote(bot, answer)
        bot.slack.wait_for_call("chat.postEphemeral", count=number)
    bot.settle(vote_against(bot, answer, "U2"))
    assert votes(bot) == {"U1": 1, "U2": -1}


def test_a_later_vote_counts_while_the_form_of_an_earlier_one_still_opens(
    bot: Bot, answer: Json
) -> None:
    until = Event()
    bot.slack.delay("views.open", until)
    vote_against(bot, answer)
    bot.slack.wait_for_call("views.open")
    vote_for(bot, answer)
    bot.slack.wait_for_call("chat.postEphemeral")
    until.set()
    bot.slack.wait_for_call("chat.postEphemeral", count=2)
    assert votes(bot) == {"U1": 1}


def test_a_vote_by_button_is_taken_back_by_reaction(bot: Bot, answer: Json) -> None:
    vote_against(bot, answer)
    bot.slack.wait_for_call("chat.postEphemeral")
    bot.settle(react(bot, answer, "reaction_removed"))
    assert votes(bot) == {}


def test_a_reaction_that_slack_repeats_after_it_was_taken_back_is_no_vote(
    bot: Bot, answer: Json
) -> None:
    react(bot, answer, "reaction_added", "1800000000.000001")
    bot.slack.wait_for_call("chat.postEphemeral")
    react(bot, answer, "reaction_removed", "1800000001.000001")
    react(bot, answer, "reaction_added", "1800000000.000001")
    bot.slack.wait_for_call("chat.postEphemeral", count=2)
    bot.settle()
    assert votes(bot) == {}


def test_the_form_opens_before_anything_is_written_and_tells_nothing(
    bot: Bot, answer: Json
) -> None:
    until = Event()
    bot.slack.delay("views.open", until)
    vote_against(bot, answer)
    (call,) = bot.slack.wait_for_call("views.open")
    assert votes(bot) == {} and bot.slack.calls("chat.postEphemeral") == ()
    until.set()
    bot.settle()
    assert votes(bot) == {"U1": -1}
    (trace,) = find_rows(bot.database, "traces")
    assert call.params["view"]["private_metadata"] == str(trace.trace_id)
    assert "queue" not in str(call.params["view"]) and "find this" not in str(call.params["view"])


@pytest.mark.parametrize(
    "fault",
    [
        {"body": {"ok": False, "error": "expired_trigger_id"}},
        {"status": 429, "headers": {"Retry-After": "60"}},
        {"drop_connection": True},
    ],
    ids=["expired", "limited", "lost"],
)
def test_a_vote_counts_when_the_form_does_not_open(
    bot: Bot, answer: Json, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bot.slack.fail_next("views.open", **fault)
    bot.settle(vote_against(bot, answer))
    assert votes(bot) == {"U1": -1}
    assert len(bot.slack.calls("views.open")) == 1
    (thanks,) = bot.slack.calls("chat.postEphemeral")
    assert thanks.params["blocks"][-1]["elements"][0]["action_id"] == blocks.SAY_MORE
    assert not [record for record in caplog.records if record.name == "app.listeners.errors"]


def test_a_vote_counts_when_slack_shows_no_thanks(bot: Bot, answer: Json) -> None:
    bot.slack.fail_next("chat.postEphemeral", body={"ok": False, "error": "user_not_in_channel"})
    bot.settle(vote_for(bot, answer))
    assert votes(bot) == {"U1": 1}
    assert bot.slack.calls("response_url") == ()


def test_p92_a_vote_counts_without_the_form_and_what_it_says_is_kept(
    bot: Bot, answer: Json
) -> None:
    document_id = add_document(bot.database, "Queues", "ops/queues.md")
    view = open_form(bot, answer)
    assert votes(bot) == {"U1": -1}
    assert send(bot, view, reason="outdated", page=document_id, note=" It is <2 h> now ") is None
    (row,) = find_rows(bot.database, "feedback")
    assert (row.vote, row.reason, row.note) == (-1, "outdated", "It is <2 h> now")
    assert (row.right_source, row.right_path) == ("wiki", "ops/queues.md")


def test_a_person_who_opens_the_form_again_changes_their_own(bot: Bot, answer: Json) -> None:
    document_id = add_document(bot.database, "Queues", "ops/queues.md")
    send(bot, open_form(bot, answer), reason="wrong", page=document_id, note="2 h")
    bot.slack.wait_for_call("chat.postEphemeral", count=2)  # the second says that it is kept
    again = {block["block_id"]: block["element"] for block in open_form(bot, answer)["blocks"]}
    assert again["reason"]["initial_option"]["value"] == "wrong"
    assert again["page"]["initial_option"]["value"] == str(document_id)
    assert again["note"]["initial_value"] == "2 h"
    view = bot.slack.calls("views.open")[-1].answer
    assert view is not None and send(bot, view["view"], reason="missing") is None
    (row,) = find_rows(bot.database, "feedback")
    assert (row.reason, row.right_path, row.note) == ("missing", None, None)


def find_options(bot: Bot, view: Json, typed: str, user_id: str = "U1") -> dict[str, str]:
    """The texts of the options for what is typed, by their values, in order."""
    envelope_id = bot.slack.send_block_suggestion(
        view, user_id=user_id, action_id="page", value=typed
    )
    payload = bot.slack.wait_for_ack(envelope_id).payload
    assert payload is not None and slack_limits.option_problems(payload["options"]) == []
    return {option["value"]: option["text"]["text"] for option in payload["options"]}


def test_pages_are_found_by_words_of_their_titles_in_any_case(bot: Bot, answer: Json) -> None:
    leave = add_document(bot.database, "Parental Leave in Übersee", "hr/leave.md")
    table = add_document(bot.database, "Leave: a table of 100% days", "hr/days.md")
    add_document(bot.database, "Board minutes: leave", "board/leave.md", audience="group:S1")
    other = Database(
        bot.database.engine.url.render_as_string(hide_password=False), tenant_id="other"
    )
    add_document(other, "Leave elsewhere", "leave.md")
    other.close()
    view = open_form(bot, answer)
    titles = {str(leave): "Parental Leave in Übersee", str(table): "Leave: a table of 100% days"}
    assert find_options(bot, view, "LEAVE") == titles
    assert next(iter(find_options(bot, view, "leave"))) == str(table)  # it begins so
    assert list(find_options(bot, view, "über par")) == [str(leave)]
    assert list(find_options(bot, view, "0%")) == [str(table)]
    assert find_options(bot, view, "__") == {}


def test_a_page_of_another_tenant_or_of_the_few_is_not_taken(bot: Bot, answer: Json) -> None:
    secret = add_document(bot.database, "Board minutes", "board/1.md", audience="group:S1")
    assert send(bot, open_form(bot, answer), page=secret, note="see there") is None
    (row,) = find_rows(bot.database, "feedback")
    assert (row.right_path, row.note) == (None, "see there")


def test_nothing_is_kept_of_who_has_not_voted_or_of_another_trace(bot: Bot, answer: Json) -> None:
    view = open_form(bot, answer)
    refusal = {"response_action": "errors", "errors": {"note": modals.NO_VOTE}}
    assert send(bot, view, "U2", reason="wrong") == refusal
    forged = {**view, "private_metadata": str(uuid4())}
    assert send(bot, forged, reason="wrong") == refusal
    with bot.database.engine.begin() as connection:  # as the owner: into another tenant
        other = connection.execute(
            text(
                "INSERT INTO traces (tenant_id, surface, question)"
                " VALUES ('other', 'slack', 'q') RETURNING trace_id"
            )
        ).scalar_one()
        connection.execute(
            text("INSERT INTO feedback VALUES (:trace_id, 'other', 'U1', -1)"), {"trace_id": other}
        )
    assert send(bot, {**view, "private_metadata": str(other)}, reason="wrong") == refusal
    with bot.database.engine.begin() as connection:
        reasons = connection.execute(text("SELECT reason FROM feedback")).scalars().all()
    assert reasons == [None, None]


def test_a_form_with_a_forged_trace_id_is_told_to_have_failed(
    bot: Bot, answer: Json, caplog: pytest.LogCaptureFixture
) -> None:
    answered = send(bot, {**open_form(bot, answer), "private_metadata": "x"}, note="my secret")
    assert answered["errors"]["note"].startswith(posting.NOT_DONE.split("{")[0])
    assert find_rows(bot.database, "feedback")[0].note is None
    assert "my secret" not in caplog.text


def test_a_thumbs_up_after_a_complaint_ends_it(bot: Bot, answer: Json) -> None:
    send(bot, open_form(bot, answer), reason="wrong", note="2 h")
    vote_for(bot, answer)
    texts = [call.params["text"] for call in bot.slack.wait_for_call("chat.postEphemeral", count=3)]
    assert texts == [blocks.THANKS[-1], blocks.KEPT, blocks.THANKS[1]]
    (row,) = find_rows(bot.database, "feedback")
    assert (row.vote, row.reason, row.note) == (1, None, None)


def test_a_thumbs_down_by_reaction_leads_to_the_same_form(bot: Bot, answer: Json) -> None:
    react(bot, answer, "reaction_added")
    (shown,) = bot.slack.wait_for_call("chat.postEphemeral")
    assert votes(bot) == {"U1": -1}
    assert shown.params["thread_ts"] == answer["thread_ts"]
    assert bot.slack.calls("views.open") == ()
    envelope_id = say_more(bot, shown)
    (call,) = bot.slack.wait_for_call("views.open")
    assert bot.slack.wait_for_ack(envelope_id).ack_seconds < 3
    assert send(bot, dict(call.params["view"]), note="It is 2 h") is None
    assert find_rows(bot.database, "feedback")[0].note == "It is 2 h"


def test_a_form_that_was_asked_for_and_does_not_open_is_told(bot: Bot, answer: Json) -> None:
    react(bot, answer, "reaction_added")
    (shown,) = bot.slack.wait_for_call("chat.postEphemeral")
    bot.slack.fail_next("views.open", body={"ok": False, "error": "expired_trigger_id"})
    say_more(bot, shown)
    (told,) = bot.slack.wait_for_call("response_url")
    assert told.params["text"].startswith(posting.NOT_DONE.split("{")[0])
    assert (told.params["response_type"], told.params["replace_original"]) == ("ephemeral", False)


@pytest.mark.parametrize("status", [404, 500])
def test_a_reply_that_slack_refuses_is_logged_by_its_status(
    bot: Bot, answer: Json, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"ok": False, "error": "expired_url my secret"}
    bot.slack.fail_next("response_url", status=status, body=body, times=2)
    react(bot, answer, "reaction_added")
    (shown,) = bot.slack.wait_for_call("chat.postEphemeral")
    bot.slack.fail_next("views.open", body={"ok": False, "error": "expired_trigger_id"})
    say_more(bot, shown)
    bot.slack.wait_for_call("response_url")
    bot.settle(bot.slack.send_slash_command("/ragstats", "help", "U1", "C1"))
    told = [each.getMessage() for each in caplog.records if each.name == "app.posting"]
    assert told == [f"A reply was refused: {status}"] * 2


def test_sixty_clicks_at_once_are_sixty_votes(bot: Bot, answer: Json) -> None:
    people = [f"U{number}" for number in range(100, 160)]
    envelope_ids = [
        (vote_for if number % 2 else vote_against)(bot, answer, user_id)
        for number, user_id in enumerate(people)
    ]
    acks = [bot.slack.wait_for_ack(envelope_id) for envelope_id in envelope_ids]
    assert max(ack.ack_seconds for ack in acks) < 3
    bot.settle()
    assert votes(bot) == {user_id: 1 if number % 2 else -1 for number, user_id in enumerate(people)}
    assert len(bot.slack.calls("views.open")) == 30
    assert len(bot.slack.calls("chat.postEphemeral")) == 60


def test_clicks_are_acknowledged_while_every_form_is_slow_to_open(bot: Bot, answer: Json) -> None:
    until = Event()
    bot.slack.delay("views.open", until)
    envelope_ids = [vote_against(bot, answer, f"U{number}") for number in range(100, 130)]
    acks = [bot.slack.wait_for_ack(envelope_id) for envelope_id in envelope_ids]
    until.set()
    assert max(ack.ack_seconds for ack in acks) < 3
    bot.settle()
    assert len(votes(bot)) == 30


def test_where_the_trace_is_gone_it_is_told_that_nothing_counts(bot: Bot, answer: Json) -> None:
    react(bot, answer, "reaction_added")
    (shown,) = bot.slack.wait_for_call("chat.postEphemeral")
    with bot.database.transaction() as connection:
        connection.execute(text("DELETE FROM traces"))
    bot.settle(vote_against(bot, answer), say_more(bot, shown))
    told = [call.params["text"] for call in bot.slack.calls("chat.postEphemeral")]
    assert told == [blocks.THANKS[-1], blocks.NO_TRACE, blocks.NO_TRACE]
    assert (votes(bot), bot.slack.calls("views.open")) == ({}, ())


def test_what_fails_is_told_in_one_fixed_sentence(
    slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    sentence = posting.NOT_DONE.split("{")[0]
    with connected(slack, unreachable, is_working=False) as bot:
        message = slack.write("the queue", channel_id="C1")
        action = {"type": "feedback_buttons", "action_id": blocks.FEEDBACK, "value": "-1"}
        envelope_id = slack.send_block_action(
            action, user_id="U1", channel_id="C1", message_ts=message["ts"]
        )
        assert slack.wait_for_ack(envelope_id).ack_seconds < 3
        (told,) = slack.wait_for_call("response_url")
        assert told.params["text"].startswith(sentence)
        view = modals.build_complaint_view(uuid4(), Complaint(), None)
        assert send(bot, view, note="my secret")["errors"]["note"].startswith(sentence)
        assert find_options(bot, view, "a secret title") == {}
    assert "secret" not in caplog.text and "the queue" not in caplog.text


def test_what_is_no_longer_ours_is_acknowledged_and_not_logged(
    bot: Bot, answer: Json, caplog: pytest.LogCaptureFixture
) -> None:
    action = {"type": "button", "action_id": "of_another_version", "value": "1"}
    view = {"type": "modal", "callback_id": "of_another_version", "blocks": []}
    envelope_id = bot.slack.send_block_action(
        action, user_id="U1", channel_id="C1", message_ts=answer["ts"]
    )
    bot.settle(
        envelope_id, bot.slack.send_view_submission(view, user_id="U1", values=values(note="x"))
    )
    assert not caplog.records
