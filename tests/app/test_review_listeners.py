"""Flagged answers and answers given by hand, from the click to the reviewers' decision."""

import json
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from app import blocks, feedback, modals, mrkdwn, posting
from app.config import Settings
from app.loop import cases, review_blocks, review_forms
from app.loop.cases import Case
from app.loop.review import holds
from app.loop.spans import MOST
from app.records import Answer
from app.rights import Rights
from app.serve import build_reviews
from retrieval import audiences
from retrieval.db import Database
from retrieval.metrics import Gold
from retrieval.records import Candidate, Query
from tests.app.bot import Bot, Json, connected, find_rows
from tests.app.questions import ask
from tests.app.reviewing import (
    REVIEWERS,
    find_button,
    open_form,
    open_found,
    press,
    read,
    send,
    wait_until_shown,
)
from tests.app.test_blocks import PINGING
from tests.stand_ins.slack import SlackStandIn

if TYPE_CHECKING:
    from retrieval.retrieve import Retriever

QUESTION = "how long is the queue?"
NOTHING = Answer(text="I couldn't find this.", abstained_because="BELOW_FLOOR")
SPAN = "The queue holds 500 jobs."
REPLY = "The queue holds five hundred jobs, after that nothing more is taken in."
SOON = 10


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    with connected(slack, database, review_channel=REVIEWERS) as bot:
        yield bot


@pytest.fixture
def answer(bot: Bot) -> Json:
    """A message that says that there is no answer."""
    bot.answerer.answers[QUESTION] = NOTHING
    return bot.ask(QUESTION)


@pytest.fixture
def page(database: Database) -> int:
    return add_page(database, "queue.md")


def add_page(database: Database, path: str, **more: object) -> int:
    values = {
        "tenant_id": database.tenant_id,
        "source": "wiki",
        "path": path,
        "title": "The queue",
        "url": f"https://wiki.example/{path}",
        "text": f"# The queue\n\n{SPAN}\nNothing else.",
        "owner": None,
    } | more
    with database.transaction() as connection:
        document_id: int = connection.execute(
            text("""
                INSERT INTO documents (tenant_id, source, path, title, url, text, owner,
                                       content_hash)
                VALUES (:tenant_id, :source, :path, :title, :url, :text, :owner, '')
                RETURNING document_id
            """),
            values,
        ).scalar_one()
    return document_id


def vote(bot: Bot, message: Json, name: str = "negative_button", user_id: str = "U1") -> str:
    (element,) = message["blocks"][-1]["elements"]
    return bot.slack.send_block_action(
        {
            **{key: element[key] for key in ("type", "action_id")},
            "value": element[name]["value"],
        },
        user_id=user_id,
        channel_id=message.get("channel", "C1"),
        message_ts=message["ts"],
    )


def find_reviews(bot: Bot) -> list[Json]:
    """What stands in the channel of the reviewers, without threads."""
    return [each for each in bot.slack.messages(REVIEWERS) if "thread_ts" not in each]


def flag(bot: Bot, message: Json, user_id: str = "U1") -> Json:
    """Vote against an answer; what the reviewers see once it stands there."""
    vote(bot, message, user_id=user_id)
    return wait_until_shown(bot.slack, f"<@{user_id}>")


def wait_until_kept(database: Database) -> None:
    """Return once the place of the message that the reviewers see is in the database."""
    deadline = time.monotonic() + 10
    while not any(case.review_ts for case in find_cases(database)):
        assert time.monotonic() < deadline


def find_cases(database: Database) -> list[Case]:
    return cases.list_cases(database)


