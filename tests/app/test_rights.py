"""Who reads an answer, as Slack tells it: P47 over Bolt, and each rule by itself."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import current_thread
from typing import Any

import pytest
from sqlalchemy import event, text

from app import abstaining, blocks, conversations, doctor, feedback, modals, posting
from app.answering import Answerer
from app.config import Settings
from app.confirming import name_owners
from app.generate.generator import Write
from app.generate.quoted import Quoter
from app.loop import cases, digest
from app.loop.digest import CaseCounts
from app.records import Answer, Arrival, Turn
from app.rights import FRESH_S, KEPT_S, SCOPES, Rights, RightsUnknown, check_scopes
from retrieval import audiences
from retrieval.db import EVERYONE, Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.records import Candidate, Query
from tests.app.bot import ADMIN, Bot, Json, connected, find_rows
from tests.conftest import Server, copied
from tests.retrieval.pages import build_retriever, for_readers, ingest, page
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.slack_workspace import ENTERPRISE_ID, TEAM_ID

TOWN, FINANCE, MIXED = "C1", "C7FIN", "C8MIX"
MEMBER, OUTSIDER, GUEST, STRANGER = "U1", "U2", "U3", "U7"
GROUP = "S1FIN"
NAMES = ("channel:C7FIN", "group:S1FIN", "user:U1")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workspace(slack: SlackStandIn) -> SlackStandIn:
    """Slack with a public channel, a private one of finance, and one where others are, too."""
    told = slack.workspace
    told.groups[GROUP] = [MEMBER, "U4"]
    told.channels |= {FINANCE: {"is_private": True}, MIXED: {"is_private": True}}
    told.members |= {FINANCE: [MEMBER, "U4", "U0BOT"], MIXED: [MEMBER, OUTSIDER, "U0BOT"]}
    told.users |= {
        GUEST: {"is_restricted": True},
        STRANGER: {"team_id": "T0002"},
    }
    return slack


def use(database: Database, *names: str) -> None:
    """Have there be pages for these names."""
    with database.transaction() as connection:
        for name in names:
            audiences.load_id(connection, (name,))


@pytest.fixture
def rights(workspace: SlackStandIn, database: Database, clock: Clock) -> Rights:
    use(database, *NAMES)
    return build_rights(workspace, database, clock)


def build_rights(slack: SlackStandIn, database: Database, clock: Clock) -> Rights:
    client = posting.build_client(slack.bot_token, slack.api_url)
    return Rights(client, database, now=clock)


ABOUT_A_PERSON = ("auth.test", "users.info", "usergroups.list", "users.conversations")


def count_calls(slack: SlackStandIn) -> dict[str, int]:
    """How often Slack was asked by each of the methods that tell who reads."""
    methods = (*ABOUT_A_PERSON, "conversations.info", "conversations.members")
    return {method: len(calls) for method in methods if (calls := slack.calls(method))}


def ask_in(channel_id: str, user_id: str | None = MEMBER) -> Arrival:
    return Arrival(
        question="how much?",
        surface="slack",
        channel_id=channel_id,
        user_id=user_id,
        team_id="T0001",
    )


@pytest.mark.parametrize(
    ("channel_id", "user_id", "readers"),
    [
        (TOWN, MEMBER, {"everyone", "public"}),
        (FINANCE, MEMBER, {"everyone", "public", "channel:C7FIN", "group:S1FIN"}),
        (MIXED, MEMBER, {"everyone", "public", "channel:C8MIX"}),
        ("D1", MEMBER, {"everyone", "public", *NAMES}),
        ("D2", OUTSIDER, {"everyone", "public"}),
        ("D4", "U4", {"everyone", "public", "channel:C7FIN", "group:S1FIN"}),
        (TOWN, GUEST, {"public"}),
        ("D3", GUEST, {"public"}),
        (FINANCE, GUEST, {"public", "channel:C7FIN", "group:S1FIN"}),
        (TOWN, STRANGER, {"public"}),
        ("D7", STRANGER, {"public"}),
        (TOWN, None, {"everyone", "public"}),  # a workflow
        ("D1", None, {"public"}),
    ],
)
def test_the_narrower_of_place_and_asker_reads(
    rights: Rights, channel_id: str, user_id: str | None, readers: set[str]
) -> None:
    assert set(rights.find_for_question(ask_in(channel_id, user_id))) == readers


def test_a_guest_reads_what_is_for_them_by_name(rights: Rights, workspace: SlackStandIn) -> None:
    workspace.workspace.groups[GROUP] = [GUEST]
    workspace.workspace.members[FINANCE] = [GUEST, "U0BOT"]
    assert set(rights.find_for_person(GUEST)) == {"public", "group:S1FIN", "channel:C7FIN"}


@pytest.mark.parametrize(
    ("facts", "is_external"),
    [
        ({"is_ext_shared": True, "is_shared": True}, True),
        ({"is_shared": True}, True),
        ({"is_pending_ext_shared": True}, True),
        ({"pending_shared": ["T0009"]}, True),
        ({"is_shared": True, "is_org_shared": True}, False),
    ],
)
def test_where_another_company_reads_only_what_is_public_is_read(
    rights: Rights, workspace: SlackStandIn, facts: Json, is_external: bool
) -> None:
    workspace.workspace.channels[TOWN] = facts
    expected = {"public"} if is_external else {"public", "everyone"}
    assert set(rights.find_for_channel(TOWN)) == expected


def test_a_name_that_all_but_apps_have_is_one_of_the_channel(
    rights: Rights, workspace: SlackStandIn
) -> None:
    told = workspace.workspace
    told.members[FINANCE] = [MEMBER, "U0BOT", "U5BOT", "U6GONE"]
    told.users |= {"U5BOT": {"is_bot": True}, "U6GONE": {"deleted": True}}
    assert set(rights.find_for_channel(FINANCE)) == {*EVERYONE, *NAMES}


def test_members_of_large_channels_are_all_counted(rights: Rights, workspace: SlackStandIn) -> None:
    workspace.workspace.groups[GROUP] = [f"U1{number:04d}" for number in range(2_500)]
    workspace.workspace.members[FINANCE] = [*workspace.workspace.groups[GROUP], OUTSIDER]
    assert "group:S1FIN" not in rights.find_for_channel(FINANCE)
    assert len(workspace.calls("conversations.members")) == 3
    workspace.workspace.members["C9"] = workspace.workspace.groups[GROUP]
    workspace.workspace.channels["C9"] = {"is_private": True}
    assert "group:S1FIN" in rights.find_for_channel("C9")


def test_a_question_costs_few_calls_however_many_names_there_are(
    rights: Rights, workspace: SlackStandIn, database: Database
) -> None:
    use(database, *(f"group:S{number}" for number in range(20)))
    use(database, *(f"channel:C{number}" for number in range(20)))
    assert set(rights.find_for_question(ask_in("D1"))) == {*EVERYONE, *NAMES}
    assert count_calls(workspace) == dict.fromkeys(ABOUT_A_PERSON, 1)
    assert set(rights.find_for_question(ask_in("D2", OUTSIDER))) == set(EVERYONE)
    assert len(workspace.calls("usergroups.list")) == 1


def test_several_workers_ask_slack_once(rights: Rights, workspace: SlackStandIn) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(rights.find_for_person, [MEMBER] * 8))
    assert len(set(found)) == 1
    assert count_calls(workspace) == dict.fromkeys(ABOUT_A_PERSON, 1)


def test_p51_slack_is_asked_by_the_token_of_now(
    workspace: SlackStandIn, database: Database, clock: Clock
) -> None:
    client = posting.build_client(workspace.bot_token, workspace.api_url)
    rights = Rights(client, database, now=clock)
    known = rights.find_for_question(ask_in(FINANCE))
    client.token = workspace.bot_token = "xoxb-refreshed"  # as app/tenants.py does
    clock.now += 12 * 3_600
    assert rights.find_for_question(ask_in(FINANCE)) == known


def test_an_organisation_is_asked_for_each_of_its_workspaces(
    rights: Rights, workspace: SlackStandIn
) -> None:
    told = workspace.workspace
    told.is_org_wide = True
    teams = {"enterprise_id": ENTERPRISE_ID, "teams": [TEAM_ID, "T0009"]}  # the second without us
    told.users[MEMBER] = {"team_id": "T0009", "enterprise_user": teams}
    told.users["U4"] = {"team_id": "T0009", "enterprise_user": {**teams, "teams": ["T0009"]}}
    told.channels[FINANCE] = {"is_private": True, "context_team_id": TEAM_ID}
    assert set(rights.find_for_person(MEMBER)) == {*EVERYONE, *NAMES}
    assert set(rights.find_for_person("U4")) == set(EVERYONE)
    assert set(rights.find_for_channel(FINANCE)) == {*EVERYONE, "channel:C7FIN", "group:S1FIN"}


@pytest.mark.parametrize("error", ["user_not_visible", "user_not_found"])
def test_a_member_whom_slack_does_not_show_reads_without_a_name(
    rights: Rights, workspace: SlackStandIn, error: str
) -> None:
    workspace.workspace.users[OUTSIDER] = {"error": error}
    workspace.workspace.members[FINANCE] = [MEMBER, "U4", OUTSIDER]
    assert set(rights.find_for_question(ask_in(FINANCE))) == {*EVERYONE, "channel:C7FIN"}
    assert rights.find_for_person(OUTSIDER) == ("public",)


def test_slack_is_not_asked_about_names_for_which_there_is_no_page(
    workspace: SlackStandIn, database: Database, clock: Clock
) -> None:
    rights = build_rights(workspace, database, clock)
    assert rights.find_for_question(ask_in("D1")) == EVERYONE
    assert set(rights.find_for_question(ask_in(FINANCE))) == {*EVERYONE, "channel:C7FIN"}
    for method in ("conversations.members", "users.conversations", "usergroups.list"):
        assert not workspace.calls(method)


def test_who_leaves_a_group_reads_its_pages_a_minute_later_no_more(
    rights: Rights, workspace: SlackStandIn, clock: Clock
) -> None:
    assert "group:S1FIN" in rights.find_for_person(MEMBER)
    workspace.workspace.groups[GROUP].remove(MEMBER)
    clock.now += FRESH_S - 1
    assert "group:S1FIN" in rights.find_for_person(MEMBER)
    assert len(workspace.calls("usergroups.list")) == 1
    clock.now += 1
    assert "group:S1FIN" not in rights.find_for_person(MEMBER)


FAULTS = [
    {"status": 429, "headers": {"Retry-After": "30"}},
    {"body": {"ok": False, "error": "missing_scope"}},
    {"body": {"ok": True}},
    {"status": 503},
    {"drop_connection": True},
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", ["users.info", "conversations.info"])
def test_where_slack_does_not_say_who_asks_or_where_nobody_may_read(
    rights: Rights, workspace: SlackStandIn, clock: Clock, fault: dict[str, Any], method: str
) -> None:
    workspace.fail_next(method, **fault)
    with pytest.raises(RightsUnknown):
        rights.find_for_question(ask_in(TOWN))
    known = rights.find_for_question(ask_in(FINANCE))
    assert "group:S1FIN" in known
    workspace.fail_next(method, **fault, times=50)
    clock.now += KEPT_S - 1
    assert rights.find_for_question(ask_in(FINANCE)) == known
    clock.now += KEPT_S
    with pytest.raises(RightsUnknown):
        rights.find_for_question(ask_in(FINANCE))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("method", "channel_id", "lost"),
    [
        ("usergroups.list", "D1", "group:S1FIN"),
        ("users.conversations", "D1", "channel:C7FIN"),
        ("usergroups.list", FINANCE, "group:S1FIN"),
        ("conversations.members", FINANCE, "group:S1FIN"),
    ],
)
def test_p47_a_name_that_slack_does_not_tell_locks_nobody_out_of_the_rest(
    rights: Rights,
    workspace: SlackStandIn,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    fault: dict[str, Any],
    method: str,
    channel_id: str,
    lost: str,
) -> None:
    workspace.fail_next(method, **fault)
    less = set(rights.find_for_question(ask_in(channel_id)))
    assert less >= set(EVERYONE)
    assert method in caplog.text
    known = rights.find_for_question(ask_in(channel_id))
    assert set(known) - less == {lost}
    workspace.fail_next(method, **fault, times=50)
    clock.now += KEPT_S - 1
    assert rights.find_for_question(ask_in(channel_id)) == known
    clock.now += KEPT_S
    assert set(rights.find_for_question(ask_in(channel_id))) == less


def test_pages_for_a_group_or_channel_that_is_not_there_hinder_nobody(
    rights: Rights, workspace: SlackStandIn, database: Database
) -> None:
    use(database, "group:S9GONE", "channel:C9GONE")
    workspace.workspace.channels["C9GONE"] = {"is_private": True, "is_member": False}
    assert set(rights.find_for_person(MEMBER)) == {*EVERYONE, *NAMES}


def test_owners_are_called_by_their_names_as_far_as_slack_says(
    rights: Rights, workspace: SlackStandIn
) -> None:
    ben, dee, gone, group = "U00000BEN1", "U00000DEE1", "U0000GONE1", "S000000FIN1"
    ann, nobody = "U00000ANN1", "U0000NONE1"
    workspace.workspace.users[dee] = {"profile": {"display_name": "Dee", "real_name": "Deirdre"}}
    workspace.workspace.users[gone] = {"error": "user_not_found"}
    workspace.workspace.users[ann] = {
        "profile": {"display_name": "\u200b", "real_name": "Ann\nLee"}
    }
    workspace.workspace.users[nobody] = {"profile": {"display_name": "\u2060 \u200b"}}
    workspace.workspace.groups[group] = []
    assert name_owners(f"{ann}, {nobody}", rights) == f"Ann Lee and {nobody}"
    assert name_owners("Platform team", rights) == "Platform team"
    workspace.fail_next("usergroups.list")
    assert name_owners(group, rights) == group
    assert (
        name_owners(f"{ben}, <@{dee}>; {group}", rights) == f"Person {ben}, Dee and {group.lower()}"
    )
    assert name_owners(f"{gone}; it@x.example", rights) == f"{gone} and it@x.example"


def test_a_token_without_the_scopes_is_told_which_are_missing(slack: SlackStandIn) -> None:
    client = posting.build_client(slack.bot_token, slack.api_url)
    check_scopes(client)  # Slack does not tell
    slack.workspace.scopes = [*SCOPES, "chat:write"]
    check_scopes(client)
    slack.workspace.scopes = ["chat:write", *SCOPES[:-2]]
    with pytest.raises(ConfigError, match="lacks the scopes usergroups:read, users:read, without"):
        check_scopes(client)


def test_a_question_of_unknown_rights_is_answered_once_they_are_known(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database) as bot:
        slack.fail_next("users.info")
        event = bot.mention("how much?")
        bot.settle(slack.send_event(event))
    (shown,) = slack.messages("C1", event["ts"])[1:]
    assert shown["text"] == "You ask: how much?"
    (trace,) = find_rows(database, "traces")
    assert (trace.outcome, trace.attempts, len(bot.answerer.read_as)) == ("answered", 2, 1)


# P47: a page of finance alone, and who asks for it where.

SECRET = "The severance budget of Quillmark is 4 million florins."
ASKED = "what is the severance budget of Quillmark?"
TITLE = "Severance budget"
SOURCE = "finance-drive"
WORDS = ("4 million", TITLE, SOURCE, "severance.md")  # that tell of the page
REVIEWERS = "C5REV"


def index(database: Database, embedder: Embedder) -> None:
    """A page for everyone."""
    ingest(
        database,
        embedder,
        page("lunch.md", "# Lunch\n\nLunch is served in the canteen from noon to two.\n"),
    )


def index_secret(database: Database, embedder: Embedder) -> None:
    """A page for the group of finance."""
    ingest_severance(database, embedder, f"# {TITLE}\n\n{SECRET}\n", f"group:{GROUP}")


def ingest_severance(database: Database, embedder: Embedder, said: str, audience: str) -> None:
    read = for_readers(page("severance.md", said), audience)
    ingest(database, embedder, read, source=SOURCE)


@contextmanager
def answering(
    slack: SlackStandIn, database: Database, embedder: Embedder, **more: Any
) -> Iterator[Bot]:
    """The bot, answering from what is indexed."""
    retriever = build_retriever(database, embedder)
    answerer = Answerer(retriever=retriever, generator=Quoter(embedder))
    with connected(slack, database, retriever=retriever, answerer=answerer, **more) as bot:
        yield bot


@pytest.fixture
def finance(workspace: SlackStandIn, database: Database, embedder: Embedder) -> Iterator[Bot]:
    """The bot over both pages."""
    index(database, embedder)
    index_secret(database, embedder)
    with answering(workspace, database, embedder, review_channel=REVIEWERS) as bot:
        yield bot


def ask(bot: Bot, channel_id: str, user_id: str, question: str = ASKED, **more: Any) -> Json:
    """The message that answers the question of a person in a place."""
    event = bot.slack.write(f"<@U0BOT> {question}", channel_id=channel_id, user_id=user_id, **more)
    before = len(bot.ended.having())
    bot.slack.send_event(event if channel_id.startswith("D") else {**event, "type": "app_mention"})
    bot.ended.wait_for(count=before + 1)
    return bot.slack.messages(channel_id, event.get("thread_ts", event["ts"]))[-1]


def tells(shown: object) -> list[str]:
    """Which of the words are in what is shown."""
    written = json.dumps(shown, ensure_ascii=False)
    return [word for word in WORDS if word in written]


def ask_stats(bot: Bot, user_id: str, words: str = "") -> str:
    before = len(bot.slack.calls("response_url"))
    bot.slack.send_slash_command("/ragstats", words, user_id, "D9")
    *_, call = bot.slack.wait_for_call("response_url", count=before + 1)
    return json.dumps(call.params, ensure_ascii=False)


def open_home(bot: Bot, user_id: str) -> str:
    before = len(bot.slack.calls("views.publish"))
    bot.slack.send_event(
        {"type": "app_home_opened", "user": user_id, "tab": "home", "channel": "D9"}
    )
    *_, call = bot.slack.wait_for_call("views.publish", count=before + 1)
    return json.dumps(call.params, ensure_ascii=False)


@contextmanager
def counting(database: Database) -> Iterator[list[tuple[str, int]]]:
    """Each statement by which questions are answered while the block runs, with how many rows it
    finds."""
    found: list[tuple[str, int]] = []

    def note(_: object, cursor: Any, statement: str, *more: object) -> None:
        if current_thread().name.startswith("answer"):
            found.append((statement, cursor.rowcount))

    event.listen(database.engine, "after_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(database.engine, "after_cursor_execute", note)


@pytest.mark.parametrize(
    ("channel_id", "user_id", "is_told"),
    [
        (TOWN, MEMBER, False),
        (FINANCE, MEMBER, True),
        (MIXED, MEMBER, False),
        ("D1", MEMBER, True),
        ("D2", OUTSIDER, False),
        ("D3", GUEST, False),
    ],
)
def test_p47_a_page_is_told_where_all_who_read_may_read_it(
    finance: Bot, channel_id: str, user_id: str, is_told: bool
) -> None:
    assert bool(tells(ask(finance, channel_id, user_id))) == is_told
    lunch = ask(finance, channel_id, user_id, "when is lunch served in the canteen?")
    assert ("from noon to two" in lunch["text"]) == (user_id != GUEST)  # who reads what is public


def test_p47_who_may_not_read_a_page_is_answered_as_if_it_did_not_exist(
    finance: Bot, server: Server, template: str, embedder: Embedder
) -> None:
    with counting(finance.database) as work:
        answer = ask(finance, "D2", OUTSIDER)
    with copied(server, template) as url, SlackStandIn() as slack:
        database = Database(url, tenant_id="acme")
        index(database, embedder)
        use(database, f"group:{GROUP}")
        with answering(slack, database, embedder, review_channel=REVIEWERS) as other:
            with counting(database) as expected_work:
                expected = ask(other, "D2", OUTSIDER)
            calls = count_calls(slack)
        database.close()
    assert (answer["text"], answer.get("blocks")) == (expected["text"], expected.get("blocks"))
    # Nor do they wait for more work: the same statements find as many rows, and Slack is asked
    # alike. PostgreSQL itself still passes over the index entries of what it may not show.
    assert work == expected_work
    assert count_calls(finance.slack) == calls
    with counting(finance.database) as more_work:
        ask(finance, "D1", MEMBER)
    assert sum(count for _, count in more_work) > sum(count for _, count in work) > 20


def test_p47_no_surface_tells_others_of_a_page_or_of_its_answers(
    finance: Bot, workspace: SlackStandIn
) -> None:
    answer = ask(finance, "D1", MEMBER)
    assert tells(answer)
    database = finance.database
    (trace,) = find_rows(database.unrestricted, "traces")
    (votes,) = answer["blocks"][-1]["elements"]
    workspace.send_block_action(
        {**votes, "value": votes["negative_button"]["value"]},
        user_id=MEMBER,
        channel_id="D1",
        message_ts=answer["ts"],
    )
    (thanks,) = workspace.wait_for_call("chat.postEphemeral")
    (form,) = workspace.calls("views.open")
    assert blocks.WHO_READS not in json.dumps([thanks.params, form.params])
    assert digest.load(database, Settings()).cases == CaseCounts(
        new=0, approved=0, waiting=0, hidden=1
    )
    assert len(list(doctor.examine_cases(database))) == 1
    for user_id in (OUTSIDER, ADMIN):
        assert not tells([ask_stats(finance, user_id), ask_stats(finance, user_id, "gaps")])
        assert "Quillmark" not in ask_stats(finance, user_id, "gaps")
        assert not tells(open_home(finance, user_id))
    assert SOURCE in open_home(finance, MEMBER)
    assert "Quillmark" in ask_stats(finance, MEMBER, "gaps")
    assert not finance.slack.messages(REVIEWERS)
    assert len(find_rows(database.unrestricted, "feedback")) == 1
    assert cases.find(database, trace.trace_id) is not None  # it waits for who reads everything
    for user_id, found in ((OUTSIDER, 0), (MEMBER, 1)):
        view = {"blocks": [modals.build_page_input(None)], "type": "modal", "id": "V1"}
        envelope_id = workspace.send_block_suggestion(
            view, user_id=user_id, action_id=modals.PAGE, value="severance"
        )
        payload = workspace.wait_for_ack(envelope_id).payload
        assert len((payload or {}).get("options", [])) == found


@pytest.mark.parametrize("is_opened", [False, True])
def test_p47_answers_of_before_are_no_context_for_who_may_not_read_them(
    finance: Bot, embedder: Embedder, is_opened: bool
) -> None:
    first = ask(finance, FINANCE, MEMBER)
    if is_opened:  # without what it said
        ingest_severance(finance.database, embedder, "# Leaving\n\nAsk your lead.\n", "everyone")
    asked = replace(ask_in(FINANCE), thread_ts=first["thread_ts"], message_ts="1999999999.000001")
    for names, count in ((("everyone", "public", f"group:{GROUP}"), 1), (EVERYONE, 0)):
        past = conversations.find_past_answers(finance.database.reading_as(names), asked)
        assert len(past) == count
    # What is answered with it in mind is for those alone, too, whatever page it rests on.
    ask(finance, FINANCE, MEMBER, "when is lunch served?", thread_ts=first["thread_ts"])
    _, follow_up = find_rows(finance.database.unrestricted, "traces")
    assert [each["title"] for each in follow_up.citations] == ["Lunch"]
    (narrow,) = set(follow_up.audience_ids) - {0}
    assert find_names(finance.database, narrow) == {"*", f"group:{GROUP}"}
    assert len(find_rows(finance.database, "traces")) == 0


def find_names(database: Database, audience_id: int) -> set[str]:
    with database.transaction() as connection:
        return set(
            connection.execute(
                text("SELECT audience FROM audiences WHERE audience_id = :audience_id"),
                {"audience_id": audience_id},
            ).scalar_one()
        )


def test_p47_an_answer_that_names_a_page_it_replaces_is_for_who_may_read_both(
    workspace: SlackStandIn, database: Database, embedder: Embedder
) -> None:
    """A page for everyone, and one that it replaces, for finance."""
    index(database, embedder)
    asked = "how many weeks is parental leave at Quillmark?"
    old = page(
        "board/leave-cuts.md",
        "---\nsuperseded_by: leave/leave.md\n---\n# Parental leave cuts\n\n"
        "Parental leave at Quillmark is 12 weeks for each parent, and ten for directors.\n",
    )
    ingest(
        database,
        embedder,
        page(
            "leave/leave.md",
            "# Parental leave at Quillmark\n\n"
            "Parental leave at Quillmark is 20 weeks for each parent.\n",
        ),
        for_readers(old, f"group:{GROUP}"),
        source="leave",
    )
    with answering(workspace, database, embedder) as bot:
        ask(bot, "D1", MEMBER, asked)
        (trace,) = find_rows(database.unrestricted, "traces")
        assert [each["differs_from"] for each in trace.citations] == [["Parental leave cuts"]]
        assert find_rows(database, "traces") == []
        ask(bot, "D2", OUTSIDER, asked)
        (trace,) = find_rows(database, "traces")
        assert "20 weeks" in trace.answer and trace.citations[0]["differs_from"] == []


def test_p47_a_vote_joins_the_case_that_is_for_who_may_read_the_answer(finance: Bot) -> None:
    database = finance.database
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO eval_cases (case_id, tenant_id, state, origin, type, question, gold_any)
                VALUES ('open', 'acme', 'approved', 'import', '', :asked,
                        '[{"doc": "lunch.md", "source": "wiki"}]')
            """),
            {"asked": ASKED},
        )
    for channel_id, user_id in (("D1", MEMBER), ("D4", "U4"), ("D2", OUTSIDER)):
        ask(finance, channel_id, user_id)
    rows = {each.user_id: each for each in find_rows(database.unrestricted, "traces")}
    for user_id, trace in rows.items():
        with finance.jobs._follow(trace.trace_id):  # as the button does
            feedback.vote(database, trace.trace_id, user_id, -1)
    joined = {
        user_id: case.case_id
        for user_id, trace in rows.items()
        if (case := cases.find(database, trace.trace_id))
    }
    # What finance flags is a case of its own, and what others do joins theirs.
    assert joined[MEMBER] == joined["U4"] == f"flag-{rows[MEMBER].trace_id}"
    assert joined[OUTSIDER] == "open"
    assert [case.case_id for case in cases.list_cases(database)] == ["open"]
    (card,) = finance.slack.messages(REVIEWERS)
    assert not tells(card)


