"""The bot's process: builds the parts, connects to Slack, stops cleanly; decides nothing."""

import logging
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from slack_bolt import Ack, App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_bolt.error import BoltError
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import logs, posting
from app.config import Settings
from app.database import open_database
from app.jobs import Jobs
from app.listeners import actions, commands, errors, home, mentions, messages, reactions
from retrieval.db import Database
from retrieval.errors import ConfigError

STOP_TIMEOUT_S = 25  # supervisors commonly kill after 30

log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Answer in Slack until SIGTERM or SIGINT.

    Raises ConfigError when a token is missing or refused, Slack or the database unreachable.
    """
    from app import parts  # the models' libraries take seconds to import

    bot_token, app_token = find_tokens(settings)
    logs.configure(settings.log_level)
    database = open_database(settings)
    client = posting.build_client(bot_token, settings.slack_api_url)
    jobs = Jobs(
        client=client,
        database=database,
        answerer=parts.build_answerer(settings, database),
        executor=ThreadPoolExecutor(settings.answer_workers, thread_name_prefix="answer"),
    )
    stop = threading.Event()
    stop_on_signals(stop)
    app = build_app(client, database=database, jobs=jobs, settings=settings)
    serve_until(stop, app, app_token, jobs)
    database.close()


def find_tokens(settings: Settings) -> tuple[str, str]:
    """The bot's and the app's token; raises ConfigError naming what is missing."""
    bot, app = settings.slack_bot_token, settings.slack_app_token
    if bot is None or app is None:
        tokens = {"SLACK_BOT_TOKEN": bot, "SLACK_APP_TOKEN": app}
        missing = " and ".join(name for name, token in tokens.items() if token is None)
        raise ConfigError(f"Set {missing} to answer in Slack; the README says where to find it.")
    return bot.get_secret_value(), app.get_secret_value()


def build_app(client: WebClient, *, database: Database, jobs: Jobs, settings: Settings) -> App:
    """The app with all its listeners; raises ConfigError when Slack does not take the token."""
    with _explained("SLACK_BOT_TOKEN", client):
        app = App(client=client, logger=logging.getLogger("slack_bolt"))
    if app.oauth_flow is not None:
        # Bolt reads them itself, and would then look for other tokens than ours.
        raise ConfigError("Unset SLACK_CLIENT_ID and SLACK_CLIENT_SECRET: Footnote has one token.")
    mentions.register(app, jobs)
    messages.register(app, jobs)
    reactions.register(app, database)
    actions.register(app, database)
    days = settings.freshness_days
    commands.register(app, database, admins=settings.admins, freshness_days=days)
    home.register(app, database, freshness_days=days)
    errors.register(app, jobs)
    # Of what nobody listens to, Bolt logs the whole text, and Slack sends it again.
    app.event(re.compile(".*"))(_let_pass)
    for listen_to in (app.action, app.view, app.options, app.shortcut):
        listen_to(re.compile(".*"))(_acknowledge)
    return app


def serve_until(stop: threading.Event, app: App, app_token: str, jobs: Jobs) -> None:
    """Connect and answer until stop is set, then finish what is begun.

    Raises ConfigError when Slack does not take the token.
    """
    handler = SocketModeHandler(app, app_token)
    try:
        with _explained("SLACK_APP_TOKEN", app.client):
            handler.client.connect()
        log.info("Footnote is ready")
        stop.wait()
    finally:
        log.info("Footnote stops")
        handler.client.close()
        app.listener_runner.listener_executor.shutdown()  # what was received has become a job
        jobs.close(STOP_TIMEOUT_S)


def stop_on_signals(stop: threading.Event) -> None:
    """Have SIGTERM and SIGINT set stop; a second one ends the process at once."""

    def ask_to_stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)


@contextmanager
def _explained(variable: str, client: WebClient) -> Iterator[None]:
    """Turn what goes wrong with a token or a connection into what to do about it."""
    try:
        yield
    except (BoltError, SlackApiError) as error:
        refusal = error if isinstance(error, SlackApiError) else error.__context__
        reason = refusal.response["error"] if isinstance(refusal, SlackApiError) else error
        raise ConfigError(f"Slack does not take {variable}: {reason}.") from error
    except posting.CONNECTION_FAULTS as error:
        raise ConfigError(f"Slack cannot be reached at {client.base_url}.") from error


def _let_pass() -> None:
    """Take note of an event, and no more."""


def _acknowledge(ack: Ack) -> None:
    """Take note of a button, form or menu that is no longer ours, and no more."""
    ack()
