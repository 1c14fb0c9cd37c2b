"""Slash commands."""

from collections.abc import Collection
from typing import Any

from slack_bolt import App, Respond

from app import posting, ragstats, stats
from app.listeners.actions import acknowledge
from app.stats import Scope, Viewer
from retrieval.db import Database


def register(app: App, database: Database, *, admins: Collection[str], freshness_days: int) -> None:
    """Listen to /ragstats; admins are user ids."""

    def show(command: dict[str, Any], respond: Respond) -> None:
        request = ragstats.parse(command.get("text") or "")
        if request is None:
            posting.answer_command(respond, ragstats.build_usage())
            return
        user_id, channel_id = command["user_id"], command["channel_id"]
        loaded = stats.load_stats(
            database,
            Scope(days=request.days, channel_id=channel_id if request.is_here else None),
            viewer=Viewer(user_id=user_id, is_admin=user_id in admins),
            freshness_days=freshness_days,
        )
        build = ragstats.build_gaps if request.is_gaps else ragstats.build_message
        posting.answer_command(respond, build(loaded))

    app.command("/ragstats", middleware=[acknowledge])(show)
