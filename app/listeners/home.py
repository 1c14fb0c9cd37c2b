"""App Home: what its tabs show to who opens them."""

from typing import Any

from slack_bolt import App, BoltContext
from slack_sdk import WebClient

from app import conversations, home, posting, prompts, stats
from app.listeners import messages
from app.rights import Rights
from app.workspace import Workspace


def register(app: App, rights: Rights, workspace: Workspace, *, freshness_days: int) -> None:
    """Listen to who opens the home tab, or the messages tab, which in older apps is a pane."""

    def opened(event: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if event.get("tab") == "messages":
            offered = prompts.load(rights.open_for_person(event["user"]))
            posting.suggest(client, event["channel"], offered)
        elif event.get("tab") == "home":
            show(event["user"], context, client)

    def show(user_id: str, context: BoltContext, client: WebClient) -> None:
        own = rights.open_for_person(user_id)
        asked = conversations.find_own(own, messages.find_team_id(context), user_id)
        blocks = home.build_blocks(
            stats.load_sources(own, freshness_days),
            asked,
            freshness_days=freshness_days,
            workspace_url=workspace.find_url() if asked else None,
        )
        posting.publish_home(client, user_id, blocks)

    def pane_opened(event: dict[str, Any], client: WebClient) -> None:
        thread = event["assistant_thread"]
        offered = prompts.load(rights.open_for_person(thread["user_id"]))
        posting.suggest(client, thread["channel_id"], offered, thread_ts=thread["thread_ts"])

    app.event("app_home_opened")(opened)
    app.event("assistant_thread_started")(pane_opened)
