"""👍 and 👎 on our answers."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from slack_bolt import App

from app import feedback, traces
from app.feedback import Vote
from retrieval.db import Database


def register(app: App, database: Database) -> None:
    """Listen to reactions; those on other messages or of other kinds are let pass."""

    def added(event: dict[str, Any]) -> None:
        _pass_on(event, database, feedback.vote)

    def removed(event: dict[str, Any]) -> None:
        _pass_on(event, database, feedback.take_back)

    app.event("reaction_added")(added)
    app.event("reaction_removed")(removed)


def _pass_on(
    event: dict[str, Any],
    database: Database,
    change: Callable[[Database, UUID, str, Vote], None],
) -> None:
    vote, item = feedback.find_vote(event["reaction"]), event["item"]
    if vote is None or item["type"] != "message":
        return
    trace_id = traces.find_by_answer(database, item["channel"], item["ts"])
    if trace_id is not None:
        change(database, trace_id, event["user"], vote)
