"""The stale pages that are told once a month."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from threading import Event
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.web import SlackResponse
from sqlalchemy import text

from app import posting, serve
from app.blocks import BLOCK_TEXT, MESSAGE_BLOCKS, MESSAGE_TEXT, Block
from app.config import Settings
from app.loop import schedule, stale_pages
from app.loop.stale_pages import MOST_MESSAGES, MOST_PAGES, StalePage
from retrieval.db import Database
from retrieval.embedding import Embedder
from tests.app.questions import add_page, ask
from tests.retrieval.pages import build_retriever
from tests.stand_ins.slack import SlackStandIn

NOVEMBER = datetime(2026, 11, 30, 3, tzinfo=UTC)
SETTINGS = Settings(report_channel="C1", experts={"IT": "C2", "HR": "S000000001", "*": "C9"})


@pytest.fixture
def client(slack: SlackStandIn) -> Iterator[WebClient]:
    yield posting.build_client(slack.bot_token, slack.api_url)


def add(
    database: Database,
    title: str,
    owner: str | None = None,
    *,
    verified_on: str | None = "2022-03-01",
    audience: str = "everyone",
    **fields: Any,
) -> int:
    url, day = f"https://wiki.example/{title}", verified_on and date.fromisoformat(verified_on)
    source = fields.pop("source", "wiki")
    return add_page(
        database, source, title, audience=audience, url=url, owner=owner, verified_at=day, **fields
    )


def cite(database: Database, document_id: int) -> None:
    citations = [{"document_id": document_id}]
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET citations = CAST(:citations AS jsonb) WHERE trace_id = :id"),
            {"id": ask(database), "citations": json.dumps(citations)},
        )


def post(
    client: WebClient, database: Database, settings: Settings = SETTINGS, now: datetime = NOVEMBER
) -> None:
    stale_pages.post_monthly(client, database, settings, now=now)


def find_told(slack: SlackStandIn) -> dict[str, list[str]]:
    """The titles that were told, by place."""
    return {
        call.params["channel"]: re.findall(
            r"<https://[^|]*\|([^>]*)>", json.dumps(call.params["blocks"])
        )
        for call in slack.calls("chat.postMessage")
    }


def test_each_place_is_told_of_its_pages_in_one_message(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "Laptops", "U000000005")
    add(database, "VPN", "IT")
    add(database, "Printers", "IT")
    add(database, "Leave", "HR")  # a user group has no channel
    add(database, "Parking")
    add(database, "Shared", "U000000005, U000000006")
    add(database, "Fresh", "IT", verified_on="2099-01-01")
    add(database, "Undated", "IT", verified_on=None)
    add(database, "Slow", "IT", freshness_days=36_500)
    add(database, "Gone", "IT", is_superseded=True)
    add(database, "Travel policy 2023", "IT")
    add(database, "Travel policy 2024", "IT", verified_on="2099-01-01")
    post(client, database)
    told = find_told(slack)
    assert told == {
        "U000000005": ["Laptops", "Shared"],
        "U000000006": ["Shared"],
        "C2": ["Printers", "VPN"],
        "C1": ["Leave", "Parking"],
    }


def test_who_looks_after_pages_alone_is_told_which_of_them_hold_secrets(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "Laptops", "U000000005")
    add(database, "Keys", "U000000005", verified_on="2099-01-01", secret_kinds=["password"])
    add(database, "Logins", "U000000006", verified_on=None, secret_kinds=["password", "token"])
    add(database, "Others", "U000000006", audience="user:U000000005", secret_kinds=["password"])
    post(client, database)
    calls = slack.calls("chat.postMessage")
    shown = [[read_block(each) for each in call.params["blocks"]] for call in calls]
    masked = "with passwords, keys or the like. I mask them here: take them out there, and replace"
    assert sorted(shown) == sorted(
        [
            [
                "*1 page was last verified long ago. Still true? Confirm it, or change it where it "
                "is.*",
                "<https://wiki.example/Laptops|Laptops> · last verified 2022-03-01",
                "1 page with passwords, keys or the like: see the thread.",
            ],
            [f"*1 page {masked} them.*\n• <https://wiki.example/Keys|Keys>"],
            [f"*1 page {masked} them.*\n• <https://wiki.example/Logins|Logins>"],
        ]
    )
    assert {call.params["channel"] for call in calls} == {"U000000005", "U000000006"}


def test_the_most_cited_page_and_its_owner_come_first(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    slack.workspace.groups["S000000001"] = []
    both = "Cleo, S000000001"
    add(database, "A", both)
    one, other = add(database, "B", "Bo"), add(database, "C", both)
    for document_id in (one, one, other):
        cite(database, document_id)
    post(client, database)
    (call,) = slack.calls("chat.postMessage")
    shown = [block["text"]["text"] for block in call.params["blocks"]]
    title = (
        "3 pages were last verified long ago. Still true? Confirm them, or change them where they "
        "are."
    )
    assert call.params["text"] == title
    verified = "last verified 2022-03-01"
    assert shown == [
        f"*{title}*",
        "*Bo*",
        f"<https://wiki.example/B|B> · {verified} · cited in 2 answers in 90 days",
        "*Cleo and s000000001*",
        f"<https://wiki.example/C|C> · {verified} · cited in 1 answer in 90 days",
        f"<https://wiki.example/A|A> · {verified}",
    ]
    buttons = [block["accessory"] for block in call.params["blocks"] if "accessory" in block]
    assert [button["text"]["text"] for button in buttons] == ["Still true"] * 3


def test_a_place_is_told_once_a_month(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "VPN", "IT")
    for now in (NOVEMBER, NOVEMBER - timedelta(days=20), NOVEMBER):
        post(client, database, now=now)
    assert len(slack.calls("chat.postMessage")) == 1
    assert len(slack.calls("conversations.info")) == 1  # nothing is looked up for what is told
    post(client, database, now=NOVEMBER + timedelta(days=1))  # December
    assert len(slack.calls("chat.postMessage")) == 2


def test_what_slack_refuses_is_tried_again_and_keeps_no_other_from_being_told(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "VPN", "IT")
    add(database, "Yard")
    slack.fail_next("chat.postMessage", body={"ok": False, "error": "not_in_channel"})
    post(client, database)
    post(client, database)
    places = [call.params["channel"] for call in slack.calls("chat.postMessage")]
    assert sorted(places) == ["C1", "C2", "C2"]


def test_what_may_stand_there_is_not_told_again(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "VPN", "IT")
    slack.fail_next("chat.postMessage", drop_connection=True, after_storing=True)
    post(client, database)
    post(client, database)
    assert len(slack.calls("chat.postMessage")) == 1


class Dying(WebClient):
    """A client whose process is killed before its second message."""

    def chat_postMessage(self, **arguments: Any) -> SlackResponse:
        if arguments["thread_ts"]:
            raise KeyboardInterrupt
        return super().chat_postMessage(**arguments)


def test_a_process_that_is_killed_between_two_messages_is_followed_by_none_that_tells_again(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    for number in range(MOST_PAGES + 1):
        add(database, f"Page {number}", "IT")
    with pytest.raises(KeyboardInterrupt):
        post(Dying(client.token, client.base_url), database)
    with database.unrestricted.transaction() as connection:
        connection.execute(text("UPDATE scheduled_runs SET started_at = '2020-01-01'"))
    post(client, database)
    (told,) = slack.calls("chat.postMessage")
    assert told.params["text"].startswith("13 pages")


def test_nobody_is_told_of_a_page_that_somebody_there_may_not_read(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "Bonuses", audience="group:S000000001")
    add(database, "Salaries", "U000000005", audience="user:U000000006")
    add(database, "Own", "U000000006", audience="user:U000000006")
    slack.workspace.groups["S000000001"] = ["U000000005"]
    post(client, database)
    assert find_told(slack) == {"U000000006": ["Own"]}


def test_where_others_than_colleagues_read_nothing_is_told(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    slack.workspace.channels["C1"] = {"is_ext_shared": True}
    add(database, "Parking", audience="public")
    post(client, database)
    assert not slack.calls("chat.postMessage")


def test_without_a_report_channel_owners_are_told(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "VPN", "IT")
    add(database, "Parking")
    post(client, database, Settings(experts={"IT": "C2"}))
    assert find_told(slack) == {"C2": ["VPN"]}


@pytest.mark.parametrize("words", ["&" * 400, "<!channel> " * 40, "<@U1> @here `*_~", "\u202eevil"])
@pytest.mark.parametrize("url", [f"https://wiki.example/?{'&' * 1_400}", "javascript:x"])
def test_whatever_pages_are_called_it_fits_slack_and_calls_nobody(words: str, url: str) -> None:
    pages = [
        StalePage(
            document_id=number,
            title=words,
            url=url,
            owner=f"{number}{words}",
            verified_at=date(2022, 3, 1),
            answers=10**6,
        )
        for number in range(MOST_PAGES * MOST_MESSAGES + 5)
    ]
    messages = stale_pages.build_messages(pages)
    assert len(messages) == MOST_MESSAGES
    for message in (messages[0], messages[-1]):
        shown = list(map(read_block, message.blocks))
        assert max(map(len, shown)) <= BLOCK_TEXT and sum(map(len, shown)) <= MESSAGE_TEXT
        assert len(shown) <= MESSAGE_BLOCKS
        assert not any(set("<>\u202e") & set(each) for each in shown)
    assert shown[0] == "*289 to 300 of 305 pages*"
    assert shown[-1] == "and 5 pages more, which come up as these are looked at"


def read_block(block: Block) -> str:
    return str((block.get("text") or block["elements"][0])["text"])


def test_all_pages_are_told_in_one_thread(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    for number in range(MOST_PAGES + 5):
        add(database, f"Page {number}", "U000000005")
    post(client, database)
    first, second = slack.calls("chat.postMessage")
    assert first.params["text"].startswith("17 pages were last verified long ago. Still true?")
    assert read_block(first.params["blocks"][-1]) == "The others follow in the thread."
    assert second.params["text"] == "13 to 17 of 17 pages"
    assert first.answer and second.params["thread_ts"] == first.answer["ts"]
    buttons = [block for each in (first, second) for block in each.params["blocks"]]
    assert len([each for each in buttons if "accessory" in each]) == 17


def test_each_day_they_are_told_if_nobody_has_without_any_eval_case(
    slack: SlackStandIn, client: WebClient, database: Database, embedder: Embedder
) -> None:
    add(database, "VPN", "IT")
    days_ago = datetime.now(UTC) - timedelta(days=2)
    schedule.claim(database, stale_pages.JOB, days_ago)
    schedule.finish(database, stale_pages.JOB, days_ago)
    retriever = build_retriever(database, embedder)
    with serve.build_schedules(SETTINGS, retriever, Event(), lambda: client, list):
        slack.wait_for_call("chat.postMessage")
    assert find_told(slack) == {"C2": ["VPN"]}
