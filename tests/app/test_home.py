"""App Home: what Footnote knows, how to ask, and one's own questions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app import home
from app.blocks import BLOCK_TEXT
from app.records import OwnQuestion
from app.stats import Source
from retrieval.db import Database
from tests.app.bot import Bot, connected
from tests.app.questions import add_page, ask
from tests.stand_ins import slack_limits
from tests.stand_ins.slack import SlackStandIn

URL = "https://acme.slack.com/"
ASKED = OwnQuestion(
    question="how long?",
    asked_at=datetime(2026, 11, 30, 23, tzinfo=UTC),
    outcome="answered",
    channel_id="C1",
    thread_ts="1767225601.000001",
    answer_ts="1767225602.000002",
)
WIKI = Source(name="wiki", fresh=1, stale=400, undated=0)


def texts(blocks: list[dict[str, Any]]) -> list[str]:
    return [block["text"]["text"] for block in blocks if block["type"] == "section"]


def build(
    sources: list[Source] | None = None,
    asked: list[OwnQuestion] | None = None,
    *,
    workspace_url: str | None = URL,
) -> list[str]:
    """The texts of what is known, how to ask, and what was asked."""
    blocks = home.build_blocks(
        sources or [], asked or [], freshness_days=365, workspace_url=workspace_url
    )
    assert not slack_limits.problems(blocks)
    return texts(blocks)


def test_sources_have_their_pages_and_how_fresh_they_are() -> None:
    guide = Source(name="team_guide", fresh=0, stale=0, undated=1)
    assert build([guide, WIKI])[0] == (
        "• team_guide, 1 page (1 without a verification date)\n"
        "• wiki, 401 pages (1 verified within 365 days, 400 longer ago)"
    )


def test_without_pages_it_says_so() -> None:
    known, how, asked = build()
    assert known == "There are no pages that I may show you."
    assert all(word in how for word in ("mention", "Directly", "thread", "👎", "/ragstats"))
    assert all(word in how for word in ("half an hour", "new topic", "you need not"))
    assert asked == "Nothing yet."


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("answered", "answer"),
        ("abstained", "no answer found"),
        ("failed", "something broke"),
        ("limited", "over the hourly limit"),
        ("stopped", "stopped"),
        ("pending", "not answered yet"),
    ],
)
def test_a_question_leads_to_its_answer(outcome: str, said: str) -> None:
    asked = OwnQuestion(
        question=ASKED.question,
        asked_at=ASKED.asked_at,
        outcome=outcome,
        channel_id="C1",
        thread_ts=ASKED.thread_ts,
        answer_ts=ASKED.answer_ts,
    )
    link = (
        "https://acme.slack.com/archives/C1/p1767225602000002"
        "?thread_ts=1767225601.000001&amp;cid=C1"
    )
    assert build(asked=[asked])[-1] == f"• how long? · 2026-11-30 · <{link}|{said}>"


def test_without_an_address_there_is_no_link() -> None:
    assert build(asked=[ASKED], workspace_url=None)[-1] == "• how long? · 2026-11-30 · answer"


@pytest.mark.parametrize("words", ["&" * 500, "<!here> *x*\n> y", "`_~", "\u202ex"])
def test_whatever_there_is_fits_slack_and_calls_nobody(words: str) -> None:
    source = Source(name=words, fresh=10**6, stale=10**6, undated=10**6)
    asked = OwnQuestion(
        question=words,
        asked_at=ASKED.asked_at,
        outcome="answered",
        channel_id="C1",
        thread_ts=ASKED.thread_ts,
        answer_ts=None,
    )
    blocks = home.build_blocks(
        [source] * 1_000, [asked] * 10, freshness_days=365, workspace_url=URL
    )
    assert len(blocks) < 100
    assert not slack_limits.problems(blocks)
    assert max(map(len, texts(blocks))) <= BLOCK_TEXT
    assert any("970 more sources, 2,910,000,000 pages" in text for text in texts(blocks))
    assert not set("<>\u202e") & set("".join(texts(blocks)))


def open_home(bot: Bot, *, user_id: str = "U1") -> str:
    return bot.slack.send_event(
        {
            "type": "app_home_opened",
            "user": user_id,
            "channel": "D1",
            "tab": "home",
            "event_ts": "1800000000.000001",
        }
    )


def test_who_opens_the_home_tab_sees_sources_and_their_own_questions_alone(bot: Bot) -> None:
    add_page(bot.database, "wiki", "a.md", verified_days_ago=10)
    answer = bot.ask("how long?", user_id="U1")
    bot.ask("is Ann paid more?", user_id="U2")
    ask(bot.database, question="", user_id="U1")  # a bare mention
    open_home(bot, user_id="U1")
    (call,) = bot.slack.wait_for_call("views.publish")
    assert call.answer is not None and call.answer["ok"]
    assert (call.params["user_id"], call.params["view"]["type"]) == ("U1", "home")
    known, _, asked = texts(call.params["view"]["blocks"])
    assert known == "• wiki, 1 page (1 verified within 365 days)"
    place = f"https://stand-in.slack.com/archives/C1/p{answer['ts'].replace('.', '')}"
    link = f"<{place}?thread_ts={answer['thread_ts']}&amp;cid=C1|answer>"
    assert asked.startswith("• how long? · 20") and asked.endswith(f" · {link}")
    assert "Ann" not in str(call.params)


def test_the_last_questions_are_shown_latest_first(bot: Bot) -> None:
    for number in range(12):
        ask(bot.database, question=f"question {number}?", days_ago=1 + number)
    open_home(bot)
    (call,) = bot.slack.wait_for_call("views.publish")
    lines = texts(call.params["view"]["blocks"])[-1].splitlines()
    assert [line.split(" · ")[0] for line in lines] == [f"• question {n}?" for n in range(10)]


def test_where_slack_does_not_say_its_address_there_are_no_links(bot: Bot) -> None:
    bot.ask("how long?")
    bot.slack.fail_next("auth.test")
    open_home(bot)
    (call,) = bot.slack.wait_for_call("views.publish")
    assert texts(call.params["view"]["blocks"])[-1].endswith(" · answer")


@pytest.mark.parametrize(
    "fault", [{"body": {"ok": False, "error": "not_enabled"}}, {"drop_connection": True}]
)
def test_a_home_that_slack_refuses_is_logged_by_class_alone(
    bot: Bot, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    ask(bot.database, question="how long is the queue?")
    bot.slack.fail_next("views.publish", **fault)
    bot.settle(open_home(bot))
    (record,) = [record for record in caplog.records if record.name == "app.posting"]
    kind = "RemoteDisconnected" if "drop_connection" in fault else "SlackApiError"
    assert record.getMessage() == f"views.publish did not work: {kind}"
    assert record.exc_info is None
    assert "how long is the queue?" not in caplog.text


def test_a_database_out_of_reach_is_logged_and_tells_nobody(
    slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with connected(slack, unreachable, is_working=False) as bot:
        bot.settle(open_home(bot))
    assert slack.calls("views.publish") == ()
    assert "failed" in caplog.text
