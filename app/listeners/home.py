"""App Home: what its tabs show to who opens them."""

from typing import Any

from slack_bolt import App, BoltContext
from slack_sdk import WebClient

from app import home, posting, prompts, stats, traces
from app.listeners import messages
from app.workspace import Workspace
from retrieval.db import Database


def register(app: App, database: Database, workspace: Workspace, *, freshness_days: int) -> None:
    """Listen to who opens the home tab, or the messages tab, which in older apps is a pane."""

    def opened(event: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if event.get("tab") == "messages":
            posting.suggest(client, event["channel"], prompts.load(database))
        elif event.get("tab") == "home":
            show(event["user"], context, client)

    def show(user_id: str, context: BoltContext, client: WebClient) -> None:
        asked = traces.find_own(database, messages.find_team_id(context), user_id)
        blocks = home.build_blocks(
            stats.load_sources(database, freshness_days),
            asked,
            freshness_days=freshness_days,
            workspace_url=workspace.find_url() if asked else None,
        )
        posting.publish_home(client, user_id, blocks)

    def pane_opened(event: dict[str, Any], client: WebClient) -> None:
        thread = event["assistant_thread"]
        posting.suggest(
            client, thread["channel_id"], prompts.load(database), thread_ts=thread["thread_ts"]
        )

    app.event("app_home_opened")(opened)
    app.event("assistant_thread_started")(pane_opened)
