"""The process: what it needs, how it starts, how it stops."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
import yaml
from pydantic import SecretStr

from app import posting, ragstats, serve
from app.config import Settings
from retrieval.db import Database
from retrieval.errors import ConfigError
from tests.app.bot import Bot, find_rows
from tests.stand_ins.slack import SlackStandIn

MANIFEST = yaml.safe_load((Path(__file__).parents[2] / "manifest.yml").read_text())


def test_every_missing_token_is_named() -> None:
    with pytest.raises(ConfigError, match="Set SLACK_BOT_TOKEN and SLACK_APP_TOKEN to"):
        serve.find_tokens(Settings())
    with pytest.raises(ConfigError, match="Set SLACK_APP_TOKEN to"):
        serve.find_tokens(Settings(slack_bot_token=SecretStr("xoxb-1")))


def test_both_tokens_are_found() -> None:
    settings = Settings(slack_bot_token=SecretStr("xoxb-1"), slack_app_token=SecretStr("xapp-1"))
    assert serve.find_tokens(settings) == ("xoxb-1", "xapp-1")


def build(slack: SlackStandIn, bot: Bot, token: str, url: str | None = None) -> None:
    client = posting.build_client(token, url or slack.api_url)
    serve.build_app(client, database=bot.database, jobs=bot.jobs, settings=Settings())


def test_a_refused_bot_token_is_told_by_its_name(slack: SlackStandIn, bot: Bot) -> None:
    with pytest.raises(ConfigError, match=r"Slack does not take SLACK_BOT_TOKEN: invalid_auth\."):
        build(slack, bot, "xoxb-wrong")
    with pytest.raises(ConfigError, match="SLACK_BOT_TOKEN: not_allowed_token_type"):
        build(slack, bot, slack.app_token)  # the two mixed up


def test_an_unreachable_slack_is_told(slack: SlackStandIn, bot: Bot) -> None:
    with pytest.raises(ConfigError, match=r"Slack cannot be reached at http://127\.0\.0\.1:1/api/"):
        build(slack, bot, slack.bot_token, "http://127.0.0.1:1/api/")


def test_bolt_is_kept_from_looking_for_other_tokens(
    slack: SlackStandIn, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_CLIENT_ID", "1.1")
    monkeypatch.setenv("SLACK_CLIENT_SECRET", "secret")
    with pytest.raises(ConfigError, match="Unset SLACK_CLIENT_ID"):
        build(slack, bot, slack.bot_token)


@contextmanager
def serving(slack: SlackStandIn, bot: Bot) -> Iterator[Event]:
    """The bot, serving until the event is set or the block left."""
    stop = Event()
    thread = Thread(target=serve.serve_until, args=(stop, bot.app, slack.app_token, bot.jobs))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()


def test_it_stops_after_finishing_what_is_begun(slack: SlackStandIn, database: Database) -> None:
    bot = Bot(slack, database)
    bot.answerer.held["slow?"] = Event()
    with serving(slack, bot) as stop:
        slack.send_event(bot.mention("slow?"))
        bot.answerer.wait_until_asked("slow?")
        stop.set()
        bot.answerer.held["slow?"].set()
    (call,) = slack.calls("chat.postMessage")
    assert call.params["text"] == "You ask: slow?"
    assert find_rows(database, "traces")[0].outcome == "answered"


def test_a_refused_app_token_is_told_by_its_name(slack: SlackStandIn, database: Database) -> None:
    bot = Bot(slack, database)
    with pytest.raises(ConfigError, match="Slack does not take SLACK_APP_TOKEN: invalid_auth"):
        serve.serve_until(Event(), bot.app, "xapp-wrong", bot.jobs)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop_and_a_second_one_ends(number: signal.Signals) -> None:
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    stop = Event()
    try:
        serve.stop_on_signals(stop)
        os.kill(os.getpid(), number)
        assert stop.wait(10)
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def test_the_manifest_has_what_the_listeners_need() -> None:
    assert MANIFEST["_metadata"] == {"major_version": 2}
    assert set(MANIFEST["settings"]["event_subscriptions"]["bot_events"]) == {
        *("app_home_opened", "app_mention", "message.im", "reaction_added", "reaction_removed"),
    }
    assert set(MANIFEST["oauth_config"]["scopes"]["bot"]) == {
        *("app_mentions:read", "im:history", "reactions:read", "commands"),  # to hear
        *("chat:write", "reactions:write"),  # to answer
    }
    (command,) = MANIFEST["features"]["slash_commands"]
    assert f"{command['command']} {command['usage_hint']}" in ragstats.USAGE
    assert MANIFEST["settings"]["socket_mode_enabled"]
    assert MANIFEST["features"]["app_home"]["home_tab_enabled"]
    assert MANIFEST["features"]["app_home"]["messages_tab_enabled"]
    assert not MANIFEST["features"]["app_home"]["messages_tab_read_only_enabled"]


def test_the_manifest_keeps_slacks_limits() -> None:
    shown = MANIFEST["display_information"]
    assert len(shown["name"]) <= 35
    assert len(shown["description"]) <= 140
    assert 175 <= len(shown["long_description"]) <= 4_000
