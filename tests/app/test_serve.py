"""The process: what it needs, how it starts, how it stops."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any, cast

import pytest
import yaml
from pydantic import SecretStr

from app import health, posting, ragstats, serve, web
from app import process as processes
from app.answering import Answerer
from app.config import Settings, load_settings
from app.health import Health
from app.hearing import Deaf, Hearing, Patience
from app.metrics import Metrics
from app.process import Process
from app.tenants import Tenant
from retrieval.db import Database
from retrieval.errors import ConfigError
from tests.app.bot import Bot, find_rows
from tests.app.callers import SECRET, Caller
from tests.stand_ins import slack_payloads
from tests.stand_ins.slack import SlackStandIn

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "manifest.yml").read_text("utf-8")
MANIFEST = yaml.safe_load(SOURCE)


BOT, APP, SIGNING = SecretStr("xoxb-1"), SecretStr("xapp-1"), SecretStr(SECRET)


def test_every_missing_token_is_named() -> None:
    both = r"Set SLACK_BOT_TOKEN and SLACK_APP_TOKEN \(or, for HTTP, SLACK_SIGNING_SECRET\) to"
    with pytest.raises(ConfigError, match=both):
        serve.find_tokens(Settings())
    with pytest.raises(ConfigError, match=r"Set SLACK_APP_TOKEN \(or, for HTTP, SLACK_SIGN"):
        serve.find_tokens(Settings(slack_bot_token=BOT))
    with pytest.raises(ConfigError, match="Set SLACK_BOT_TOKEN to"):
        serve.find_tokens(Settings(slack_app_token=APP))
    with pytest.raises(ConfigError, match="Set SLACK_BOT_TOKEN to"):
        serve.find_tokens(Settings(slack_signing_secret=SIGNING))


def test_an_app_token_means_socket_mode_and_a_signing_secret_http() -> None:
    socket_mode = Settings(slack_bot_token=BOT, slack_app_token=APP)
    assert serve.find_tokens(socket_mode) == ("xoxb-1", "xapp-1")
    over_http = Settings(slack_bot_token=BOT, slack_signing_secret=SIGNING)
    assert serve.find_tokens(over_http) == ("xoxb-1", None)


def test_both_ways_at_once_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"both set\. Unset SLACK_SIGNING_SECRET for Socket Mode,"
    ):
        serve.find_tokens(
            Settings(slack_bot_token=BOT, slack_app_token=APP, slack_signing_secret=SIGNING)
        )


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_what_is_no_port_is_told(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", port)
    with pytest.raises(ConfigError, match="PORT: "):
        load_settings()


def build(slack: SlackStandIn, bot: Bot, token: str, url: str | None = None) -> None:
    client = posting.build_client(token, url or slack.api_url)
    settings = Settings()
    serve.build_app(
        client,
        database=bot.database,
        jobs=bot.jobs,
        settings=settings,
        reviews=serve.build_reviews(client, bot.database, bot.jobs.rights, settings),
        retriever=None,
    )


def test_a_refused_bot_token_is_told_by_its_name(slack: SlackStandIn, bot: Bot) -> None:
    with pytest.raises(ConfigError, match=r"Slack does not take SLACK_BOT_TOKEN: invalid_auth\."):
        build(slack, bot, "xoxb-wrong")
    with pytest.raises(ConfigError, match="SLACK_BOT_TOKEN: not_allowed_token_type"):
        build(slack, bot, slack.app_token)  # the two mixed up


def test_an_unreachable_slack_is_told(slack: SlackStandIn, bot: Bot) -> None:
    with pytest.raises(ConfigError, match=r"Slack cannot be reached at http://127\.0\.0\.1:1/api/"):
        build(slack, bot, slack.bot_token, "http://127.0.0.1:1/api/")


def test_a_token_in_the_environment_is_no_warning_and_others_stay(
    slack: SlackStandIn,
    bot: Bot,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", slack.bot_token)
    build(slack, bot, slack.bot_token)
    logging.getLogger("slack_bolt").warning("something else")
    assert [record.getMessage() for record in caplog.records] == ["something else"]


def build_process(bot: Bot, stop: Event | None = None, **settings: Any) -> Process:
    stop = stop or Event()
    token = health.TokenCheck(bot.app.client)
    looks = {"token": token.look, "database": partial(health.check_database, bot.database)}
    return Process(
        settings=Settings(**settings),
        database=bot.database,
        answerer=cast(Answerer, None),
        metrics=bot.metrics,
        health=Health(stop, looks),
        stop=stop,
    )


def close(bot: Bot) -> None:
    client = posting.build_client(bot.slack.bot_token, bot.slack.api_url)
    Tenant(bolt=bot.app, attempts=bot.attempts, places=bot.places, client=client).close()


@contextmanager
def serving(bot: Bot, hearing: AbstractContextManager[object]) -> Iterator[Event]:
    """The bot, serving until the event is set or the block left."""
    process = build_process(bot)
    serve_it = partial(process.serve, hearing, bot.worker, partial(close, bot))
    thread = Thread(target=serve_it)
    thread.start()
    try:
        yield process.stop
    finally:
        process.stop.set()
        thread.join()


def connected(
    slack: SlackStandIn, bot: Bot, token: str | None = None, **settings: Any
) -> AbstractContextManager[object]:
    """Socket Mode, as run sets it up."""
    hearing = Hearing(bot.app, token or slack.app_token, Event().set)
    return serve.connected(hearing, build_process(bot, **settings))


@contextmanager
def listening(bot: Bot, ports: Queue[int]) -> Iterator[None]:
    """HTTP, on a free port that is told."""
    pages = web.build_web(Health(Event(), {}), Metrics(), bolt=bot.app)
    with web.listening(pages, "127.0.0.1", 0) as port:
        ports.put(port)
        yield


def test_it_stops_after_finishing_what_is_begun(slack: SlackStandIn, database: Database) -> None:
    bot = Bot(slack, database, is_working=False)
    bot.answerer.held["slow?"] = Event()
    with serving(bot, connected(slack, bot)) as stop:
        slack.send_event(bot.mention("slow?"))
        bot.answerer.wait_until_asked("slow?")
        stop.set()
        bot.answerer.held["slow?"].set()
    assert_answered(bot)


def test_it_stops_so_over_http_too(
    slack: SlackStandIn, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_SIGNING_SECRET", SECRET)
    bot = Bot(slack, database, is_working=False)
    bot.answerer.held["slow?"] = Event()
    ports: Queue[int] = Queue()
    with serving(bot, listening(bot, ports)) as stop:
        caller = Caller(ports.get(timeout=10))
        caller.send(slack_payloads.event_callback(bot.mention("slow?"), "Ev1"))
        bot.answerer.wait_until_asked("slow?")
        stop.set()
        bot.answerer.held["slow?"].set()
    assert_answered(bot)
    with pytest.raises(ConnectionRefusedError):
        caller.get("/healthz")


def assert_answered(bot: Bot) -> None:
    (call,) = bot.slack.calls("chat.postMessage")
    assert call.params["text"] == "You ask: slow?"
    assert find_rows(bot.database, "traces")[0].outcome == "answered"


def test_a_refused_app_token_is_told_by_its_name(slack: SlackStandIn, database: Database) -> None:
    bot = Bot(slack, database, is_working=False)
    refused = connected(slack, bot, "xapp-wrong")
    with pytest.raises(ConfigError, match="Slack does not take SLACK_APP_TOKEN: invalid_auth"):
        build_process(bot).serve(refused, bot.worker, partial(close, bot))


def test_p17_a_process_that_is_deaf_for_good_finishes_what_is_begun_and_fails(
    slack: SlackStandIn, database: Database
) -> None:
    bot, stop = Bot(slack, database, is_working=False), Event()
    patience = Patience(ping_s=0.1, greeting_s=0.1, least_retry_s=0.1, deaf_s=0.6)
    hearing = Hearing(bot.app, slack.app_token, stop.set, patience)
    slack.send_event(bot.mention("slow?"))  # kept until it connects
    process = build_process(bot, stop)
    hears = serve.connected(hearing, process)

    def end() -> None:
        assert stop.is_set()
        close(bot)

    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(process.serve, hears, bot.worker, end)
        bot.answerer.wait_until_asked("slow?")
        slack.mute_connections(and_new_ones=True)
        with pytest.raises(Deaf, match="was not heard"):
            served.result(20)
    assert_answered(bot)


def test_with_a_port_socket_mode_shows_how_it_is(slack: SlackStandIn, database: Database) -> None:
    bot = Bot(slack, database)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1, port {port}"):
            with connected(slack, bot, host="127.0.0.1", port=port):
                pass
    with connected(slack, bot, host="127.0.0.1", port=port):
        caller = Caller(port)
        assert caller.get("/healthz").status == caller.get("/metrics").status == 200
        parts = json.loads(caller.get("/healthz").body)["parts"]
        assert set(parts) == {"slack", "token", "database"}
        assert parts["slack"]["text"].startswith("The last sign of life came ")
        assert caller.send({"type": "url_verification", "challenge": "c"}).status == 404
    bot.settle()


REVOKED = {"ok": False, "error": "token_revoked"}


def test_it_is_not_well_once_the_token_is_revoked(slack: SlackStandIn, database: Database) -> None:
    bot = Bot(slack, database)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    slack.fail_next("auth.test", body=REVOKED)
    with connected(slack, bot, host="127.0.0.1", port=port):
        assert Caller(port).get("/healthz").status == 503
    bot.settle()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop_and_a_second_one_ends(number: signal.Signals) -> None:
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    stop = Event()
    try:
        processes.stop_on_signals(stop)
        os.kill(os.getpid(), number)
        assert stop.wait(10)
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


METHODS = {  # the scope that each method of the Web API needs
    **dict.fromkeys(("auth.test", "views.open", "views.update", "views.publish"), None),
    **dict.fromkeys(("chat.postMessage", "chat.postEphemeral", "chat.update"), "chat:write"),
    **dict.fromkeys(("chat.startStream", "chat.appendStream", "chat.stopStream"), "chat:write"),
    **dict.fromkeys(("chat.stream", "chat.delete", "assistant.threads.setStatus"), "chat:write"),
    "assistant.threads.setSuggestedPrompts": "assistant:write",
    **dict.fromkeys(("files.getUploadURLExternal", "files.completeUploadExternal"), "files:write"),
    **dict.fromkeys(("reactions.add", "reactions.remove"), "reactions:write"),
    **dict.fromkeys(("users.info", "bots.info"), "users:read"),
    "usergroups.list": "usergroups:read",
    # Of each kind of place another one.
    **dict.fromkeys(("conversations.info", "conversations.members", "users.conversations"), None),
    "conversations.replies": None,
}
PLACES = [
    f"{place}:{what}"
    for place in ("channels", "groups", "im", "mpim")
    for what in ("read", "history")
]
EVENTS = {  # the scope that each event needs
    "app_home_opened": None,
    "app_mention": "app_mentions:read",
    "message.im": "im:history",
    **dict.fromkeys(("reaction_added", "reaction_removed"), "reactions:read"),
}


def test_the_manifest_asks_for_the_scopes_that_are_needed_and_no_others() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py"))
    families = "assistant|auth|bots|chat|conversations|files|reactions|team|usergroups|users|views"
    called = re.findall(rf"\.((?:{families})_\w+)\(", code)
    called += re.findall(rf"\"((?:{families})\.[\w.]+)\"", code)
    methods = {name.replace("_", ".") for name in called}
    events = MANIFEST["settings"]["event_subscriptions"]["bot_events"]
    needed = {METHODS[method] for method in methods} | {EVENTS[event] for event in events}
    needed |= {"commands", *PLACES}
    assert set(MANIFEST["oauth_config"]["scopes"]["bot"]) == needed - {None}


def test_the_manifest_has_what_the_listeners_need() -> None:
    assert MANIFEST["_metadata"] == {"major_version": 2}
    assert set(MANIFEST["settings"]["event_subscriptions"]["bot_events"]) == {
        *("app_home_opened", "app_mention", "message.im", "reaction_added", "reaction_removed"),
    }
    (command,) = MANIFEST["features"]["slash_commands"]
    assert f"{command['command']} {command['usage_hint']}" in ragstats.USAGE
    assert MANIFEST["settings"]["socket_mode_enabled"]
    assert MANIFEST["features"]["app_home"]["home_tab_enabled"]
    assert MANIFEST["features"]["app_home"]["messages_tab_enabled"]
    assert not MANIFEST["features"]["app_home"]["messages_tab_read_only_enabled"]


def build_http_variant() -> str:
    """The manifest as its comments say to change it for HTTP."""
    return SOURCE.replace("true  # HTTP: ", "").replace("# HTTP: ", "")


def test_the_comments_of_the_manifest_make_it_one_for_http() -> None:
    url = f"https://footnote.example.com{web.EVENTS_PATH}"
    manifest = yaml.safe_load(build_http_variant())
    settings = manifest["settings"]
    assert settings.pop("socket_mode_enabled") is False
    assert settings["event_subscriptions"].pop("request_url") == url
    assert settings["interactivity"].pop("request_url") == url
    assert settings["interactivity"].pop("message_menu_options_url") == url  # typing a title
    assert [command.pop("url") for command in manifest["features"]["slash_commands"]] == [url]
    settings["socket_mode_enabled"] = True
    assert manifest == MANIFEST


# The limits of Slack's own schema, slackapi/manifest-schema 2.0.0, which also took both variants
# on 2026-11-30.
@pytest.mark.parametrize("source", [SOURCE, build_http_variant()], ids=["Socket Mode", "HTTP"])
def test_the_manifest_keeps_slacks_limits(source: str) -> None:
    manifest = yaml.safe_load(source)
    assert set(manifest) == {
        *("_metadata", "display_information", "features", "oauth_config", "settings")
    }
    shown = manifest["display_information"]
    assert set(shown) <= {"name", "description", "long_description", "background_color"}
    assert 1 <= len(shown["name"]) <= 35
    assert 1 <= len(shown["description"]) <= 140
    assert 175 <= len(shown["long_description"]) <= 4_000
    assert re.fullmatch(r"#[0-9a-fA-F]{6}", shown["background_color"])
    assert 1 <= len(manifest["features"]["bot_user"]["display_name"]) <= 80
    for command in manifest["features"]["slash_commands"]:
        assert set(command) <= {"command", "url", "description", "usage_hint", "should_escape"}
        assert re.fullmatch(r"/\S{1,31}", command["command"])
        assert 1 <= len(command["description"]) <= 2_000
        assert 1 <= len(command["usage_hint"]) <= 1_000
    for shortcut in manifest["features"].get("shortcuts", ()):
        assert set(shortcut) == {"name", "type", "callback_id", "description"}
        assert 1 <= len(shortcut["name"]) <= 24 and 1 <= len(shortcut["description"]) <= 150
    for listed in (
        manifest["oauth_config"]["scopes"]["bot"],
        manifest["settings"]["event_subscriptions"]["bot_events"],
    ):
        assert len(listed) == len(set(listed)) <= 100 and max(map(len, listed)) <= 50


HANGS = """
import threading
from app import process
threading.Thread(target=threading.Event().wait).start()
stop = threading.Event()
process.end_after(stop, 0.1)
stop.set()
"""


def test_a_process_that_is_to_stop_ends_whatever_hangs() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], timeout=60, check=False)
    assert ended.returncode == 1
