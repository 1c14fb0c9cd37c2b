"""The button that passes a question on to people, and the one that says it is resolved."""

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from slack_bolt import App
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import blocks, escalation, posting, traces
from app.escalation import Expert
from app.listeners.actions import acknowledge
from app.workspace import Workspace
from retrieval.db import Database

PERHAPS_ASKED = (
    "Slack did not say whether it took my question to <#{channel_id}>. If nobody answers within "
    f"{escalation.CLAIM_S // 60} minutes, please press the button again."
)

log = logging.getLogger(__name__)


def register(
    app: App, database: Database, workspace: Workspace, *, experts: Mapping[str, str]
) -> None:
    """Listen to both buttons; experts are the channels and user groups to ask, by topic."""

    def asked(body: dict[str, Any], client: WebClient) -> None:
        place, user_id = body["container"], body["user"]["id"]
        thread_ts = body["message"].get("thread_ts")
        reader = posting.Reader(
            user_id=user_id, channel_id=place["channel_id"], thread_ts=thread_ts
        )
        trace_id = traces.find_by_answer(database, place["channel_id"], place["message_ts"])
        expert = escalation.find_expert(database, trace_id, experts) if trace_id else None
        told: str | None = blocks.NOBODY_ASKED
        if trace_id and expert:
            is_first = escalation.claim(database, trace_id, expert, user_id)
            told = pass_on(client, trace_id, expert) if is_first else blocks.ASKED_ALREADY
        if told:
            posting.show_privately(client, reader, blocks.build_notice(told))

    def pass_on(client: WebClient, trace_id: UUID, expert: Expert) -> str | None:
        """Ask those who may know, and say so in the thread; what the clicker is told if not."""
        question = escalation.load(database, trace_id)
        if question is None:  # deleted meanwhile
            return None
        message = blocks.build_escalation(question, expert.group_id, workspace.find_url())
        try:
            ts = posting.tell(client, expert.channel_id, message, thread_ts=expert.thread_ts)
        except (SlackApiError, posting.PostLost) as error:
            return give_up(trace_id, expert, error)
        if not escalation.save_ts(database, trace_id, ts):
            posting.take_back(client, expert.channel_id, ts)
        elif expert.group_id is None:
            is_direct = question.channel_id.startswith("D")
            asked = blocks.ASKED_DIRECTLY if is_direct else blocks.ASKED
            line = blocks.build_notice(asked.format(channel_id=expert.channel_id))
            posting.tell(client, question.channel_id, line, thread_ts=question.thread_ts)
        return None

    def give_up(trace_id: UUID, expert: Expert, error: SlackApiError | posting.PostLost) -> str:
        """Let the question be passed on again if it surely reached nobody; what is told then."""
        response = error.response if isinstance(error, SlackApiError) else {}
        reason = response.get("error", type(error.__cause__).__name__)
        log.warning("Not asked in %s: %s", expert.channel_id, reason)
        if not posting.has_surely_posted_nothing(error):
            return PERHAPS_ASKED.format(channel_id=expert.channel_id)
        escalation.release(database, trace_id)
        return blocks.NOBODY_ASKED

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
            except (SlackApiError, posting.PostLost) as error:
                if posting.has_surely_posted_nothing(error):  # then the next click tells the thread
                    escalation.reopen(database, trace_id)
                raise
        # After a later click, too: where this failed at first, the button still stands there.
        message = blocks.build_resolved(question, workspace.find_url())
        posting.change(client, place["channel_id"], place["message_ts"], message)

    app.action(blocks.ASK_PERSON, middleware=[acknowledge])(asked)
    app.action(blocks.RESOLVED, middleware=[acknowledge])(resolved)