def test_p47_what_was_asked_follows_a_page_that_is_narrowed_or_widened(
    finance: Bot, embedder: Embedder
) -> None:
    database = finance.database
    event = finance.slack.write("when is lunch served?", channel_id="D2", user_id=OUTSIDER)
    finance.slack.send_event(event)
    finance.ended.wait_for(count=1)
    (trace,) = find_rows(database, "traces")
    assert (trace.outcome, trace.audience_ids) == ("answered", [0])
    feedback.vote(database, trace.trace_id, OUTSIDER, -1)
    assert cases.list_cases(database)
    with database.unrestricted.transaction() as connection:
        lunch = connection.execute(
            text("SELECT document_id FROM documents WHERE path = 'lunch.md'")
        ).scalars()
        audiences.assign(connection, (f"group:{GROUP}",), [lunch.one()])
    assert not find_rows(database, "traces") and not find_rows(database, "feedback")
    assert not cases.list_cases(database)
    assert cases.count_hidden(database) == 1
    with database.transaction() as connection:
        assert not connection.execute(text("SELECT FROM page_changes")).all()
    with database.unrestricted.transaction() as connection:
        audiences.assign(connection, ("public",), [trace.document_ids[0]])
    assert len(find_rows(database, "traces")) == len(cases.list_cases(database)) == 1
    assert cases.count_hidden(database) == 0
    with database.unrestricted.transaction() as connection:
        audiences.assign(connection, (f"group:{GROUP}",), trace.document_ids)
    finance.slack.send_event(finance.slack.edit(event, ASKED))
    finance.ended.wait_for(count=2)
    (trace,) = find_rows(database.unrestricted, "traces")
    # What was told before is in it, too.
    assert trace.outcome == "abstained" and not find_rows(database, "traces")


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """Quotes, but something comes between what it writes and its end."""

    quoter: Quoter
    interrupt: Callable[[], None]
    settings: Mapping[str, object]

    def generate(
        self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate], write: Write
    ) -> Answer:
        answer = self.quoter.generate(turns, query, kept)
        for grown in (answer.text[:-10], answer.text):  # what both begin with is shown
            write(replace(answer, text=grown))
        self.interrupt()
        return answer


