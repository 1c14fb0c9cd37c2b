"""The buttons below an answer, and the form in which a 👎 is explained."""

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from slack_bolt import Ack, App, BoltContext, BoltResponse
from slack_sdk import WebClient

from app import blocks, feedback, modals, posting, traces
from app.listeners import reactions, strangers
from app.loop.review_messages import Reviews
from app.rights import Rights, RightsUnknown
from retrieval.db import Database

log = logging.getLogger(__name__)


def register(app: App, database: Database, reviews: Reviews, rights: Rights) -> None:
    """Listen to the buttons for votes and for saying more, and to the form."""

    def voted(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        ballot = feedback.read_click(body)
        trace_id = find_trace(body, client, ballot.answer_ts)
        if trace_id is None:
            return
        if strangers.is_stranger(body, context):
            with reviews.following(trace_id):
                reactions.count(ballot, trace_id, database)
            return
        if ballot.vote < 0:
            try:
                open_form(body, client, trace_id)
            # The vote counts, and the thanks offer it again.
            except (posting.FormRefused, RightsUnknown) as error:
                log.info("No form for %s: %s", trace_id, type(error.__cause__).__name__)
        with reviews.following(trace_id):
            reactions.count(ballot, trace_id, database)
            reactions.thank(ballot, trace_id, client, database, reviews)

    def wants_to_say_more(body: dict[str, Any], client: WebClient) -> None:
        trace_id = find_trace(body, client, body["actions"][0]["value"])
        if trace_id is not None:
            open_form(body, client, trace_id)

    def find_trace(body: dict[str, Any], client: WebClient, answer_ts: str) -> UUID | None:
        channel_id = body["container"]["channel_id"]
        trace_id = traces.find_by_answer(database, channel_id, answer_ts)
        if trace_id is None:
            reader = posting.Reader(user_id=body["user"]["id"], channel_id=channel_id)
            posting.show_privately(client, reader, blocks.build_notice(blocks.NO_TRACE))
        return trace_id

    def open_form(body: dict[str, Any], client: WebClient, trace_id: UUID) -> None:
        # Before anything is written: Slack allows it for 3 s.
        user_id = body["user"]["id"]
        complaint = feedback.load_complaint(database, trace_id, user_id)
        page, page_id = None, complaint.document_id
        if page_id is not None:
            page = feedback.load_page(rights.open_for_person(user_id), page_id)
        is_reviewed = reviews.reads(trace_id)
        view = modals.build_complaint_view(trace_id, complaint, page, is_reviewed=is_reviewed)
        posting.open_form(client, body["trigger_id"], view)

    def said(ack: Ack, body: dict[str, Any], client: WebClient) -> None:
        # Kept before ack() closes the form: where that fails, what was written is not lost.
        trace_id, complaint = modals.parse_complaint(body["view"])
        user_id = body["user"]["id"]
        with reviews.following(trace_id):
            own = database if complaint.document_id is None else rights.open_for_person(user_id)
            if not feedback.save_complaint(own, trace_id, user_id, complaint):
                ack(response_action="errors", errors={modals.NOTE: modals.NO_VOTE})
                return
            ack()
            reader = reactions.find_reader(user_id, trace_id, database)
            posting.show_privately(client, reader, blocks.build_notice(blocks.KEPT))

    def title_typed(ack: Ack, body: dict[str, Any]) -> None:
        found = feedback.find_pages(rights.open_for_person(body["user"]["id"]), body["value"])
        ack(options=modals.build_page_options(found))

    app.action(blocks.FEEDBACK, middleware=[acknowledge])(voted)
    app.action(blocks.SAY_MORE, middleware=[acknowledge])(wants_to_say_more)
    app.view(modals.COMPLAINT)(said)
    app.options(modals.PAGE)(title_typed)


def acknowledge(ack: Ack, next: Callable[[], BoltResponse]) -> None:
    """Tell Slack at once, even while every thread that runs listeners is busy."""
    ack()
    next()
