"""Slash commands."""

from slack_bolt import Ack, App, Respond

from app import posting, stats
from retrieval.db import Database


def register(app: App, database: Database) -> None:
    """Listen to /ragstats."""

    def ragstats(ack: Ack, respond: Respond) -> None:
        ack()  # first: Slack waits 3 s, the counts may take longer
        posting.reply_privately(respond, stats.build_text(stats.load_stats(database)))

    app.command("/ragstats")(ragstats)
