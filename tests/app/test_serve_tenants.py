"""One process for many workspaces: each is answered from its own pages, by its own token."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr
from slack_sdk.oauth.installation_store import Installation

from app import health, installing, posting, serve_tenants, web
from app.answering import Answerer
from app.config import Settings
from app.generate.quoted import Quoter
from app.health import Health
from app.installations import Installations, OneRotator, find_tenant_id
from app.metrics import Metrics
from app.tenants import Tenants
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.models import Models
from tests.app.bot import find_rows
from tests.app.callers import SECRET, Caller
from tests.app.test_serve import MANIFEST
from tests.retrieval.pages import build_retriever, fit, ingest, page
from tests.retrieval.test_models import Loader
from tests.stand_ins import slack_payloads
from tests.stand_ins.slack import SlackStandIn

Json = dict[str, Any]
QUESTION = "what is the daily meal cap?"
# Of each tenant another amount: an answer tells from whose pages it is.
OWNER = "U00000BEN1"
CAPS = {"T1": "41 euros", "T2": "52 euros", "E1": "63 euros", "T7": "74 euros"}


class Process:
    """One process of the bot, and whoever calls it."""

    def __init__(
        self,
        slack: SlackStandIn,
        database: Database,
        embedder: Embedder,
        models: Models | None = None,
    ) -> None:
        self.slack = slack
        self.installations = Installations("1.2", database.engine)
        client = posting.build_client("", slack.api_url)
        settings = Settings(
            tenant_id="T1", slack_api_url=slack.api_url, slack_signing_secret=SecretStr(SECRET)
        )
        retriever = build_retriever(database.for_tenant("T1"), embedder)
        answerer = Answerer(retriever=replace(retriever, models=models), generator=Quoter(embedder))
        self.tenants = Tenants(
            self.installations,
            OneRotator(self.installations, client_secret="s", client=client),
            partial(serve_tenants.build_tenant, answerer, Metrics(), settings),
            signing_secret=SECRET,
        )
        self.flow = installing.build_flow(self.installations, client_secret="s", client=client)

    @contextmanager
    def serving(self, database: Database) -> Iterator[Caller]:
        state = Health(Event(), {"database": partial(health.check_database, database)})
        pages = web.build_web(state, Metrics(), bolt=self.tenants, oauth=self.flow)
        with web.listening(pages, "127.0.0.1", 0) as port:
            yield Caller(port)
            self.tenants.close()

    def list_installed(self) -> list[str]:
        return [find_tenant_id(bot) for bot in self.installations.list_bots()]

    def install(self, caller: Caller, **said: Any) -> str:
        """Install the app as a person does in a browser; the page that they see at the end."""
        begun = caller.get(installing.INSTALL_PATH)
        (address,) = [part for part in begun.body.split('"') if "oauth/v2/authorize" in part]
        (state,) = parse_qs(urlsplit(address.replace("&amp;", "&")).query)["state"]
        self.slack.oauth.codes["code"] = {"authed_user": {"id": "U1"}, "scope": "commands", **said}
        cookie = begun.headers["set-cookie"].partition(";")[0]
        return caller.get(f"{installing.REDIRECT_PATH}?code=code&state={state}", Cookie=cookie).body


@pytest.fixture
def process(slack: SlackStandIn, database: Database, embedder: Embedder) -> Process:
    for tenant_id, cap in CAPS.items():
        words = f"# Travel policy\n\n## Meals\n\nThe daily meal cap is {cap} a day.\n"
        text = f"---\nowner: {OWNER}\n---\n{words}"
        ingest(database.for_tenant(tenant_id), embedder, page("travel.md", text))
    return Process(slack, database, embedder)


def save(process: Process, **said: Any) -> None:
    """Have an installation be there."""
    said = {"bot_id": "B1", "bot_scopes": "commands", "bot_user_id": "U0BOT", **said}
    process.installations.save(Installation(app_id="A1", user_id="U1", installed_at=1.0, **said))
    process.slack.oauth.tokens[said["bot_token"]] = {
        "team_id": said.get("team_id"),
        "enterprise_id": said.get("enterprise_id"),
        "user_id": said["bot_user_id"],
    }


def save_expiring(process: Process) -> None:
    """Have an installation be there whose token ends soon."""
    process.slack.oauth.refresh_tokens = {"xoxe-1"}
    save(
        process,
        team_id="T1",
        bot_token="xoxb-old",
        bot_refresh_token="xoxe-1",
        bot_token_expires_in=30,
    )


def build_mention(
    slack: SlackStandIn, team_id: str, *, bot_user_id: str = "U0BOT", **said: Any
) -> Json:
    """A mention by a person of a workspace, as Slack sends it to the app there."""
    slack.workspace.users[f"U{team_id}"] = {
        "team_id": team_id,
        "enterprise_user": {"enterprise_id": said.get("enterprise_id")},
    }
    event = slack.write(
        f"<@{bot_user_id}> {QUESTION}", channel_id=f"C{team_id}", user_id=f"U{team_id}"
    )
    payload = slack_payloads.event_callback({**event, "type": "app_mention"}, f"Ev{event['ts']}")
    authorization = {**payload["authorizations"][0], "team_id": team_id, **said}
    return {**payload, "team_id": team_id, **said, "authorizations": [authorization]}


def find_answers(process: Process, team_id: str) -> list[tuple[str, str]]:
    """The text of each answer in a workspace, with the token that it was posted by."""
    return [
        (call.params["text"], call.headers["authorization"].partition(" ")[2])
        for call in process.slack.calls("chat.postMessage")
        if call.params["channel"] == f"C{team_id}"
    ]


def test_p49_each_workspace_is_answered_by_its_own_bot_from_its_own_pages(
    process: Process, database: Database
) -> None:
    save(process, team_id="T1", bot_token="xoxb-1")
    save(process, team_id="T2", bot_token="xoxb-2", bot_user_id="U2BOT", bot_id="B2")
    with process.serving(database) as caller:
        for team_id, bot_user_id in (("T1", "U0BOT"), ("T2", "U2BOT"), ("T1", "U0BOT")):
            mention = build_mention(process.slack, team_id, bot_user_id=bot_user_id)
            assert caller.send(mention).status == 200
        # What the other's bot writes here is somebody's message, what our own does is not.
        own = build_mention(process.slack, "T2", bot_user_id="U2BOT")
        own["event"] |= {"user": "U2BOT", "bot_id": "B2"}
        assert caller.send(own).status == 200
    first, second = find_answers(process, "T1"), find_answers(process, "T2")
    assert [token for _, token in first] == ["xoxb-1", "xoxb-1"]
    assert all(CAPS["T1"] in text and f"· Person {OWNER}" in text for text, _ in first)
    ((text, token),) = second
    assert CAPS["T2"] in text and token == "xoxb-2"
    for tenant_id, count in (("T1", 2), ("T2", 1)):
        traces = find_rows(database.for_tenant(tenant_id), "traces")
        assert [trace.outcome for trace in traces] == ["answered"] * count
        assert {trace.question for trace in traces} == {QUESTION}  # without its own mention


def test_workspaces_share_a_model_that_is_loaded_while_they_are_answered(
    slack: SlackStandIn, database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    load = Loader(mirrored)
    process = Process(slack, database, embedder, Models(load))
    for number in (2, 3):
        own = database.for_tenant(f"T{number}")
        ingest(own, mirrored, page("travel.md", "# Meals\n\nThe daily meal cap is 41 euros.\n"))
        fit(build_retriever(own, mirrored))
        save(process, team_id=f"T{number}", bot_token=f"xoxb-{number}")
    with process.serving(database) as caller:
        for number in (2, 3):
            assert caller.send(build_mention(slack, f"T{number}")).status == 200
    for number in (2, 3):
        ((text, _),) = find_answers(process, f"T{number}")
        assert "41 euros" in text
    assert len(load.begun) == 1


def test_p50_an_organisation_that_installed_it_is_answered_in_each_of_its_workspaces(
    process: Process, database: Database
) -> None:
    with process.serving(database) as caller:
        page_seen = process.install(
            caller,
            is_enterprise_install=True,
            team=None,
            enterprise={"id": "E1", "name": "Halvermeer"},
            bot_user_id="U0BOT",
        )
        assert "Thank you" in page_seen
        (token,) = process.slack.oauth.tokens
        process.slack.oauth.tokens[token] |= {"enterprise_id": "E1"}
        for said in ({"is_enterprise_install": True}, {}):
            mention = build_mention(process.slack, "T9", enterprise_id="E1", **said)
            assert caller.send(mention).status == 200
        process.slack.wait_for_call("chat.postMessage", count=2)
        # For whichever of its workspaces Slack sends the same again, or who asked comes home.
        (authorization,) = mention["authorizations"]
        there = {
            "team_id": "T8",
            "authorizations": [{**authorization, "team_id": "T8", "is_enterprise_install": True}],
        }
        opened = {"type": "app_home_opened", "user": "UT9", "tab": "home", "channel": "D9"}
        for said in ({"event_id": "EvAgain"}, {"event_id": "EvHome", "event": opened}):
            assert caller.send({**mention, **there, **said}).status == 200
        home = process.slack.wait_for_call("views.publish")[-1]
    assert QUESTION in str(home.params["view"])
    assert {each.team_id for each in find_rows(database.for_tenant("E1"), "traces")} == {"E1"}
    answers = find_answers(process, "T9")
    assert len(answers) == 2
    assert all(CAPS["E1"] in text and by == token for text, by in answers)


def test_p51_a_token_is_refreshed_and_an_installation_outlives_the_process(
    process: Process, database: Database, embedder: Embedder
) -> None:
    save_expiring(process)
    later = Process(process.slack, database, embedder)
    for each in (process, later):
        with each.serving(database) as caller:
            assert caller.send(build_mention(each.slack, "T1")).status == 200
    assert len(process.slack.calls("oauth.v2.access")) == 1
    tokens = {token for _, token in find_answers(process, "T1")}
    assert len(find_answers(process, "T1")) == 2 and len(tokens) == 1 and tokens != {"xoxb-old"}


def test_a_token_that_ends_while_nobody_asks_is_refreshed(
    process: Process, database: Database
) -> None:
    save_expiring(process)
    process.tenants.refresh_tokens()
    client = process.tenants.find_client("T1")
    assert client is not None and client.token not in ("xoxb-old", None)
    assert process.tenants.find_client("T2") is None
    process.tenants.close()


GOODBYES: list[Json] = [
    {"type": "app_uninstalled"},
    {"type": "tokens_revoked", "tokens": {"bot": ["U0BOT"]}},
]


@pytest.mark.parametrize("event", GOODBYES, ids=lambda event: str(event["type"]))
def test_a_workspace_that_removes_the_app_is_answered_no_more(
    process: Process, database: Database, event: Json
) -> None:
    save(process, team_id="T1", bot_token="xoxb-1")
    mention = build_mention(process.slack, "T1")
    with process.serving(database) as caller:
        assert caller.send({**mention, "event": event}).status == 200
        assert caller.send(mention).status == 200
    assert find_answers(process, "T1") == []
    assert process.list_installed() == []


def test_a_workspace_that_removes_the_app_leaves_that_of_its_organisation(
    process: Process, database: Database
) -> None:
    org = {"enterprise_id": "E1", "is_enterprise_install": True}
    save(process, **org, team_id=None, bot_token="xoxb-org")
    save(process, enterprise_id="E1", team_id="T2", bot_token="xoxb-2")
    mention = build_mention(process.slack, "T2", enterprise_id="E1")
    of_org = build_mention(process.slack, "T2", **org)
    with process.serving(database) as caller:
        for said, left in ((mention, ["E1"]), (of_org, [])):
            for event in GOODBYES * 2:  # Slack sends both, and each perhaps again
                assert caller.send({**said, "event": event}).status == 200
                assert process.list_installed() == left


def test_a_goodbye_that_comes_late_leaves_what_is_installed_since(
    process: Process, database: Database
) -> None:
    save(process, team_id="T1", bot_token="xoxb-1")
    mention = build_mention(process.slack, "T1")
    with process.serving(database) as caller:
        for event in GOODBYES:
            assert caller.send({**mention, "event_time": 1, "event": event}).status == 200
        assert process.list_installed() == ["T1"]


def test_who_does_not_sign_is_refused_before_anything_is_looked_up(
    process: Process, database: Database
) -> None:
    save(process, team_id="T1", bot_token="xoxb-1")
    with process.serving(database) as caller:
        assert caller.send(build_mention(process.slack, "T1"), secret="wrong").status == 401
        challenge = caller.send({"type": "url_verification", "challenge": "c"})
        assert (challenge.status, challenge.body) == (200, '{"challenge": "c"}')
    assert find_answers(process, "T1") == []


def test_an_installation_with_a_foreign_state_is_refused(
    process: Process, database: Database
) -> None:
    process.slack.oauth.codes["code"] = {"bot_user_id": "U0BOT", "team": {"id": "T1"}}
    with process.serving(database) as caller:
        reply = caller.get(f"{installing.REDIRECT_PATH}?code=code&state=made-up")
    assert reply.status == 400 and process.list_installed() == []


def test_what_is_asked_for_is_what_the_manifest_asks_for() -> None:
    assert sorted(installing.SCOPES) == sorted(MANIFEST["oauth_config"]["scopes"]["bot"])


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ({"slack_client_secret": None}, "set SLACK_CLIENT_ID, SLACK_CLIENT_SECRET and"),
        ({"slack_signing_secret": None}, "set SLACK_CLIENT_ID, SLACK_CLIENT_SECRET and"),
        ({"slack_bot_token": SecretStr("xoxb-1")}, "Unset SLACK_BOT_TOKEN"),
    ],
)
def test_what_is_missing_or_too_much_is_told(missing: Json, told: str) -> None:
    secrets = {"slack_client_secret": SecretStr("s"), "slack_signing_secret": SecretStr(SECRET)}
    with pytest.raises(ConfigError, match=told):
        serve_tenants.find_secrets(Settings(slack_client_id="1.2", **{**secrets, **missing}))
