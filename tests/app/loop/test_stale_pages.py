"""The stale pages that are told once a month."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from slack_sdk import WebClient
from sqlalchemy import text

from app import posting
from app.blocks import BLOCK_TEXT, MESSAGE_BLOCKS, MESSAGE_TEXT
from app.config import Settings
from app.loop import stale_pages
from app.loop.stale_pages import MOST_PAGES, StalePage
from retrieval import audiences
from retrieval.db import Database
from tests.app.questions import ask
from tests.stand_ins.slack import SlackStandIn

NOVEMBER = datetime(2026, 11, 30, 3, tzinfo=UTC)
SETTINGS = Settings(report_channel="C1", experts={"IT": "C2", "HR": "S00001", "*": "C9"})


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
    with database.unrestricted.transaction() as connection:
        document_id: int = connection.execute(
            text("""
                INSERT INTO documents (tenant_id, source, path, title, url, text, content_hash,
                                       owner, verified_at, freshness_days)
                VALUES (:tenant_id, :source, :title, :title, 'https://wiki.example/' || :title, '',
                        '', :owner, CAST(:verified_on AS date), :freshness_days)
                RETURNING document_id
            """),
            {
                "tenant_id": database.tenant_id,
                "title": title,
                "owner": owner,
                "verified_on": verified_on,
                **{"source": "wiki", "freshness_days": None, **fields},
            },
        ).scalar_one()
        audiences.assign(connection, (audience,), [document_id])
    return document_id


def cite(database: Database, title: str) -> None:
    citations = [{"path": title, "url": f"https://wiki.example/{title}"}]
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
    add(database, "Laptops", "U00005")
    add(database, "VPN", "IT")
    add(database, "Printers", "IT")
    add(database, "Leave", "HR")  # a user group has no channel
    add(database, "Parking")
    add(database, "Shared", "U00005, U00006")
    add(database, "Fresh", "IT", verified_on="2099-01-01")
    add(database, "Undated", "IT", verified_on=None)
    add(database, "Slow", "IT", freshness_days=36_500)
    post(client, database)
    told = find_told(slack)
    assert told == {
        "U00005": ["Laptops", "Shared"],
        "U00006": ["Shared"],
        "C2": ["Printers", "VPN"],
        "C1": ["Leave", "Parking"],
    }


def test_the_most_cited_page_and_its_owner_come_first(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "A", "Ana")
    add(database, "B", "Bo")
    add(database, "C", "Ana")
    for title in ("B", "B", "C"):
        cite(database, title)
    post(client, database)
    (call,) = slack.calls("chat.postMessage")
    shown = [block["text"]["text"] for block in call.params["blocks"]]
    assert call.params["text"] == "3 pages to look at: not verified for long"
    assert shown == [
        "*3 pages to look at: not verified for long*",
        "• Bo",
        "<https://wiki.example/B|B> · last verified 2022-03-01 · 2 answers",
        "• Ana",
        "<https://wiki.example/C|C> · last verified 2022-03-01 · 1 answer",
        "<https://wiki.example/A|A> · last verified 2022-03-01 · 0 answers",
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
    post(client, database, now=NOVEMBER + timedelta(days=1))  # December
    assert len(slack.calls("chat.postMessage")) == 2


def test_what_slack_refuses_is_tried_again_and_keeps_no_other_from_being_told(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "VPN", "IT")
    add(database, "Parking")
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


def test_nobody_is_told_of_a_page_that_somebody_there_may_not_read(
    slack: SlackStandIn, client: WebClient, database: Database
) -> None:
    add(database, "Bonuses", audience="group:S00001")
    add(database, "Salaries", "U00005", audience="user:U00006")
    add(database, "Own", "U00006", audience="user:U00006")
    slack.workspace.groups["S00001"] = ["U00005"]
    post(client, database)
    assert find_told(slack) == {"U00006": ["Own"]}


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
        for number in range(MOST_PAGES + 5)
    ]
    message = stale_pages.build_message(pages)
    shown = [str((block.get("text") or block["elements"][0])["text"]) for block in message.blocks]
    assert max(map(len, shown)) <= BLOCK_TEXT and sum(map(len, shown)) <= MESSAGE_TEXT
    assert len(shown) <= MESSAGE_BLOCKS
    assert not any(set("<>\u202e") & set(each) for each in shown)
    assert shown[-1] == "and 5 pages more: `footnote doctor`"
