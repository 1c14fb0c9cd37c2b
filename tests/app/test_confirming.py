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
from retrieval.db import Database
from tests.app.bot import ADMIN, Bot, Json, connected, find_rows
from tests.app.questions import add_page, build_citation
from tests.stand_ins.slack import SlackStandIn

QUESTION = "how long is leave?"
OLD = date(2022, 3, 1)


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    slack.workspace.members["C7"] = ["U7"]
    slack.workspace.groups["S000000008"] = ["U8"]
    with connected(slack, database, {"People team": "C7", "wiki": "S000000008", "*": "C9"}) as bot:
        yield bot


def add(
    database: Database, owner: str | None, *, source: str = "git", audience: str = "everyone"
) -> int:
    stated = {"title": "Leave", "owner": owner, "stated_on": OLD, "verified_at": OLD}
    return add_page(database, source, "leave.md", audience=audience, **stated)


def cite(marker: int, document_id: int, *, is_due: bool = True) -> Citation:
    return build_citation(
        marker=marker,
        section_id=marker,
        document_id=document_id,
        is_stale=is_due,
        is_due=is_due,
        verified_at=OLD,
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
        bot, cite(1, one), cite(2, 99, is_due=False), cite(3, other), cite(4, one)
    )
    shown = [(each["text"]["text"], each["value"]) for each in find_buttons(message)]
    assert shown == [
        ("Still true? Confirm [1]", str(one)),
        ("Still true? Confirm [3]", str(other)),
    ]
    assert message["blocks"][-1]["elements"][0]["action_id"] == blocks.FEEDBACK


def test_no_button_stands_below_an_answer_from_pages_that_hold(bot: Bot) -> None:
    assert find_buttons(answer_from(bot, cite(1, 1, is_due=False))) == []


@pytest.mark.parametrize(
    ("owner", "source", "user_id"),
    [
        ("U000000005", "git", "U000000005"),
        ("<@U000000005>", "git", "U000000005"),
        ("S000000008", "git", "U8"),
        ("People team", "git", "U7"),  # in the channel that is named for the owner
        ("Somebody", "wiki", "U8"),  # in the group that is named for the source
        ("IT, U000000004; U000000005", "git", "U000000005"),
        ("IT, People team", "git", "U7"),
        ("U000000005@Example.com", "git", "U000000005"),
        ("Ana, Bo <u000000005@example.com>", "git", "U000000005"),
        (None, "git", ADMIN),
    ],
)
def test_the_owner_of_a_page_says_that_it_is_still_true(
    bot: Bot, owner: str | None, source: str, user_id: str
) -> None:
    document_id = add(bot.database, owner, source=source)
    told = press(bot, answer_from(bot, cite(1, document_id)), user_id)
    assert told == "Thanks: “Leave” counts as verified today."
    assert find_confirmed(bot.database) == [(document_id, user_id, datetime.now(UTC).date())]


@pytest.mark.parametrize("has_grown", [False, True])
def test_all_who_read_an_answer_are_told_once_who_has_confirmed_its_page_and_the_answer_stays(
    bot: Bot, has_grown: bool
) -> None:
    document_id = add(bot.database, "U000000005")
    cited = [
        replace(cite(n, document_id), url=f"file:///docs/{n}.md", owner="U000000005")
        for n in range(1, 5)  # more than stand in small print, and no link
    ]
    if has_grown:
        words = ["30 days [1].", " Ask [2] first.", " Then [3].", " Then [4]."]
        drafts = ["".join(words[:count]) for count in range(1, 5)]
        bot.answerer.written[QUESTION] = [
            Answer(text=draft, citations=tuple(cited)) for draft in drafts
        ]
        bot.answerer.answers[QUESTION] = Answer(text=drafts[-1], citations=tuple(cited))
        message = bot.ask(QUESTION)
    else:
        message = answer_from(bot, *cited)
    assert bool(bot.slack.calls("chat.startStream")) == has_grown
    sources = message["blocks"][0 if has_grown else 1]["text"]["text"]
    assert sources.count("Person U000000005") == 4
    (trace,) = find_rows(bot.database, "traces")  # from which a name could not be purged
    assert {each["owner"] for each in trace.citations} == {"U000000005"}
    for user_id in ("U000000005", "U000000005", ADMIN):
        press(bot, message, user_id)
    today = datetime.now(UTC).date()
    bot.settle()
    shown = bot.slack.messages("C1", message["thread_ts"])
    assert message in shown
    assert [each["text"] for each in shown[shown.index(message) + 1 :]] == [
        f"✓ “Leave” confirmed by Person {user_id}, {today}" for user_id in ("U000000005", ADMIN)
    ]


def test_where_others_may_not_read_a_page_nobody_is_told_of_it(bot: Bot) -> None:
    document_id = add(bot.database, "U000000005", audience="user:U000000005")
    message = answer_from(bot, cite(1, document_id))
    assert press(bot, message, "U000000005").startswith("Thanks")
    bot.settle()
    assert bot.slack.messages("C1", message["thread_ts"])[-1] == message


