"""The bot's process: builds the parts, hears Slack, stops cleanly; decides nothing."""

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from slack_bolt import Ack, App
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.error import BoltError
from slack_bolt.logger.messages import warning_client_prioritized_and_token_skipped
from slack_bolt.middleware import SslCheck
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import health, posting, retention, syncing, web
from app import process as processes
from app.attempts import Attempts
from app.config import Settings
from app.hearing import Hearing
from app.jobs import Jobs
from app.limits import Limits
from app.listeners import (
    actions,
    commands,
    confirming,
    errors,
    escalation,
    home,
    mentions,
    messages,
    reactions,
    replies,
    review,
    shortcuts,
    strangers,
)
from app.loop import stale_pages
from app.loop.review_messages import Reviews
from app.loop.schedule import Schedule, running
from app.metrics import CountedCalls, Metrics
from app.places import Places
from app.process import Process
from app.rights import Rights, check_scopes
from app.tenants import Tenant
from app.workspace import Workspace
from retrieval.db import Database
from retrieval.errors import ConfigError

if TYPE_CHECKING:  # takes seconds to import
    from app.answering import Answerer
    from retrieval.retrieve import Retriever

# Bolt's default is 5: as many people opening App Home while Slack limits it would make us deaf.
LISTENER_THREADS = 20  # chosen
HTTP_PORT = 3000  # where Bolt's examples listen, too

