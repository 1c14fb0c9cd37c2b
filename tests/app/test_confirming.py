"""The button that says that a page is still true."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from sqlalchemy import text

from app import blocks, confirming
from app.confirming import OwnedPage
from app.listeners.confirming import GONE, UNKNOWN
from app.records import Answer, Citation
from retrieval import audiences
from retrieval.db import Database
from tests.app.bot import ADMIN, Bot, Json, connected
from tests.stand_ins.slack import SlackStandIn

QUESTION = "how long is leave?"
OLD = date(2022, 3, 1)


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    slack.workspace.members["C7"] = ["U7"]
    slack.workspace.groups["S00008"] = ["U8"]
    with connected(slack, database, {"People team": "C7", "wiki": "S00008", "*": "C9"}) as bot:
        yield bot


def add(
    database: Database, owner: str | None, *, source: str = "git", audience: str = "everyone"
) -> int:
    with database.unrestricted.transaction() as connection:
        document_id: int = connection.execute(
            text("""
                INSERT INTO documents (tenant_id, source, path, title, url, text, content_hash,
                                       owner, stated_on, verified_at)
                VALUES (:tenant_id, :source, 'leave.md', 'Leave', '', '', '', :owner,
                        '2022-03-01', '2022-03-01')
                RETURNING document_id
            """),
            {"tenant_id": database.tenant_id, "owner": owner, "source": source},
        ).scalar_one()
        audiences.assign(connection, (audience,), [document_id])
    return document_id


def cite(marker: int, document_id: int, *, is_stale: bool = True) -> Citation:
    return Citation(
        marker=marker,
        section_id=marker,
        path="leave.md",
        title="Leave",
        heading_path=(),
        url="https://wiki.example/leave",
        cited_text="30 days",
        owner=None,
        updated_at=None,
        verified_at=OLD,
        document_id=document_id,
        is_stale=is_stale,
    )


def find_buttons(message: Json) -> list[Json]:
    return [
        element
        for block in message["blocks"]
        for element in block.get("elements", [])
        if str(element.get("action_id")).startswith(blocks.STILL_TRUE)
    ]


def answer_from(bot: Bot, *citations: Citation) -> Json:
    """The message with an answer that cites these."""
    markers = " ".join(f"[{each.marker}]" for each in citations)
    bot.answerer.answers[QUESTION] = Answer(text=f"30 days {markers}.", citations=citations)
    return bot.ask(QUESTION)


def press(bot: Bot, message: Json, user_id: str, at: int = 0) -> str:
    """Press a button below an answer; what who pressed it is told."""
    button = find_buttons(message)[at]
    before = len(bot.slack.calls("chat.postEphemeral"))
    bot.slack.send_block_action(
        {key: button[key] for key in ("type", "action_id", "value")},
        user_id=user_id,
        channel_id="C1",
        message_ts=message["ts"],
    )
    call = bot.slack.wait_for_call("chat.postEphemeral", count=before + 1)[-1]
    assert call.params["user"] == user_id
    return str(call.params["text"])


def find_confirmed(database: Database) -> list[tuple[Any, ...]]:
    with database.unrestricted.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT document_id, confirmed_by, verified_at FROM documents
                WHERE confirmed_on IS NOT NULL
            """)
        )
        return [tuple(row) for row in rows]


def test_a_button_stands_below_an_answer_for_each_stale_page(bot: Bot) -> None:
    one, other = add(bot.database, None), add(bot.database, None, source="wiki")
    message = answer_from(
        bot, cite(1, one), cite(2, 99, is_stale=False), cite(3, other), cite(4, one)
    )
    shown = [(each["text"]["text"], each["value"]) for each in find_buttons(message)]
    assert shown == [("[1] is still true", str(one)), ("[3] is still true", str(other))]
    assert message["blocks"][-1]["elements"][0]["action_id"] == blocks.FEEDBACK


def test_no_button_stands_below_an_answer_from_pages_that_hold(bot: Bot) -> None:
    assert find_buttons(answer_from(bot, cite(1, 1, is_stale=False))) == []


@pytest.mark.parametrize(
    ("owner", "source", "user_id"),
    [
        ("U00005", "git", "U00005"),
        ("<@U00005>", "git", "U00005"),
        ("S00008", "git", "U8"),
        ("People team", "git", "U7"),  # in the channel that is named for the owner
        ("Somebody", "wiki", "U8"),  # in the group that is named for the source
        ("IT, U00004; U00005", "git", "U00005"),
        ("IT, People team", "git", "U7"),
        ("U00005@Example.com", "git", "U00005"),
        ("Ana, Bo <u00005@example.com>", "git", "U00005"),
        (None, "git", ADMIN),
    ],
)
def test_the_owner_of_a_page_says_that_it_is_still_true(
    bot: Bot, owner: str | None, source: str, user_id: str
) -> None:
    document_id = add(bot.database, owner, source=source)
    told = press(bot, answer_from(bot, cite(1, document_id)), user_id)
    assert told == "Thanks: Leave counts as verified today."
    assert find_confirmed(bot.database) == [(document_id, user_id, datetime.now(UTC).date())]


