"""The process of a bot that many workspaces install: each has its own token, pages and answers."""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from slack_bolt.authorization import AuthorizeResult
from slack_sdk.oauth.installation_store import Bot

from app import installing, posting, retention, serve, web
from app import process as processes
from app.config import Settings
from app.installations import Installations, OneRotator
from app.metrics import CountedCalls, Metrics
from app.process import Process
from app.tenants import Tenant, Tenants
from retrieval.errors import ConfigError

if TYPE_CHECKING:  # takes seconds to import
    from app.answering import Answerer

log = logging.getLogger(__name__)

# Bolt reads them itself, and would look for tokens in files.
READ_BY_BOLT = ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET")
REFRESH_S = 1_800  # tokens last for 12 hours, and are refreshed 2 before they end
# What is said of channels, groups and people of one workspace.
OF_ONE: Mapping[str, Any] = {
    "admins": frozenset(),
    "experts": {},
    "report_channel": None,
    "review_channel": None,
    "tickets": None,
}


def run(settings: Settings) -> None:
    """Answer every workspace that installs the app, by HTTP, until SIGTERM or SIGINT.

    What is set of channels and people, and what comes by itself, is for the workspace TENANT_ID.
    Raises ConfigError when a secret is missing, the database unreachable, or the port taken.
    """
    from app.loop import trackers

    client_id, client_secret, _ = find_secrets(settings)
    trackers.build(settings)
    process = processes.build(settings)
    tenants = build_tenants(process)
    flow = installing.build_flow(
        Installations(client_id, process.database.engine),
        client_secret=client_secret,
        client=posting.build_client("", settings.slack_api_url),
    )
    schedules = serve.build_schedules(
        process,
        partial(tenants.find_client, settings.tenant_id),
        lambda: {settings.tenant_id, *retention.list_workspaces(process.database)},
    )
    pages = web.build_web(process.health, process.metrics, bolt=tenants, oauth=flow)
    hearing = web.listening(pages, settings.host, settings.port or serve.HTTP_PORT)
    with schedules:
        serve_all(process, tenants, hearing)


def run_worker(settings: Settings) -> None:
    """Answer what others have heard until SIGTERM or SIGINT; raises ConfigError as run does."""
    find_secrets(settings)
    process = processes.build(settings)
    serve_all(process, build_tenants(process), process.showing())


def build_tenants(process: Process) -> Tenants:
    """Whoever has installed the app."""
    settings = process.settings
    client_id, client_secret, signing_secret = find_secrets(settings)
    for name in READ_BY_BOLT:
        os.environ.pop(name, None)
    installations = Installations(client_id, process.database.engine)
    client = posting.build_client("", settings.slack_api_url)
    return Tenants(
        installations,
        OneRotator(installations, client_secret=client_secret, client=client),
        partial(build_tenant, process.answerer, process.metrics, settings),
        signing_secret=signing_secret,
    )


def serve_all(process: Process, tenants: Tenants, hearing: AbstractContextManager[object]) -> None:
    """Answer them all, as Process.serve does."""
    worker = process.build_worker(tenants.answer, tenants.give_back)
    with refreshing(tenants, process.stop):
        process.serve(hearing, worker, tenants.close)


def find_secrets(settings: Settings) -> tuple[str, str, str]:
    """The app's id and secret, and that by which Slack signs.

    Raises ConfigError naming what is missing or one too many.
    """
    client_id, client_secret = settings.slack_client_id, settings.slack_client_secret
    signing = settings.slack_signing_secret
    if settings.slack_bot_token or settings.slack_app_token:
        raise ConfigError(
            "SLACK_CLIENT_ID is for many workspaces, of which each has a token of its own. Unset "
            "SLACK_BOT_TOKEN and SLACK_APP_TOKEN, or SLACK_CLIENT_ID for one workspace."
        )
    if client_id is None or client_secret is None or signing is None:
        raise ConfigError(
            "For many workspaces, set SLACK_CLIENT_ID, SLACK_CLIENT_SECRET and "
            "SLACK_SIGNING_SECRET; all are on the app's page Basic Information."
        )
    return client_id, client_secret.get_secret_value(), signing.get_secret_value()


def build_tenant(
    answerer: "Answerer", metrics: Metrics, settings: Settings, tenant_id: str, bot: Bot
) -> Tenant:
    """What answers a workspace or organisation from its own documents."""
    client = posting.build_client(bot.bot_token, settings.slack_api_url, CountedCalls(metrics))

    def authorize() -> AuthorizeResult:
        return AuthorizeResult(
            enterprise_id=bot.enterprise_id,
            team_id=bot.team_id,
            bot_user_id=bot.bot_user_id,
            bot_id=bot.bot_id,
            bot_token=client.token,
        )

    retriever = answerer.retriever
    if tenant_id != settings.tenant_id:
        settings = settings.model_copy(update={**OF_ONE, "tenant_id": tenant_id})
        retriever = replace(retriever, database=retriever.database.for_tenant(tenant_id))
    own = replace(answerer, retriever=retriever)
    return serve.build_tenant(client, own, metrics, settings, authorize)


@contextmanager
def refreshing(tenants: Tenants, stop: threading.Event) -> Iterator[None]:
    """Have tokens last while the block runs, which ends with stop."""

    def work() -> None:
        while not stop.wait(REFRESH_S):
            try:
                tenants.refresh_tokens()
            except Exception:  # the database is away; the thread must outlive that
                log.exception("Tokens were not refreshed")

    threading.Thread(target=work, name="tokens", daemon=True).start()
    yield