def test_p47_a_page_that_is_narrowed_while_its_answer_is_written_is_not_told(
    workspace: SlackStandIn,
    database: Database,
    embedder: Embedder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = f"# {TITLE}\n\n{SECRET}\n"
    index(database, embedder)
    ingest_severance(database, embedder, secret, "everyone")
    quoter = Quoter(embedder)
    narrow = partial(ingest_severance, database, embedder, secret, f"group:{GROUP}")
    answerer = Answerer(
        retriever=build_retriever(database, embedder),
        generator=Interrupted(quoter=quoter, interrupt=narrow, settings=quoter.settings),
    )
    with connected(workspace, database, answerer=answerer) as bot:
        event = bot.mention(ASKED, user_id=OUTSIDER)
        bot.slack.send_event(event)
        bot.ended.wait_for(count=1)
        assert len(bot.slack.calls("chat.startStream")) == 1
        (shown,) = bot.slack.messages(TOWN, event["ts"])[1:]
        assert shown["text"] == posting.NARROWED and not tells(shown)
        (trace,) = find_rows(database.unrestricted, "traces")
        assert (trace.outcome, trace.error_class) == ("failed", "Narrowed")
        assert find_rows(database, "traces") == []
        asked = replace(
            ask_in(TOWN, OUTSIDER), message_ts=event["ts"], thread_ts=event["ts"], question=ASKED
        )
        bot.jobs.take_again(asked)
        bot.ended.wait_for(count=2)
        (shown,) = bot.slack.messages(TOWN, event["ts"])[1:]
        assert shown["text"] != posting.NARROWED and not tells(shown)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    (trace,) = find_rows(database, "traces")
    assert trace.outcome == "abstained"


def test_p47_an_answer_that_is_none_tells_others_of_no_source(finance: Bot) -> None:
    answer = ask(finance, "D1", MEMBER, "who won the chess olympiad in 1972?")
    assert tells(answer)
    (trace,) = find_rows(finance.database, "traces")
    assert trace.answer == "I couldn't find this in the pages that I could show."


def test_p47_a_page_that_is_gone_stays_with_those_who_could_read_it(
    finance: Bot, embedder: Embedder
) -> None:
    ask(finance, "D1", MEMBER)
    with finance.database.unrestricted.transaction() as connection:
        connection.execute(text("DELETE FROM documents WHERE path = 'severance.md'"))
        connection.execute(text("UPDATE traces SET settings = settings || '{}'"))
    assert not find_rows(finance.database, "traces")


def test_a_channel_that_another_company_joins_is_answered_at_once_from_what_is_public(
    finance: Bot,
) -> None:
    question = "when is lunch served in the canteen?"
    assert "from noon to two" in ask(finance, TOWN, MEMBER, question)["text"]
    finance.slack.workspace.channels[TOWN] = {"is_ext_shared": True}
    answer = ask(finance, TOWN, MEMBER, question)["text"]
    assert "no pages that I may use here" in answer
    assert answer.splitlines()[0].endswith(abstaining.AMONG_COMPANIES)


@pytest.mark.parametrize("user_id", [OUTSIDER, GUEST])
def test_where_many_read_a_refusal_says_where_it_looked_whatever_there_is(
    finance: Bot, user_id: str
) -> None:
    for question in (ASKED, "who won the chess olympiad in 1972?"):
        refused = ask(finance, TOWN, user_id, question)["text"]
        assert refused.splitlines()[0].endswith(abstaining.IN_CHANNEL)
    directly = ask(finance, "D1", MEMBER, question)["text"]
    assert "read along" not in directly and "couldn't find this" in directly


def test_strangers_that_are_answered_are_answered_from_what_is_public(
    workspace: SlackStandIn,
    database: Database,
    embedder: Embedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANSWER_STRANGERS", "true")
    workspace.workspace.channels[TOWN] = {"is_ext_shared": True}
    index(database, embedder)
    with answering(workspace, database, embedder) as bot:
        shown = ask(bot, TOWN, STRANGER)
        assert "no pages that I may use here" in shown["text"]