@pytest.mark.parametrize(
    ("owner", "whom"),
    [
        ("U00005", "Leave belongs to <@U00005>: please ask there."),
        (
            "S00008, ana@x.example",
            "Leave belongs to <!subteam^S00008>, ana@x.example: please ask there.",
        ),
        ("People team", "Leave belongs to People team: please ask there."),
        ("<!channel> *all*", "Leave belongs to `&lt;!channel&gt; *all*`: please ask there."),
        (None, "Leave names no owner: ask whoever looks after Footnote."),
    ],
)
def test_others_are_told_whom_to_ask_and_nobody_is_called(
    bot: Bot, owner: str | None, whom: str
) -> None:
    bot.slack.workspace.members["C9"] = ["U1"]  # who help with anything do not know every page
    document_id = add(bot.database, owner)
    told = press(bot, answer_from(bot, cite(1, document_id)), "U1")
    assert told == (
        "Only who looks after a page can say that it is still true, so nothing is changed. " + whom
    )
    assert find_confirmed(bot.database) == []


def test_where_slack_tells_no_address_who_has_it_is_told_whom_to_ask(bot: Bot) -> None:
    bot.slack.workspace.users["U00005"] = {"profile": {}}  # without users:read.email
    document_id = add(bot.database, "u00005@example.com")
    assert press(bot, answer_from(bot, cite(1, document_id)), "U00005") == (
        "Only who looks after a page can say that it is still true, so nothing is changed. "
        "Leave belongs to u00005@example.com; Slack does not tell me who that is: ask whoever "
        "looks after Footnote."
    )
    assert find_confirmed(bot.database) == []


def test_nobody_confirms_a_page_that_they_may_not_read(bot: Bot) -> None:
    document_id = add(bot.database, "U00005", audience="user:U00006")
    message = answer_from(bot, cite(1, document_id))
    assert press(bot, message, "U00005") == GONE
    assert press(bot, message, ADMIN) == GONE
    assert find_confirmed(bot.database) == []


def test_a_page_that_is_gone_is_said(bot: Bot) -> None:
    assert press(bot, answer_from(bot, cite(1, 99)), ADMIN) == GONE


def test_a_stranger_confirms_nothing(bot: Bot) -> None:
    bot.slack.workspace.users["U00005"] = {"team_id": "T0002"}
    message = answer_from(bot, cite(1, add(bot.database, "U00005")))
    button = find_buttons(message)[0]
    envelope_id = bot.slack.send_block_action(
        {key: button[key] for key in ("type", "action_id", "value")},
        user_id="U00005",
        channel_id="C1",
        message_ts=message["ts"],
    )
    bot.settle(envelope_id)
    assert find_confirmed(bot.database) == []


def test_while_slack_does_not_say_who_somebody_is_nothing_changes(bot: Bot) -> None:
    message = answer_from(bot, cite(1, add(bot.database, "U00005")))
    bot.slack.fail_next("users.info", times=4)
    assert press(bot, message, "U00005") == UNKNOWN
    assert find_confirmed(bot.database) == []


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        *(
            ("U012345", ["user:U012345"]),
            ("<@W012345|ana>", ["user:W012345"]),
            ("@U012345", ["user:U012345"]),
        ),
        *(("<!subteam^S012345>", ["group:S012345"]), (" S012345 ", ["group:S012345"])),
        ("U012345, IT; S012345,", ["user:U012345", "group:S012345"]),
        ("Ana@x.example", ["email:ana@x.example"]),
        ("<mailto:ana@x.example|ana@x.example>", ["email:ana@x.example"]),
        *(("UK team", []), ("SUPPORT", []), ("", []), (None, []), ("U012345 and Bo", [])),
        *(("@acme/docs", []), ("ana@x@y", [])),
    ],
)
def test_owners_may_be_people_and_groups_in_slack(owner: str | None, names: list[str]) -> None:
    assert confirming.find_owner_names(owner) == names


def test_no_expert_is_asked_about_a_page_but_those_of_its_owner_and_source() -> None:
    page = OwnedPage(
        document_id=1, source="wiki", path="a.md", title="A", owner="IT", verified_at=None
    )
    assert confirming.find_expert_ids(page, {"*": "C1"}) == []
    assert confirming.find_expert_ids(page, {"*": "C1", "wiki": "C2"}) == ["C2"]
    assert confirming.find_expert_ids(page, {"IT": "C3", "wiki": "C2"}) == ["C3"]
    both = replace(page, owner="IT, HR")
    assert confirming.find_expert_ids(both, {"HR": "C4", "IT": "C3", "wiki": "C2"}) == ["C3", "C4"]
    assert confirming.find_expert_ids(both, {"IT, HR": "C5"}) == ["C5"]