log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Answer in Slack until SIGTERM or SIGINT, by Socket Mode or HTTP, as is set.

    Raises ConfigError when a token is missing or refused, Slack or the database unreachable, or
    the port taken, and Deaf at the end when Slack was not heard for too long.
    """
    from app.loop import trackers

    _, app_token = find_tokens(settings)
    trackers.build(settings)  # raises now what it would raise at night
    process = processes.build(settings)
    tenant = build_own_tenant(process)
    token = health.TokenCheck(tenant.client)
    process.health.add("token", token.look)
    hearing: AbstractContextManager[object]
    if app_token is None:
        pages = web.build_web(process.health, process.metrics, bolt=tenant.bolt)
        hearing = web.listening(pages, settings.host, settings.port or HTTP_PORT)
    else:
        ear = Hearing(tenant.bolt, app_token, process.stop.set)
        hearing = connected(ear, process)
    schedules = build_schedules(
        settings,
        process.answerer.retriever,
        process.stop,
        lambda: tenant.client,
        lambda: [settings.tenant_id],
    )
    with schedules:
        serve(process, tenant, hearing)


def run_worker(settings: Settings) -> None:
    """Answer what others have heard until SIGTERM or SIGINT; raises ConfigError as run does."""
    find_tokens(settings)
    process = processes.build(settings)
    serve(process, build_own_tenant(process), process.showing())


def build_own_tenant(process: Process) -> Tenant:
    """What answers the workspace of SLACK_BOT_TOKEN; raises ConfigError when that is refused."""
    settings = process.settings
    bot_token, _ = find_tokens(settings)
    counted = CountedCalls(process.metrics)
    client = posting.build_client(bot_token, settings.slack_api_url, counted)
    with _explained("SLACK_BOT_TOKEN", client):
        check_scopes(client)
    return build_tenant(client, process.answerer, process.metrics, settings)


def serve(process: Process, tenant: Tenant, hearing: AbstractContextManager[object]) -> None:
    """Answer one workspace, as Process.serve does."""

    def work(_tenant_id: str, trace_id: UUID) -> None:
        tenant.attempts.run(trace_id)

    process.serve(hearing, process.build_worker(work, tenant.attempts.stop), tenant.close)


def build_tenant(
    client: WebClient,
    answerer: "Answerer",
    metrics: Metrics,
    settings: Settings,
    authorize: Callable[[], AuthorizeResult] | None = None,
) -> Tenant:
    """What answers one workspace; it looks by itself for reviews that were missed.

    authorize is by which token, where that may change, and as whom. Raises ConfigError as build_app
    does.
    """
    database = answerer.retriever.database
    rights = Rights(client, database)
    reviews = build_reviews(client, database, rights, settings)
    attempts = Attempts(
        client=client,
        database=database,
        answerer=answerer,
        rights=rights,
        metrics=metrics,
        experts=settings.experts,
    )
    queue = processes.find_queue(settings)
    places = Places(client, database, queue=queue, capacity=settings.answer_workers)
    jobs = Jobs(
        client=client,
        database=database,
        rights=rights,
        queue=queue,
        limits=build_limits(settings),
        places=places,
        follow=reviews.following,
    )
    app = build_app(
        client,
        database=database,
        jobs=jobs,
        settings=settings,
        reviews=reviews,
        retriever=answerer.retriever,
        authorize=authorize,
    )
    threading.Thread(target=reviews.show_missed, name="reviews", daemon=True).start()
    return Tenant(bolt=app, attempts=attempts, places=places, client=client)


@contextmanager
def build_schedules(
    settings: Settings,
    retriever: "Retriever",
    stop: threading.Event,
    find_client: Callable[[], WebClient | None],
    list_tenants: Callable[[], Iterable[str]],
) -> Iterator[None]:
    """Do what comes by itself while the block runs.

    Sources are synced, and the night's run and stale pages are told, by whom find_client has, for
    one tenant; what is past keeping goes of all tenants. Raises ConfigError when SOURCES cannot be
    read.
    """
    from app.loop import nightly

    database = retriever.database.unhurried
    retriever = replace(retriever, database=database)

    def run_night(*, progress: Callable[[int, int], None]) -> None:
        client = find_client()
        if client is None:
            log.warning("No night's run: tenant %s has not installed the app", settings.tenant_id)
        else:
            nightly.run(retriever, settings, client, progress=progress)

    tell_stale = partial(stale_pages.run, find_client, database, settings)
    nights = [Schedule(database, stale_pages.SCHEDULE, tell_stale, stop, job=stale_pages.JOB)]
    if settings.eval_schedule is not None:
        nights.append(Schedule(database, settings.eval_schedule, run_night, stop))
    if (days := settings.retention_days) is not None:

        def delete_expired(*, progress: Callable[[int, int], None]) -> None:
            for tenant_id in list_tenants():
                retention.run(database.for_tenant(tenant_id), days, progress=progress)

        schedule = Schedule(database, retention.SCHEDULE, delete_expired, stop, job=retention.JOB)
        nights.append(schedule)
    syncs = syncing.build_schedules(settings, database, retriever, stop)
    with running(nights, stop), running(syncs, stop):
        yield


def find_tokens(settings: Settings) -> tuple[str, str | None]:
    """The bot's token and, unless HTTP is set up, the app's.

    Raises ConfigError naming what is missing or one too many.
    """
    bot, app = settings.slack_bot_token, settings.slack_app_token
    secret = settings.slack_signing_secret
    if app and secret:
        raise ConfigError(
            "SLACK_APP_TOKEN and SLACK_SIGNING_SECRET are both set. Unset SLACK_SIGNING_SECRET "
            "for Socket Mode, or SLACK_APP_TOKEN for HTTP."
        )
    if bot is None or not (app or secret):
        tokens = {
            "SLACK_BOT_TOKEN": bot,
            "SLACK_APP_TOKEN (or, for HTTP, SLACK_SIGNING_SECRET)": app or secret,
        }
        missing = " and ".join(name for name, token in tokens.items() if token is None)
        raise ConfigError(f"Set {missing} to answer in Slack; the README says where to find it.")
    return bot.get_secret_value(), app.get_secret_value() if app else None


def build_reviews(
    client: WebClient, database: Database, rights: Rights, settings: Settings
) -> Reviews:
    """What stands in the channel of the reviewers, if there is one."""
    return Reviews(
        client,
        database,
        Workspace(client),
        rights,
        channel_id=settings.review_channel,
        freshness_days=settings.freshness_days,
    )


def build_limits(settings: Settings) -> Limits:
    """How many questions are answered an hour, at most."""
    return Limits(
        per_person=settings.questions_per_person,
        per_channel=settings.questions_per_channel,
    )


def build_app(
    client: WebClient,
    *,
    database: Database,
    jobs: Jobs,
    settings: Settings,
    reviews: Reviews,
    retriever: "Retriever | None",
    authorize: Callable[[], AuthorizeResult] | None = None,
) -> App:
    """The app with all its listeners; raises ConfigError when Slack does not take the token.

    Without a retriever, no passage is proposed to reviewers. With authorize, each request goes by
    the token that it gives.
    """
    app = _build_bolt(client, settings, authorize)
    strangers.register(
        app, database, allowed=settings.channels, are_answered=settings.answer_strangers
    )
    mentions.register(app, jobs, database, allowed=settings.channels)
    hear = partial(replies.hear, database=database, reviews=reviews)
    messages.register(app, jobs, database, allowed=settings.channels, heard=hear)
    reactions.register(app, database, reviews)
    actions.register(app, database, reviews, jobs.rights)
    review.register(
        app,
        database,
        reviews,
        experts=settings.experts,
        retriever=retriever,
        freshness_days=settings.freshness_days,
    )
    replies.register(app, database, reviews, jobs.rights)
    workspace = Workspace(client)
    escalation.register(app, database, workspace, experts=settings.experts)
    confirming.register(app, jobs.rights, admins=settings.admins, experts=settings.experts)
    shortcuts.register(app, jobs)
    commands.register(app, jobs.rights, settings)
    home.register(app, jobs.rights, workspace, freshness_days=settings.freshness_days)
    errors.register(app, jobs)
    # Of what nobody listens to, Bolt logs the whole text, and Slack sends it again.
    app.event(re.compile(".*"))(_let_pass)
    for listen_to in (app.action, app.view, app.options, app.shortcut):
        listen_to(re.compile(".*"))(_acknowledge)
    return app


def _build_bolt(
    client: WebClient, settings: Settings, authorize: Callable[[], AuthorizeResult] | None
) -> App:
    """The app without listeners."""
    secret = settings.slack_signing_secret
    bolt_log = logging.getLogger("slack_bolt")
    bolt_log.addFilter(_is_no_token_warning)
    with _explained("SLACK_BOT_TOKEN", client):
        app = App(
            client=client if authorize is None else WebClient(base_url=client.base_url),
            authorize=authorize,
            logger=bolt_log,
            signing_secret=secret.get_secret_value() if secret else "",
            # Where SLACK_VERIFICATION_TOKEN is set, Bolt reads it itself, and then refuses Slack.
            ssl_check_enabled=False,
            before_authorize=SslCheck(),
            listener_executor=ThreadPoolExecutor(LISTENER_THREADS, thread_name_prefix="listener"),
        )
    # It shows all of a request that it refuses; `web` says that it did. Building the app sets it.
    logging.getLogger("slack_bolt.RequestVerification").setLevel(logging.WARNING)
    return app


@contextmanager
def connected(hearing: Hearing, process: Process) -> Iterator[None]:
    """Hear by Socket Mode while the block runs and, with PORT set, show how Footnote is.

    Raises ConfigError when Slack does not take the token, or the port is taken, and Deaf at the end
    when Slack was not heard for too long.
    """
    try:
        with _explained("SLACK_APP_TOKEN", hearing.client):
            hearing.open()
        process.health.add("slack", hearing.look)
        with process.showing():
            yield
    finally:
        hearing.close()


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


def _is_no_token_warning(record: logging.LogRecord) -> bool:
    """Whether it is anything but that, beside our client, the token is not used: Bolt 1.30 reads
    SLACK_BOT_TOKEN itself, whatever it is given."""
    return record.getMessage() != warning_client_prioritized_and_token_skipped()


def _let_pass() -> None:
    """Take note of an event, and no more."""


def _acknowledge(ack: Ack) -> None:
    """Take note of a button, form or menu that is no longer ours, and no more."""
    ack()
