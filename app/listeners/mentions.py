"""Mentions in channels, in a thread or not."""

from collections.abc import Mapping
from typing import Any

from slack_bolt import App, BoltContext

from app.channels import ChannelMode
from app.jobs import Jobs
from app.listeners import messages
from app.listeners.first import acknowledged, before_ack
from retrieval.db import Database


def register(
    app: App, jobs: Jobs, database: Database, *, allowed: Mapping[str, ChannelMode]
) -> None:
    """Listen to mentions of Footnote; whom one calls besides may speak where follow-ups count."""

    def mention(body: dict[str, Any], context: BoltContext) -> None:
        messages.take(body, context, jobs)
        messages.note_standing(body, context, database, allowed)

    app.event("app_mention", middleware=[before_ack(mention)])(acknowledged)