def test_a_flagged_answer_arrives_with_what_is_needed_to_decide(
    bot: Bot, answer: Json, page: int
) -> None:
    with bot.database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces SET candidates = CAST(:candidates AS jsonb), kept = '{1}',
                    settings = '{"floor": 0.08}'
            """),
            {
                "candidates": json.dumps(
                    [
                        {
                            "section_id": 1,
                            "document_id": page,
                            "doc": "queue.md",
                            "relevance": 0.02,
                        }
                    ]
                )
            },
        )
    review = flag(bot, answer)
    root = answer["thread_ts"]
    link = f"https://stand-in.slack.com/archives/C1/p{root.replace('.', '')}"
    shown = read(review)
    assert shown.startswith(
        f"*An answer was flagged* in <#C1> (<{link}?thread_ts={root}&amp;cid=C1|see the thread>)\n"
        f"> {QUESTION}\n👎 <@U1>\n*I found no answer:*\nI couldn't find this.\n*Made from:*\n"
        "• <https://wiki.example/queue.md|The queue> · relevance 0.02\n"
        "*At fault:* not known yet, likely *missing* – nothing above the floor; "
        "the best page had relevance 0.02 (floor 0.08)\n"
    )
    assert review["text"].endswith(QUESTION)
    assert [button["text"]["text"] for button in review["blocks"][-1]["elements"]] == [
        *("Right page…", "Make it a case", "Page is wrong", "Answer was right"),
    ]


def test_without_a_channel_a_case_is_proposed_and_nothing_posted(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database) as bot:
        bot.answerer.answers[QUESTION] = NOTHING
        bot.settle(vote(bot, bot.ask(QUESTION)))
    (case,) = find_cases(database)
    assert (case.state, case.review_ts) == ("proposed", None)
    assert {call.params["channel"] for call in slack.calls("chat.postMessage")} == {"C1"}
    (thanks,) = slack.calls("chat.postEphemeral")
    assert thanks.params["text"] == blocks.THANKS[-1]


def test_a_vote_counts_at_once_and_what_is_said_later_feeds_the_case(
    bot: Bot, page: int, answer: Json
) -> None:
    """P92: the form is closed without a word, then sent with a reason and the right page."""
    flag(bot, answer)
    bot.slack.wait_for_call("chat.postEphemeral")
    (row,) = find_rows(bot.database, "feedback")
    assert (row.vote, row.reason, row.right_path) == (-1, None, None)
    (case,) = find_cases(bot.database)
    assert (case.state, case.gold) == ("proposed", ())
    (opened,) = bot.slack.calls("views.open")
    assert "notify_on_close" not in opened.params["view"]  # closed, it says nothing to anybody
    (thanks,) = bot.slack.calls("chat.postEphemeral")
    more = thanks.params["blocks"][-1]["elements"][0]
    bot.slack.send_block_action(
        {key: more[key] for key in ("type", "action_id", "value")},
        user_id="U1",
        channel_id="C1",
        message_ts=thanks.answer["message_ts"],
    )
    view = dict(bot.slack.wait_for_call("views.open", count=2)[1].answer["view"])
    note = "see https://wiki.example/queue.md"
    assert send(bot.slack, view, "U1", reason="wrong", page=page, note=note) is None
    review = wait_until_shown(bot.slack, "It is wrong")
    assert f"👎 <@U1>: It is wrong – “{note}”" in read(review)
    assert "*Right page:* <https://wiki.example/queue.md|The queue>" in read(review)
    assert "*At fault:* *search* – " in read(review)
    (case,) = find_cases(bot.database)
    assert (case.state, case.gold) == ("proposed", (Gold(doc="queue.md", source="wiki"),))
    (row,) = find_rows(bot.database, "feedback")
    assert (row.vote, row.reason, row.right_path) == (-1, "wrong", "queue.md")


def test_who_flags_is_told_who_reads_it(bot: Bot, answer: Json) -> None:
    flag(bot, answer)
    (thanks,) = bot.slack.wait_for_call("chat.postEphemeral")
    assert thanks.params["text"] == f"{blocks.THANKS[-1]} {blocks.WHO_READS}"
    (opened,) = bot.slack.calls("views.open")
    assert opened.params["view"]["blocks"][-1]["elements"][0]["text"] == blocks.WHO_READS


def test_several_flags_on_one_question_are_one_message(bot: Bot, answer: Json) -> None:
    again = bot.ask(QUESTION, user_id="U2")
    flag(bot, answer)
    flag(bot, again, "U2")
    review = wait_until_shown(bot.slack, "flagged* by 2 people")
    assert "👎 <@U1>\n👎 <@U2>" in read(review)
    assert len(find_reviews(bot)) == len(find_cases(bot.database)) == 1


def test_two_processes_post_a_case_once(slack: SlackStandIn, database: Database) -> None:
    until = Event()
    with (
        connected(slack, database, review_channel=REVIEWERS) as one,
        connected(slack, database, review_channel=REVIEWERS) as other,
    ):
        one.answerer.answers[QUESTION] = other.answerer.answers[QUESTION] = NOTHING
        event = one.mention(QUESTION)
        slack.send_event(event)
        slack.wait_for_message("C1", lambda each: "bot_id" in each)
        slack.wait_for_call(
            "assistant.threads.setStatus", where=lambda call: not call.params["status"]
        )
        answer = slack.messages("C1")[-1]
        slack.delay("chat.postMessage", until)
        vote(one, answer, user_id="U1")
        slack.wait_for_call("chat.postMessage", count=2)
        for number in (2, 3, 4, 5):
            vote(one, answer, user_id=f"U{number}")
        slack.wait_for_call("chat.postEphemeral", count=5)
        until.set()
        wait_until_shown(slack, "by 5 people")
    (review,) = find_reviews(one)
    assert "👎 <@U5>" in read(review)


def test_when_the_vote_is_taken_back_the_message_goes(bot: Bot, answer: Json) -> None:
    flag(bot, answer)
    wait_until_kept(bot.database)
    vote(bot, answer, "positive_button")
    bot.slack.wait_for_call("chat.delete")
    assert find_reviews(bot) == []
    assert find_cases(bot.database) == []


def test_what_others_say_while_it_is_told_is_shown(bot: Bot, answer: Json) -> None:
    until = Event()
    bot.slack.delay("chat.postMessage", until)
    vote(bot, answer)
    bot.slack.wait_for_call("chat.postMessage", count=2)
    (trace,) = find_rows(bot.database, "traces")
    feedback.vote(bot.database, trace.trace_id, "U2", -1)  # by a process that may not post it
    until.set()
    assert wait_until_shown(bot.slack, "by 2 people")


def test_a_vote_taken_back_while_it_is_told_leaves_nothing(bot: Bot, answer: Json) -> None:
    until = Event()
    bot.slack.delay("chat.postMessage", until)
    vote(bot, answer)
    bot.slack.wait_for_call("chat.postMessage", count=2)
    vote(bot, answer, "positive_button")
    bot.slack.wait_for_call("chat.postEphemeral", count=2)
    until.set()
    bot.slack.wait_for_call("chat.delete")
    assert find_reviews(bot) == []


def test_when_the_question_is_deleted_the_message_goes(bot: Bot, answer: Json) -> None:
    flag(bot, answer)
    question = next(each for each in bot.slack.messages("C1") if each["ts"] == answer["thread_ts"])
    bot.settle(bot.slack.send_event(bot.slack.delete({**question, "channel": "C1"})))
    assert find_reviews(bot) == []


def test_when_the_question_is_edited_the_message_goes(bot: Bot, answer: Json) -> None:
    flag(bot, answer)
    question = next(each for each in bot.slack.messages("C1") if each["ts"] == answer["thread_ts"])
    edited = bot.slack.edit({**question, "channel": "C1"}, "<@U0BOT> how wide is it?")
    wait_until_kept(bot.database)
    bot.settle(bot.slack.send_event(edited))
    assert find_reviews(bot) == []


def test_a_question_asked_directly_has_no_link(bot: Bot) -> None:
    bot.answerer.answers[QUESTION] = NOTHING
    before = len(bot.ended.having())
    bot.slack.send_event(bot.slack.write(QUESTION, channel_id="D1"))
    bot.ended.wait_for(count=before + 1, timeout_s=SOON)
    answer = bot.slack.messages("D1")[-1]
    review = flag(bot, {**answer, "channel": "D1"})
    assert read(review).startswith(f"*An answer was flagged*\n> {QUESTION}\n")
    assert "D1" not in read(review)


def test_a_reviewer_chooses_the_page_and_makes_it_a_case(bot: Bot, answer: Json, page: int) -> None:
    review = flag(bot, answer)
    view = open_form(bot.slack, review, review_blocks.CHOOSE_PAGE)
    envelope_id = bot.slack.send_block_suggestion(
        view, user_id="U5", action_id=modals.PAGE, value="queue"
    )
    options = bot.slack.wait_for_ack(envelope_id).payload["options"]
    assert [option["value"] for option in options] == [str(page)]
    assert send(bot.slack, view, page=page) is None
    review = wait_until_shown(bot.slack, "*Right page:*")
    view = open_form(bot.slack, review, review_blocks.MAKE_CASE)
    filled = {"question": "How long may the queue be?", "span0": "The  queue holds\n500 jobs."}
    assert send(bot.slack, view, **filled) is None
    review = wait_until_shown(bot.slack, "<@U5> has made it a case")
    assert find_button(review, review_blocks.MAKE_CASE) is None
    assert "> How long may the queue be?" in read(review)
    (case,) = find_cases(bot.database)
    assert (case.state, case.reviewer, case.question) == ("approved", "U5", filled["question"])
    assert case.gold == (Gold(doc="queue.md", span="The  queue holds\n500 jobs.", source="wiki"),)


def test_a_passage_that_is_not_in_the_page_is_refused_in_the_form(
    bot: Bot, answer: Json, page: int
) -> None:
    review = flag(bot, answer)
    send(bot.slack, open_form(bot.slack, review, review_blocks.CHOOSE_PAGE), page=page)
    view = open_form(
        bot.slack, wait_until_shown(bot.slack, "*Right page:*"), review_blocks.MAKE_CASE
    )
    assert send(bot.slack, view, span0="The queue holds 600 jobs.") == {
        "response_action": "errors",
        "errors": {"span0": review_forms.NOT_IN_PAGE},
    }
    assert send(bot.slack, view, question=" ")["errors"] == {"question": review_forms.EMPTY}
    assert [case.state for case in find_cases(bot.database)] == ["proposed"]


def test_a_page_that_is_gone_when_the_form_is_sent_is_refused(
    bot: Bot, answer: Json, page: int
) -> None:
    view = open_form(bot.slack, flag(bot, answer), review_blocks.CHOOSE_PAGE)
    with bot.database.transaction() as connection:
        connection.execute(text("DELETE FROM documents"))
    assert send(bot.slack, view, page=page)["errors"] == {modals.PAGE: review_forms.PAGE_GONE}
    (case,) = find_cases(bot.database)
    assert case.gold == ()


def test_without_a_page_a_case_says_that_none_answers(bot: Bot, answer: Json) -> None:
    view = open_form(bot.slack, flag(bot, answer), review_blocks.MAKE_CASE)
    assert view["blocks"][-1]["text"]["text"] == review_blocks.NO_PAGE
    assert send(bot.slack, view) is None
    review = wait_until_shown(bot.slack, "<@U5> has made it a case")
    assert "No page answers this." in read(review)
    assert "*At fault:* *missing* – no page of the index answered this when it was asked" in read(
        review
    )
    (case,) = find_cases(bot.database)
    assert (case.state, case.gold) == ("approved", ())


def test_an_answer_that_was_right_is_no_case(bot: Bot, answer: Json) -> None:
    press(bot.slack, flag(bot, answer), review_blocks.ANSWER_RIGHT)
    review = wait_until_shown(bot.slack, "<@U5> says that the answer was right")
    assert find_button(review, review_blocks.ANSWER_RIGHT) is None
    assert "At fault" not in read(review)
    (case,) = find_cases(bot.database)
    assert (case.state, case.reviewer) == ("dismissed", "U5")


def find_told(bot: Bot, user_id: str) -> list[str]:
    """What a person was told privately."""
    calls = bot.slack.calls("chat.postEphemeral")
    return [call.params["text"] for call in calls if call.params["user"] == user_id]


def test_a_later_click_of_somebody_else_changes_nothing(bot: Bot, answer: Json, page: int) -> None:
    before = flag(bot, answer)
    view = open_form(bot.slack, before, review_blocks.MAKE_CASE, "U6")
    choosing = open_form(bot.slack, before, review_blocks.CHOOSE_PAGE, "U6")
    press(bot.slack, before, review_blocks.ANSWER_RIGHT)
    wait_until_shown(bot.slack, "<@U5> says")
    already = len(bot.slack.calls("chat.update"))
    press(bot.slack, before, review_blocks.ANSWER_RIGHT, "U6")
    bot.slack.wait_for_call("chat.update", count=already + 1)
    (told,) = find_told(bot, "U6")
    assert told == review_blocks.DECIDED
    refused = {"response_action": "errors", "errors": {"question": review_forms.DECIDED}}
    assert send(bot.slack, view, "U6") == refused
    chosen = send(bot.slack, choosing, "U6", page=page)
    assert chosen["errors"] == {modals.PAGE: review_forms.DECIDED}
    bot.settle(press(bot.slack, before, review_blocks.CHOOSE_PAGE, "U6"))
    (case,) = find_cases(bot.database)
    assert (case.state, case.reviewer, case.gold) == ("dismissed", "U5", ())
    assert "<@U5> says that the answer was right" in read(find_reviews(bot)[0])
    assert len(bot.slack.calls("views.open")) == 3  # the voter's, and those that came too late


def test_a_form_that_was_opened_before_somebody_chose_a_page_is_not_taken(
    bot: Bot, answer: Json, page: int
) -> None:
    before = flag(bot, answer)
    view = open_form(bot.slack, before, review_blocks.MAKE_CASE, "U6")
    send(bot.slack, open_form(bot.slack, before, review_blocks.CHOOSE_PAGE), page=page)
    review = wait_until_shown(bot.slack, "*Right page:*")
    refused = {"response_action": "errors", "errors": {"question": review_forms.CHANGED}}
    assert send(bot.slack, view, "U6") == refused
    (case,) = find_cases(bot.database)
    assert (case.state, case.gold) == ("proposed", (Gold(doc="queue.md", source="wiki"),))
    send(bot.slack, open_form(bot.slack, review, review_blocks.MAKE_CASE, "U6"), "U6")
    (case,) = find_cases(bot.database)
    assert (case.state, case.gold) == ("approved", (Gold(doc="queue.md", source="wiki"),))


def test_of_two_reviewers_at_once_the_second_is_told(bot: Bot, answer: Json) -> None:
    before = flag(bot, answer)
    views = [open_form(bot.slack, before, review_blocks.MAKE_CASE, user) for user in ("U5", "U6")]
    with ThreadPoolExecutor(2) as people:
        told = people.map(
            lambda view, user, words: send(bot.slack, view, user, question=words),
            views,
            ("U5", "U6"),
            ("How long?", "How wide?"),
        )
    refused = [each for each in told if each is not None]
    assert len(refused) == 1
    assert refused[0]["errors"]["question"] in (review_forms.DECIDED, review_forms.CHANGED)
    (case,) = find_cases(bot.database)
    assert (case.reviewer, case.question) in (("U5", "How long?"), ("U6", "How wide?"))


def test_a_page_that_is_not_in_the_index_now_stays_in_the_case(bot: Bot, answer: Json) -> None:
    gold = (Gold(doc="gone.md", span="It is seven.", source="wiki"),)
    review = flag(bot, answer)
    (case,) = find_cases(bot.database)
    cases.save_gold(bot.database, case.case_id, "U5", gold=gold)
    view = open_form(bot.slack, review, review_blocks.MAKE_CASE)
    assert "gone.md, is not in the index now" in view["blocks"][-1]["text"]["text"]
    assert send(bot.slack, view) is None
    (case,) = find_cases(bot.database)
    assert (case.state, case.gold) == ("approved", gold)


def test_a_case_of_more_pages_than_the_form_shows_keeps_them_all(bot: Bot, answer: Json) -> None:
    count = review_forms.MOST_PAGES + 2
    for number in range(count):
        add_page(bot.database, f"{number}.md")
    gold = tuple(Gold(doc=f"{number}.md", source="wiki") for number in range(count))
    review = flag(bot, answer)
    (case,) = find_cases(bot.database)
    cases.save_gold(bot.database, case.case_id, "U5", gold=gold)
    view = open_form(bot.slack, review, review_blocks.MAKE_CASE)
    assert send(bot.slack, view, span1=SPAN) is None
    (case,) = find_cases(bot.database)
    assert case.gold == (gold[0], replace(gold[1], span=SPAN), *gold[2:])


def test_a_question_longer_than_the_field_is_kept(bot: Bot) -> None:
    question = "word " * 900 + "is it long?"
    bot.answerer.answers[question] = NOTHING
    review = flag(bot, bot.ask(question))
    send(bot.slack, open_form(bot.slack, review, review_blocks.MAKE_CASE))
    (case,) = find_cases(bot.database)
    assert (case.state, case.question) == ("approved", question)


def test_of_two_pages_with_one_path_the_one_chosen_counts(bot: Bot, answer: Json) -> None:
    add_page(bot.database, "index.md", title="Wiki", text="# Nothing")
    page = add_page(bot.database, "index.md", title="Handbook", source="handbook")
    review = flag(bot, answer)
    send(bot.slack, open_form(bot.slack, review, review_blocks.CHOOSE_PAGE), page=page)
    review = wait_until_shown(bot.slack, "|Handbook>")
    view = open_form(bot.slack, review, review_blocks.MAKE_CASE)
    assert send(bot.slack, view, span0=SPAN) is None
    (case,) = find_cases(bot.database)
    assert case.gold == (Gold(doc="index.md", span=SPAN, source="handbook"),)


def test_a_case_of_the_set_that_is_flagged_is_shown_once_without_buttons(
    bot: Bot, answer: Json, page: int
) -> None:
    (trace,) = find_rows(bot.database, "traces")
    feedback.vote(bot.database, trace.trace_id, "U1", -1)  # by a process without reviewers
    (case,) = find_cases(bot.database)
    cases.approve(bot.database, case.case_id, "ann")
    vote(bot, answer, user_id="U2")
    review = wait_until_shown(bot.slack, "<@U2>")
    assert "ann has made it a case" in read(review)
    assert find_button(review, review_blocks.MAKE_CASE) is None
    view = dict(bot.slack.calls("views.open")[-1].answer["view"])
    send(bot.slack, view, "U2", reason="wrong", note="it is 500")
    wait_until_shown(bot.slack, "<@U2>: It is wrong – “it is 500”")
    assert len(find_reviews(bot)) == 1
    assert [case.state for case in find_cases(bot.database)] == ["approved"]


def test_what_nobody_flags_in_the_set_is_not_shown(bot: Bot, answer: Json) -> None:
    (trace,) = find_rows(bot.database, "traces")
    feedback.vote(bot.database, trace.trace_id, "U1", -1)
    (case,) = find_cases(bot.database)
    cases.approve(bot.database, case.case_id, "ann")
    feedback.vote(bot.database, trace.trace_id, "U1", 1)
    bot.settle(vote(bot, answer, "positive_button", "U2"))
    assert find_reviews(bot) == []


def test_a_message_that_somebody_deleted_is_posted_anew_once(bot: Bot, answer: Json) -> None:
    before = flag(bot, answer)
    bot.slack.delete({**before, "channel": REVIEWERS})
    now = flag(bot, answer, "U2")
    assert now["ts"] != before["ts"] and len(find_reviews(bot)) == 1
    flag(bot, answer, "U3")
    assert [each["ts"] for each in find_reviews(bot)] == [now["ts"]]


def test_what_never_arrived_is_shown_at_the_next_start(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database) as bot:
        bot.answerer.answers[QUESTION] = NOTHING
        bot.settle(vote(bot, bot.ask(QUESTION)))
    client = posting.build_client(slack.bot_token, slack.api_url)
    rights = Rights(client, database)
    reviews = build_reviews(client, database, rights, Settings(review_channel=REVIEWERS))
    for _ in range(2):
        reviews.show_missed()
    (review,) = slack.messages(REVIEWERS)
    assert f"> {QUESTION}" in read(review)


def test_what_is_long_past_is_not_shown_at_the_next_start(
    slack: SlackStandIn, database: Database
) -> None:
    feedback.vote(database, ask(database), "U1", -1)
    with database.transaction() as connection:
        connection.execute(text("UPDATE eval_cases SET created_at = now() - interval '31 days'"))
    client = posting.build_client(slack.bot_token, slack.api_url)
    rights = Rights(client, database)
    build_reviews(client, database, rights, Settings(review_channel=REVIEWERS)).show_missed()
    assert slack.messages(REVIEWERS) == []


def test_a_click_on_a_case_that_is_gone_takes_its_message_along(bot: Bot, answer: Json) -> None:
    review = flag(bot, answer)
    with bot.database.transaction() as connection:
        connection.execute(text("DELETE FROM eval_cases"))
    bot.settle(press(bot.slack, review, review_blocks.MAKE_CASE))
    assert find_reviews(bot) == []


def mark_wrong(bot: Bot, message: Json, page: int) -> list[Json]:
    """Have a page marked as wrong by U5; what stands in the thread of the review then."""
    review = flag(bot, message)
    send(bot.slack, open_form(bot.slack, review, review_blocks.CHOOSE_PAGE), page=page)
    press(bot.slack, wait_until_shown(bot.slack, "*Right page:*"), review_blocks.PAGE_WRONG)
    review = wait_until_shown(bot.slack, "<@U5> says that a page is wrong: <")
    assert find_button(review, review_blocks.PAGE_WRONG) is None
    assert find_button(review, review_blocks.MAKE_CASE) is not None
    return [each for each in bot.slack.messages(REVIEWERS) if "thread_ts" in each]


@pytest.mark.parametrize(
    ("owner", "experts", "told"),
    [
        ("Team <!channel>", {}, "Its owner is Team &lt;!channel&gt;: please tell them."),
        (None, {"*": "C4"}, "I told <#C4>."),
        (None, {"guide": "C4"}, "It names no owner."),
        ("Ops", {"Ops": "C4"}, "I told <#C4>."),
        (None, {"wiki": "C4"}, "I told <#C4>."),
        ("Ops", {"Ops": "S4", "wiki": "C5"}, "Please put it right."),
    ],
)
def test_the_owner_of_a_page_that_is_wrong_is_told(
    slack: SlackStandIn,
    database: Database,
    owner: str | None,
    experts: dict[str, str],
    told: str,
) -> None:
    page = add_page(database, "queue.md", owner=owner)
    with connected(slack, database, experts, review_channel=REVIEWERS) as bot:
        bot.answerer.answers[QUESTION] = NOTHING
        (line,) = mark_wrong(bot, bot.ask(QUESTION), page)
    assert line["text"].endswith(told)
    assert ("<!subteam^S4> <@U5> says" in line["text"]) == (experts.get("Ops") == "S4")
    assert "<https://wiki.example/queue.md|The queue>" in line["text"]
    (case,) = find_cases(database)
    assert (case.state, case.page_wrong_by) == ("proposed", "U5")
    elsewhere = slack.messages("C4")
    if "<#C4>" in told:
        (message,) = elsewhere
        place = f"https://stand-in.slack.com/archives/C7/p{str(case.review_ts).replace('.', '')}"
        place += f"?thread_ts={case.review_ts}&amp;cid=C7"
        assert message["text"].endswith(f"Please put it right. See <{place}|the review>.")
        assert QUESTION not in message["text"]  # they see the question if they may see the review
    else:
        assert elsewhere == []


def test_p47_where_not_all_may_read_a_page_nobody_is_told_that_it_is_wrong(
    slack: SlackStandIn, database: Database
) -> None:
    page = add_page(database, "queue.md")
    slack.workspace.channels[REVIEWERS] = {"is_private": True}
    with database.unrestricted.transaction() as connection:
        audiences.assign(connection, (f"channel:{REVIEWERS}",), [page])
    with connected(slack, database, {"*": "C4"}, review_channel=REVIEWERS) as bot:
        bot.answerer.answers[QUESTION] = NOTHING
        (line,) = mark_wrong(bot, bot.ask(QUESTION), page)
    assert line["text"].endswith("It names no owner.")
    assert slack.messages("C4") == []


def test_another_page_can_be_marked_as_wrong_after_one(bot: Bot, answer: Json, page: int) -> None:
    other = add_page(bot.database, "other.md", title="Another")
    assert len(mark_wrong(bot, answer, page)) == 1
    view = open_form(bot.slack, find_reviews(bot)[0], review_blocks.CHOOSE_PAGE)
    send(bot.slack, view, page=other)
    review = wait_until_shown(bot.slack, "|Another>")
    press(bot.slack, review, review_blocks.PAGE_WRONG, "U6")
    review = wait_until_shown(bot.slack, "<@U6> says that a page is wrong: <")
    assert "|Another>" in read(review).split("says that a page is wrong: ")[1]
    told = [each for each in bot.slack.messages(REVIEWERS) if "thread_ts" in each]
    assert ["|Another>" in each["text"] for each in told] == [False, True]


def test_that_no_owner_was_told_is_said_to_who_marked_the_page(
    slack: SlackStandIn, database: Database
) -> None:
    page = add_page(database, "queue.md", owner="Ops")
    slack.workspace.channels["C4"] = {"is_archived": True}
    with connected(slack, database, {"Ops": "C4"}, review_channel=REVIEWERS) as bot:
        bot.answerer.answers[QUESTION] = NOTHING
        assert mark_wrong(bot, bot.ask(QUESTION), page) == []
    told = slack.calls("chat.postEphemeral")[-1]
    assert (told.params["user"], told.params["text"]) == ("U5", review_blocks.OWNER_NOT_TOLD)


@pytest.mark.parametrize("answer_strangers", [False, True])
def test_people_of_other_companies_decide_nothing(
    slack: SlackStandIn, database: Database, answer_strangers: bool
) -> None:
    slack.workspace.users["U8"] = {"team_id": "T0002"}
    with connected(
        slack, database, review_channel=REVIEWERS, answer_strangers=answer_strangers
    ) as bot:
        bot.answerer.answers[QUESTION] = NOTHING
        answer = bot.ask(QUESTION)
        review = flag(bot, answer)
        pressed = [
            press(bot.slack, review, action_id, "U8")
            for action_id in (review_blocks.ANSWER_RIGHT, review_blocks.MAKE_CASE)
        ]
        reply = bot.slack.write(REPLY, channel_id="C1", thread_ts=answer["thread_ts"])
        bot.settle(*pressed, use_shortcut(bot, reply, "U8"), say(bot, REPLY, answer, "U8"))
    (case,) = find_cases(database)
    assert (case.state, case.answer) == ("proposed", "")
    assert len(slack.calls("views.open")) == 1  # the voter's


def test_nothing_that_people_write_calls_anybody_or_leads_elsewhere(
    bot: Bot, database: Database
) -> None:
    hostile = f"{PINGING} *bold* `code`\n> <https://evil.example|wiki>"
    page = add_page(database, "evil.md", title=hostile, url="javascript:x", owner=hostile)
    bot.answerer.answers[QUESTION] = Answer(text=hostile, abstained_because="UNSUPPORTED")
    answer = bot.ask(QUESTION)
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET question = :hostile"), {"hostile": hostile})
    flag(bot, answer)
    view = dict(bot.slack.calls("views.open")[0].answer["view"])
    send(bot.slack, view, "U1", reason="outdated", page=page, note=hostile)
    review = wait_until_shown(bot.slack, "*Right page:*")
    press(bot.slack, review, review_blocks.PAGE_WRONG)
    wait_until_shown(bot.slack, "says that a page is wrong")
    assert "`" in read(review)
    for message in bot.slack.messages(REVIEWERS):
        shown = read(message) + message["text"]
        for ours in ("<@U1>", "<@U5>", "<#C1>", "<https://stand-in"):
            shown = shown.replace(ours, "")
        assert "<" not in shown, shown


def test_what_slack_refuses_is_tried_again_by_the_next_flag(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database, review_channel=REVIEWERS) as bot:
        bot.answerer.answers[QUESTION] = NOTHING
        answer = bot.ask(QUESTION)
        slack.fail_next("chat.postMessage", body={"ok": False, "error": "channel_not_found"})
        bot.settle(vote(bot, answer))
    with connected(slack, database, review_channel=REVIEWERS) as bot:
        assert find_reviews(bot) == []
        assert "by 2 people" in read(flag(bot, answer, "U2"))


def test_what_may_stand_there_is_not_posted_again(bot: Bot, answer: Json) -> None:
    bot.slack.fail_next("chat.postMessage", drop_connection=True, after_storing=True)
    vote(bot, answer)
    bot.slack.wait_for_call("chat.postEphemeral")
    bot.settle(vote(bot, answer, user_id="U2"))
    assert len(find_reviews(bot)) == 1


def test_a_flag_on_a_newer_answer_is_reviewed_anew(bot: Bot, answer: Json) -> None:
    before = flag(bot, answer)
    press(bot.slack, before, review_blocks.ANSWER_RIGHT)
    wait_until_shown(bot.slack, "<@U5> says that the answer was right")
    now = flag(bot, bot.ask(QUESTION, user_id="U2"), "U2")
    assert now["ts"] == before["ts"] and len(find_reviews(bot)) == 1
    assert find_button(now, review_blocks.MAKE_CASE) is not None
    (case,) = find_cases(bot.database)
    assert (case.state, case.reviewer) == ("proposed", None)


def test_a_form_that_does_not_open_is_told_privately(bot: Bot, answer: Json) -> None:
    review = flag(bot, answer)
    bot.slack.fail_next("views.open")
    press(bot.slack, review, review_blocks.MAKE_CASE)
    (told,) = bot.slack.wait_for_call("response_url")
    assert told.params["text"].startswith("Sorry, something broke")


def test_a_form_that_cannot_be_kept_stays_open(bot: Bot, answer: Json) -> None:
    view = open_form(bot.slack, flag(bot, answer), review_blocks.MAKE_CASE)
    told = send(bot.slack, {**view, "private_metadata": "?"})
    assert list(told["errors"]) == [review_forms.QUESTION]


def use_shortcut(bot: Bot, message: Json, user_id: str = "U5") -> str:
    return bot.slack.send_message_shortcut(
        "save_as_case", message, user_id=user_id, channel_id="C1"
    )


def open_saving(bot: Bot, message: Json) -> Json:
    already = len(bot.slack.calls("views.open"))
    use_shortcut(bot, message)
    calls = bot.slack.wait_for_call("views.open", count=already + 1)
    return dict(calls[-1].answer["view"])


def read_fields(view: Json) -> dict[str, Any]:
    return {
        block["block_id"]: block["element"].get("initial_value")
        or block["element"].get("initial_option", {}).get("value")
        for block in view["blocks"]
        if block["type"] == "input"
    }


def test_what_a_person_answered_is_saved_as_a_case(bot: Bot, answer: Json, page: int) -> None:
    said = "<@U1> see <https://wiki.example/queue.md?x=1#top|the page>: it holds 500 jobs"
    reply = bot.slack.write(said, channel_id="C1", user_id="U2", thread_ts=answer["thread_ts"])
    view = open_saving(bot, reply)
    words = "@U1 see the page: it holds 500 jobs"
    assert read_fields(view) == {"question": QUESTION, "page": str(page), "answer": words}
    kept = send(bot.slack, view)
    assert kept["response_action"] == "update"
    assert kept["view"]["blocks"][0]["text"]["text"] == review_forms.KEPT_FOR_REVIEW
    review = wait_until_shown(bot.slack, "*A question was answered by hand*")
    assert f"*Answered by hand:* {words}" in read(review)
    (case,) = find_cases(bot.database)
    assert (case.state, case.origin, case.question) == ("proposed", "reply", QUESTION)
    assert (case.answer, case.gold) == (words, (Gold(doc="queue.md", source="wiki"),))
    press(bot.slack, review, review_blocks.ANSWER_RIGHT)
    wait_until_shown(bot.slack, "<@U5> says that this is no case")


def test_the_question_is_else_what_the_thread_begins_with(bot: Bot) -> None:
    root = bot.slack.write("where is the &lt;key&gt;?", channel_id="C1", user_id="U1")
    reply = bot.slack.write("under the mat", channel_id="C1", user_id="U2", thread_ts=root["ts"])
    view = open_saving(bot, reply)
    assert read_fields(view)["question"] == "where is the <key>?"
    bot.slack.fail_next("conversations.replies", body={"ok": False, "error": "missing_scope"})
    view = open_saving(bot, reply)
    assert read_fields(view)["question"] is None
    assert send(bot.slack, view)["errors"] == {"question": review_forms.EMPTY}
    assert send(bot.slack, view, question="where is the key?")["response_action"] == "update"
    assert wait_until_shown(bot.slack, "> where is the key?")


def test_without_a_channel_a_reply_is_kept_for_review(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database) as bot:
        view = open_saving(bot, bot.slack.write("under the mat", channel_id="C1"))
        assert send(bot.slack, view, question="where is the key?")["response_action"] == "update"
    (case,) = find_cases(database)
    assert (case.state, case.answer, case.review_ts) == ("proposed", "under the mat", None)


def test_a_question_that_is_a_case_already_stays_as_it_is(bot: Bot, answer: Json) -> None:
    send(bot.slack, open_form(bot.slack, flag(bot, answer), review_blocks.MAKE_CASE))
    wait_until_shown(bot.slack, "<@U5> has made it a case")
    reply = bot.slack.write(REPLY, channel_id="C1", user_id="U2", thread_ts=answer["thread_ts"])
    told = send(bot.slack, open_saving(bot, reply))["view"]["blocks"][0]["text"]["text"]
    assert told == review_forms.CASE_ALREADY
    (case,) = find_cases(bot.database)
    assert (case.state, case.answer) == ("approved", "")


def test_the_shortcut_is_for_what_people_write(bot: Bot, answer: Json) -> None:
    use_shortcut(bot, {**answer, "channel": "C1"})
    use_shortcut(bot, bot.slack.write(" ", channel_id="C1"))
    told = {call.params["text"] for call in bot.slack.wait_for_call("response_url", count=2)}
    assert told == {review_forms.FOR_REPLIES, review_forms.NO_WORDS}
    assert bot.slack.calls("views.open") == ()


def say(bot: Bot, words: str, answer: Json, user_id: str = "U2") -> str:
    message = bot.slack.write(
        words, channel_id="C1", user_id=user_id, thread_ts=answer["thread_ts"]
    )
    return bot.slack.send_event(message)


def test_what_a_person_answers_in_the_thread_is_offered_by_itself(
    bot: Bot, answer: Json, page: int
) -> None:
    say(bot, REPLY, answer)
    review = wait_until_shown(bot.slack, "*A question was answered by hand*")
    assert f"> {QUESTION}" in read(review) and f"*Answered by hand:* {REPLY}" in read(review)
    bot.settle(say(bot, f"As I said before, {REPLY}", answer, "U3"))
    (case,) = find_cases(bot.database)  # once a question
    assert (case.origin, case.state, case.answer) == ("reply", "proposed", REPLY)
    assert len(find_reviews(bot)) == 1


def test_what_links_to_a_page_takes_the_place_of_what_was_only_said(
    bot: Bot, answer: Json, page: int
) -> None:
    say(bot, "Sorry, no idea either, I am out today and will look at it tomorrow.", answer)
    wait_until_shown(bot.slack, "no idea")
    say(bot, "It is 500: <https://wiki.example/queue.md>", answer, "U3")
    review = wait_until_shown(bot.slack, "It is 500")
    bot.settle(say(bot, "Or <https://wiki.example/queue.md>", answer, "U4"))
    (case,) = find_cases(bot.database)
    assert case.answer == "It is 500: https://wiki.example/queue.md"
    assert case.gold == (Gold(doc="queue.md", source="wiki"),)
    assert [each["ts"] for each in find_reviews(bot)] == [review["ts"]]


@pytest.mark.parametrize("is_offered", [True, False])
def test_what_was_answered_follows_its_message(bot: Bot, answer: Json, is_offered: bool) -> None:
    reply = bot.slack.write(REPLY, channel_id="C1", user_id="U2", thread_ts=answer["thread_ts"])
    if is_offered:
        bot.slack.send_event(reply)
    else:
        send(bot.slack, open_saving(bot, reply))
    wait_until_shown(bot.slack, REPLY)
    bot.slack.send_event(bot.slack.edit(reply, "The queue holds six hundred jobs by now."))
    wait_until_shown(bot.slack, "holds six hundred jobs by now.")
    (case,) = find_cases(bot.database)
    assert case.answer == "The queue holds six hundred jobs by now."
    bot.settle(bot.slack.send_event(bot.slack.delete(reply)))
    assert find_cases(bot.database) == [] and find_reviews(bot) == []


def test_what_was_answered_goes_from_a_flagged_case_with_its_message(
    bot: Bot, answer: Json
) -> None:
    flag(bot, answer)
    reply = bot.slack.write(REPLY, channel_id="C1", user_id="U2", thread_ts=answer["thread_ts"])
    bot.slack.send_event(reply)
    wait_until_shown(bot.slack, REPLY)
    bot.settle(bot.slack.send_event(bot.slack.delete(reply)))
    (case,) = find_cases(bot.database)
    assert (case.state, case.answer) == ("proposed", "")
    assert REPLY not in read(find_reviews(bot)[0])


def test_nothing_is_offered_from_private_channels_but_it_may_be_saved(bot: Bot) -> None:
    bot.answerer.answers[QUESTION] = NOTHING
    before = len(bot.ended.having())
    event = bot.slack.write(f"<@U0BOT> {QUESTION}", channel_id="G1")
    bot.slack.send_event({**event, "type": "app_mention"})
    bot.ended.wait_for(count=before + 1, timeout_s=SOON)
    reply = bot.slack.write(REPLY, channel_id="G1", user_id="U2", thread_ts=event["ts"])
    assert reply["channel_type"] == "group"
    bot.slack.wait_for_ack(bot.slack.send_event(reply))
    bot.slack.send_message_shortcut("save_as_case", reply, user_id="U5", channel_id="G1")
    (opened,) = bot.slack.wait_for_call("views.open")
    assert find_cases(bot.database) == []
    send(bot.slack, dict(opened.answer["view"]))
    assert wait_until_shown(bot.slack, REPLY)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("<https://wiki.example/queue.md/>", 1),
        ("<https://wiki.example/other.md>", 0),
        ("Five hundred, I think", 0),
        ("キューには五百件のジョブが入ります。", 1),  # no blanks between words
        ("队列最多可容纳五百个作业", 1),
        ("คิวรองรับงานได้ห้าร้อยงาน", 1),
        ("五百です", 0),
        ("Did you look at what the people of the platform team wrote?", 0),
        (f"<@U0BOT> {REPLY}", 0),
    ],
)
def test_only_a_reply_with_substance_is_offered(
    bot: Bot, answer: Json, page: int, words: str, count: int
) -> None:
    bot.settle(say(bot, words, answer))
    assert len(find_cases(bot.database)) == count


def test_neither_the_asker_nor_a_bot_answers_by_hand(bot: Bot, answer: Json) -> None:
    other = bot.slack.write(REPLY, channel_id="C1", user_id="U2", thread_ts=answer["thread_ts"])
    bot.settle(say(bot, REPLY, answer, "U1"), bot.slack.send_event({**other, "bot_id": "B9"}))
    assert find_cases(bot.database) == []


def test_an_answered_question_is_not_offered(bot: Bot) -> None:
    bot.settle(say(bot, REPLY, bot.ask("how wide is it?")))
    assert find_cases(bot.database) == []


def test_what_was_decided_is_not_offered_again(bot: Bot, answer: Json) -> None:
    say(bot, REPLY, answer)
    press(bot.slack, wait_until_shown(bot.slack, "by hand"), review_blocks.ANSWER_RIGHT)
    wait_until_shown(bot.slack, "no case")
    bot.settle(say(bot, REPLY, answer, "U3"))
    (case,) = find_cases(bot.database)
    assert case.state == "dismissed"


def test_the_passage_is_proposed_before_the_case_is_made(
    slack: SlackStandIn, indexed: Database, retriever: "Retriever"
) -> None:
    question = "when does TrackingConsumerLagHigh wake someone up?"
    path = "runbooks/TrackingConsumerLagHigh.md"
    (page,) = (found for found in feedback.find_pages(indexed, "Tracking") if found.path == path)
    with connected(slack, indexed, review_channel=REVIEWERS, retriever=retriever) as bot:
        bot.answerer.answers[question] = NOTHING
        answer = bot.ask(question)
        vote(bot, answer)
        wait_until_shown(bot.slack, "<@U1>")
        feedback.save_complaint(
            indexed,
            find_rows(indexed, "traces")[0].trace_id,
            "U1",
            feedback.Complaint(document_id=page.document_id),
        )
        view = open_found(bot.slack, find_reviews(bot)[0])
        span = read_fields(view)["span0"]
        assert holds(indexed, page.document_id, span)
        others = [block["elements"][0]["text"] for block in view["blocks"][3:]]
        assert others[0] == review_forms.OTHERS and 2 <= len(others) <= MOST
        assert mrkdwn.quote(span, review_forms.OTHER_LENGTH) not in " ".join(others)
        view = open_form(bot.slack, find_reviews(bot)[0], review_blocks.CHOOSE_PAGE)
        send(bot.slack, view, page=page.document_id)
        shown = wait_until_shown(bot.slack, mrkdwn.quote(span, review_blocks.QUOTED_SPAN))
        view = open_found(bot.slack, shown)
        assert read_fields(view)["span0"] == span
        assert send(bot.slack, view) is None
        wait_until_shown(bot.slack, "has made it a case")
    (case,) = find_cases(indexed)
    assert case.gold == (Gold(doc=path, span=span, source="wiki"),)


class Waiting:
    """A retriever that reads no page before it may."""

    def __init__(self, retriever: "Retriever") -> None:
        self.embedder = retriever.embedder
        self.has_begun, self.until = Event(), Event()
        self._retriever = retriever

    def reading_as(self, _audiences: Iterable[str]) -> "Waiting":
        return self

    def read_page(self, query: Query, document_id: int) -> list[Candidate]:
        self.has_begun.set()
        assert self.until.wait(SOON)
        return self._retriever.read_page(query, document_id)


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_passage_found_late_changes_nothing_that_somebody_chose(
    slack: SlackStandIn, indexed: Database, retriever: "Retriever", is_approved: bool
) -> None:
    (page, *_) = feedback.find_pages(indexed, "Tracking")
    waiting = Waiting(retriever)
    with connected(slack, indexed, review_channel=REVIEWERS, retriever=waiting) as bot:  # type: ignore[arg-type]
        bot.answerer.answers[QUESTION] = NOTHING
        review = flag(bot, bot.ask(QUESTION))
        view = open_form(bot.slack, review, review_blocks.CHOOSE_PAGE)
        assert send(bot.slack, view, page=page.document_id) is None
        assert waiting.has_begun.wait(SOON)
        (case,) = find_cases(indexed)
        chosen = (Gold(doc="other.md", span="Something else."),)
        if is_approved:
            assert cases.approve(indexed, case.case_id, "U6")
        else:
            assert cases.save_gold(indexed, case.case_id, "U6", gold=chosen)
        waiting.until.set()
    (after,) = find_cases(indexed)
    assert (after.reviewer, after.gold) == ("U6", case.gold if is_approved else chosen)
