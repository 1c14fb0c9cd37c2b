"""Slash commands."""

from typing import Any

from slack_bolt import App, Respond

from app import channels, posting, ragstats, stats
from app.config import Settings
from app.listeners.actions import acknowledge
from app.rights import Rights
from app.stats import Scope, Viewer


def register(app: App, rights: Rights, settings: Settings) -> None:
    """Listen to /ragstats."""

    def show(command: dict[str, Any], respond: Respond) -> None:
        request = ragstats.parse(command.get("text") or "")
        if request is None:
            posting.answer_command(respond, ragstats.build_usage())
            return
        user_id, channel_id = command["user_id"], command["channel_id"]
        loaded = stats.load_stats(
            rights.open_for_person(user_id),
            Scope(days=request.days, channel_id=channel_id if request.is_here else None),
            viewer=Viewer(user_id=user_id, is_admin=user_id in settings.admins),
            settings=settings,
        )
        if request.is_gaps:
            message = ragstats.build_gaps(loaded)
        else:
            here = channels.describe(settings.channels, channel_id, command["channel_name"])
            message = ragstats.build_message(loaded, here)
        posting.answer_command(respond, message)

    app.command("/ragstats", middleware=[acknowledge])(show)
