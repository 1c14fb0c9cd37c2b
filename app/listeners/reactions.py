"""👍 and 👎 on our answers."""

from typing import Any
from uuid import UUID

from slack_bolt import App, BoltContext
from slack_sdk import WebClient

from app import blocks, feedback, posting, traces
from app.feedback import Ballot
from app.listeners import strangers
from app.listeners.first import acknowledged, before_ack
from app.loop.review_messages import Reviews
from retrieval.db import Database


def register(app: App, database: Database, reviews: Reviews) -> None:
    """Listen to reactions; those on other messages or of other kinds are let pass."""

    def added(body: dict[str, Any], context: BoltContext) -> None:
        if found := find(body["event"]):
            ballot, trace_id = found
            with reviews.following(trace_id):
                count(ballot, trace_id, database)

    def counted(
        event: dict[str, Any], body: dict[str, Any], context: BoltContext, client: WebClient
    ) -> None:
        found = None if strangers.is_stranger(body, context) else find(event)
        if found:
            thank(*found, client, database, reviews)

    def removed(body: dict[str, Any], context: BoltContext) -> None:
        if found := find(body["event"]):
            ballot, trace_id = found
            with reviews.following(trace_id):
                feedback.take_back(database, trace_id, ballot.user_id, ballot.vote, ballot.voted_at)

    def find(event: dict[str, Any]) -> tuple[Ballot, UUID] | None:
        ballot = feedback.read_reaction(event)
        if ballot is None:
            return None
        trace_id = traces.find_by_answer(database, ballot.channel_id, ballot.answer_ts)
        return None if trace_id is None else (ballot, trace_id)

    app.event("reaction_added", middleware=[before_ack(added)])(counted)
    app.event("reaction_removed", middleware=[before_ack(removed)])(acknowledged)


def count(ballot: Ballot, trace_id: UUID, database: Database) -> None:
    """Count a vote on the answer of a trace."""
    feedback.vote(database, trace_id, ballot.user_id, ballot.vote, ballot.voted_at)


def thank(
    ballot: Ballot, trace_id: UUID, client: WebClient, database: Database, reviews: Reviews
) -> None:
    """Thank for a vote, after a 👎 with the way to the form."""
    reader = find_reader(ballot.user_id, trace_id, database)
    is_reviewed = ballot.vote < 0 and reviews.reads(trace_id)
    thanks = blocks.build_thanks(ballot.vote, ballot.answer_ts, is_reviewed=is_reviewed)
    posting.show_privately(client, reader, thanks)


def find_reader(user_id: str, trace_id: UUID, database: Database) -> posting.Reader:
    """A person in the thread of an answer."""
    channel_id, thread_ts = feedback.load_place(database, trace_id)
    return posting.Reader(user_id=user_id, channel_id=channel_id, thread_ts=thread_ts)
