"""App Home."""

import logging
from typing import Any

from slack_bolt import App, BoltContext
from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError

from app import home, posting, stats, traces
from app.listeners import messages
from retrieval.db import Database

log = logging.getLogger(__name__)


def register(app: App, database: Database, *, freshness_days: int) -> None:
    """Listen to who opens the home tab; the messages tab shows itself."""

    def opened(event: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if event.get("tab") != "home":
            return
        asked = traces.find_own(database, messages.find_team_id(context), event["user"])
        blocks = home.build_blocks(
            stats.load_sources(database, freshness_days),
            asked,
            freshness_days=freshness_days,
            workspace_url=find_workspace_url(client) if asked else None,
        )
        posting.publish_home(client, event["user"], blocks)

    app.event("app_home_opened")(opened)


def find_workspace_url(client: WebClient) -> str | None:
    """What links to messages begin with; None when Slack does not say.

    Bolt asks the same at its start, but keeps no URL of a single workspace (1.30).
    """
    try:
        return client.auth_test().get("url")
    except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
        log.info("auth.test did not work: %s", type(error).__name__)
        return None
