"""The button that passes a question on to people, and the one that says it is resolved."""

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from slack_bolt import App
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import blocks, escalation, posting, traces
from app.listeners.actions import acknowledge
from app.listeners.home import find_workspace_url
from retrieval.db import Database

log = logging.getLogger(__name__)


def register(app: App, database: Database, *, experts: Mapping[str, str]) -> None:
    """Listen to both buttons; experts are the channels and user groups to ask, by source."""

    def asked(body: dict[str, Any], client: WebClient) -> None:
        place, user_id = body["container"], body["user"]["id"]
        thread_ts = body["message"].get("thread_ts")
        reader = posting.Reader(
            user_id=user_id, channel_id=place["channel_id"], thread_ts=thread_ts
        )
        trace_id = traces.find_by_answer(database, place["channel_id"], place["message_ts"])
        expert = escalation.find_expert(database, trace_id, experts) if trace_id else None
        if trace_id is None or expert is None:
            posting.show_privately(client, reader, blocks.build_notice(blocks.NOBODY_ASKED))
            return
        workspace_url = find_workspace_url(client)
        if not escalation.claim(database, trace_id, expert, user_id):
            posting.show_privately(client, reader, blocks.build_notice(blocks.ASKED_ALREADY))
            return
        question = escalation.load(database, trace_id)
        assert question is not None  # it has just been claimed
        message = blocks.build_escalation(question, expert.group_id, workspace_url)
        try:
            ts = posting.tell(client, expert.channel_id, message, thread_ts=expert.thread_ts)
        except SlackApiError as error:
            escalation.release(database, trace_id)
            log.warning("Not asked in %s: %s", expert.channel_id, error.response.get("error"))
            posting.show_privately(client, reader, blocks.build_notice(blocks.NOBODY_ASKED))
            return
        escalation.save_ts(database, trace_id, ts)
        if expert.group_id is None:
            line = blocks.build_notice(blocks.ASKED.format(channel_id=expert.channel_id))
            posting.tell(client, question.channel_id, line, thread_ts=question.thread_ts)

    def resolved(body: dict[str, Any], client: WebClient) -> None:
        trace_id, place = UUID(body["actions"][0]["value"]), body["container"]
        is_first = escalation.resolve(database, trace_id, body["user"]["id"])
        question = escalation.load(database, trace_id)
        if question is None:
            return
        if is_first:
            line = blocks.build_notice(blocks.RESOLVED_BY.format(user_id=question.resolved_by))
            try:
                posting.tell(client, question.channel_id, line, thread_ts=question.thread_ts)
            except SlackApiError:
                escalation.reopen(database, trace_id)  # so that the next click tells the thread
                raise
        # After a later click, too: where this failed at first, the button still stands there.
        message = blocks.build_resolved(question, find_workspace_url(client))
        posting.change(client, place["channel_id"], place["message_ts"], message)

    app.action(blocks.ASK_PERSON, middleware=[acknowledge])(asked)
    app.action(blocks.RESOLVED, middleware=[acknowledge])(resolved)
