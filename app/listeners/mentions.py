"""Mentions in channels, in a thread or not."""

from typing import Any

from slack_bolt import App, BoltContext

from app.jobs import Jobs
from app.listeners import messages


def register(app: App, jobs: Jobs) -> None:
    """Listen to mentions of Footnote."""

    def mention(event: dict[str, Any], context: BoltContext) -> None:
        messages.take(event, context, jobs)

    app.event("app_mention")(mention)