@pytest.mark.parametrize(
    ("owner", "whom"),
    [
        ("U000000005", "“Leave” is looked after by <@U000000005>: please ask them."),
        (
            "S000000008, ana@x.example",
            "“Leave” is looked after by <!subteam^S000000008> and ana@x.example: please ask them.",
        ),
        ("People team", "“Leave” is looked after by People team: please ask them."),
        (
            "<!channel> *all*",
            "“Leave” is looked after by `&lt;!channel&gt; *all*`: please ask them.",
        ),
        (None, "“Leave” names no owner: ask whoever looks after Footnote."),
    ],
)
def test_others_are_told_whom_to_ask_and_nobody_is_called(
    bot: Bot, owner: str | None, whom: str
) -> None:
    bot.slack.workspace.members["C9"] = ["U1"]  # who help with anything do not know every page
    document_id = add(bot.database, owner)
    told = press(bot, answer_from(bot, cite(1, document_id)), "U1")
    assert told == (
        "Only those who look after a page can confirm it, so nothing has changed. " + whom
    )
    assert find_confirmed(bot.database) == []


def test_who_may_not_say_it_changes_nothing_before_or_after_who_may_and_twice_is_once(
    bot: Bot,
) -> None:
    document_id = add(bot.database, "U000000005")
    message = answer_from(bot, cite(1, document_id))
    said = [press(bot, message, user_id) for user_id in ("U1", "U000000005", ADMIN, "U1")]
    assert [each.startswith("Thanks") for each in said] == [False, True, True, False]
    ((_, by, day),) = find_confirmed(bot.database)
    assert (by, day) == (ADMIN, datetime.now(UTC).date())


def test_where_slack_tells_no_address_who_has_it_is_told_whom_to_ask(bot: Bot) -> None:
    bot.slack.workspace.users["U000000005"] = {"profile": {}}  # without users:read.email
    document_id = add(bot.database, "u000000005@example.com")
    assert press(bot, answer_from(bot, cite(1, document_id)), "U000000005") == (
        "Only those who look after a page can confirm it, so nothing has changed. “Leave” is "
        "looked after by u000000005@example.com; Slack does not tell me who that is: ask whoever "
        "looks after Footnote."
    )
    assert find_confirmed(bot.database) == []


def test_nobody_confirms_a_page_that_they_may_not_read(bot: Bot) -> None:
    document_id = add(bot.database, "U000000005", audience="user:U000000006")
    message = answer_from(bot, cite(1, document_id))
    assert press(bot, message, "U000000005") == GONE
    assert press(bot, message, ADMIN) == GONE
    assert find_confirmed(bot.database) == []


def test_a_page_that_is_gone_is_said(bot: Bot) -> None:
    assert press(bot, answer_from(bot, cite(1, 99)), ADMIN) == GONE


def test_a_stranger_confirms_nothing(bot: Bot) -> None:
    bot.slack.workspace.users["U000000005"] = {"team_id": "T0002"}
    message = answer_from(bot, cite(1, add(bot.database, "U000000005")))
    button = find_buttons(message)[0]
    envelope_id = bot.slack.send_block_action(
        {key: button[key] for key in ("type", "action_id", "value")},
        user_id="U000000005",
        channel_id="C1",
        message_ts=message["ts"],
    )
    bot.settle(envelope_id)
    assert find_confirmed(bot.database) == []


def test_while_slack_does_not_say_who_somebody_is_nothing_changes(bot: Bot) -> None:
    message = answer_from(bot, cite(1, add(bot.database, "U000000005")))
    bot.slack.fail_next("users.info", times=4)
    assert press(bot, message, "U000000005") == UNKNOWN
    assert find_confirmed(bot.database) == []


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        *(
            ("U012345678", ["user:U012345678"]),
            ("<@W012345678|ana>", ["user:W012345678"]),
            ("@U012345678", ["user:U012345678"]),
        ),
        *(("<!subteam^S012345678>", ["group:S012345678"]), (" S012345678 ", ["group:S012345678"])),
        ("U012345678, IT; S012345678,", ["user:U012345678", "group:S012345678"]),
        ("Ana@x.example", ["email:ana@x.example"]),
        ("ana.lee@x.example (HR)", ["email:ana.lee@x.example"]),
        (
            "Ask ana@x.example and bo+hr@x.example.",
            ["email:ana@x.example", "email:bo+hr@x.example"],
        ),
        ("ana@x.example/bo@x.example", ["email:ana@x.example", "email:bo@x.example"]),
        ("[Ana](mailto:ana@x.example)", ["email:ana@x.example"]),
        ("<mailto:ana@x.example|ana@x.example>", ["email:ana@x.example"]),
        *(("UK team", []), ("SUPPORT", []), ("", []), (None, []), ("U012345678 and Bo", [])),
        *(("@acme/docs", []), ("ana@x@y", []), ("UPDATES2", []), ("USERS01", []), ("W3BTEAM", [])),
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
