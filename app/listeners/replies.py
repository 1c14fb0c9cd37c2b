"""What people answer by hand: saved by a shortcut, or offered to the reviewers by itself."""

import html
import logging
import re
from dataclasses import replace
from typing import Any

from slack_bolt import Ack, App, BoltContext, Respond
from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError
from sqlalchemy.exc import SQLAlchemyError

from app import feedback, fillers, posting, turns
from app.listeners import strangers
from app.listeners.actions import acknowledge
from app.loop import cases, hand_answers, proposing, review, review_blocks, review_forms
from app.loop.cases import Reply
from app.loop.review_messages import Reviews
from app.rights import Rights
from retrieval.db import Database

LEAST_WORDS = 8  # of a reply without a link that may answer a question; chosen
ROOT_TIMEOUT_S = 1  # for what a thread begins with: the form has to be open within 3 s

CHANGES = ("message_changed", "message_deleted")
PRIVATE = ("group", "mpim")

_LINK = re.compile(r"<(https?://[^|<>]+)")

log = logging.getLogger(__name__)


def register(app: App, database: Database, reviews: Reviews, rights: Rights) -> None:
    """Listen to *Save as case* and to its form."""

    def wants_to_save(
        body: dict[str, Any], client: WebClient, context: BoltContext, respond: Respond
    ) -> None:
        message = body["message"]
        if strangers.is_stranger(body, context):
            posting.reply_privately(respond, review_blocks.FOR_COLLEAGUES)
            return
        if message.get("bot_id") or message.get("subtype") == "bot_message":
            posting.reply_privately(respond, review_forms.FOR_REPLIES)
            return
        own = rights.open_for_person(body["user"]["id"])
        reply = read_reply(body, own, client, context)
        if not reply.answer:
            posting.reply_privately(respond, review_forms.NO_WORDS)
            return
        page = feedback.load_page(own, reply.document_id) if reply.document_id else None
        view = review_forms.build_reply_view(reply, page)
        posting.open_form(client, body["trigger_id"], view)

    def read_reply(
        body: dict[str, Any], own: Database, client: WebClient, context: BoltContext
    ) -> Reply:
        """What a message answers, as far as that shows to who saves it."""
        message, channel_id = body["message"], body["channel"]["id"]
        text, ts, thread_ts = message.get("text") or "", message["ts"], message.get("thread_ts")
        bot_user_id = str(context.bot_user_id)
        asked, root = None, ""
        if thread_ts and thread_ts != ts:
            asked = hand_answers.find_question(own, channel_id, thread_ts, ts)
            root = "" if asked else find_root(client, channel_id, thread_ts, bot_user_id)
        return Reply(
            reply_id=f"{channel_id}-{ts}",
            question=asked.question if asked else root,
            answer=turns.build_plain_text(text, bot_user_id=bot_user_id),
            document_id=find_page(own, text),
            user_id=body["user"]["id"],
            trace_id=asked.trace_id if asked else None,
        )

    def save(ack: Ack, body: dict[str, Any]) -> None:
        reply = review_forms.parse_reply_view(body["view"], body["user"]["id"])
        written = {review_forms.QUESTION: reply.question, review_forms.ANSWER: reply.answer}
        if errors := {name: review_forms.EMPTY for name, words in written.items() if not words}:
            ack(response_action="errors", errors=errors)
            return
        if reply.document_id is not None:
            own = rights.open_for_person(body["user"]["id"])
            is_readable = feedback.load_page(own, reply.document_id) is not None
            reply = replace(reply, document_id=reply.document_id if is_readable else None)
        case_id = proposing.propose_reply(database, reply)
        saved = review_forms.build_saved_view(cases.load(database.unrestricted, case_id))
        ack(response_action="update", view=saved)
        reviews.show(case_id)

    app.shortcut("save_as_case", middleware=[acknowledge])(wants_to_save)
    app.view(review_forms.SAVE_REPLY)(save)


def hear(body: dict[str, Any], context: BoltContext, database: Database, reviews: Reviews) -> None:
    """Have the reviewers see what people answer in threads, and what becomes of that.

    Nobody has asked for it, so what fails is logged. What they see is for reviews to tell.
    """
    database = database.unrestricted
    event, bot_user_id = body["event"], str(context.bot_user_id)
    is_said_by_person = event.get("type") == "message" and turns.may_join(
        event, bot_user_id=bot_user_id, bot_id=str(context.bot_id)
    )
    try:
        if is_said_by_person and reviews.is_on and not strangers.is_stranger(body, context):
            offer(event, bot_user_id, database, reviews)
        elif event.get("subtype") in CHANGES:
            follow(event, bot_user_id, database, reviews)
    except SQLAlchemyError:
        log.exception("Could not offer a reply for review")


def offer(event: turns.Event, bot_user_id: str, database: Database, reviews: Reviews) -> None:
    """Have the reviewers see what a person answers in the thread of a question that we could not.

    Once a question, and only what has substance; what links to a page takes the place of what does
    not. Nothing from private channels, where nobody has agreed to it.
    """
    text = event.get("text") or ""
    said = turns.build_plain_text(text, bot_user_id=bot_user_id)
    is_long = fillers.count_words(said) >= LEAST_WORDS and not fillers.asks(said)
    # The database is not asked of each word that is said anywhere.
    if event.get("channel_type") in PRIVATE or not (is_long or _LINK.search(text)):
        return
    channel_id, user_id = event["channel"], event["user"]
    asked = hand_answers.find_question(database, channel_id, event["thread_ts"], event["ts"])
    if asked is None or asked.user_id == user_id:
        return
    document_id = find_page(database, text)
    if not (asked.is_open and is_long if document_id is None else asked.is_open_to_page):
        return
    reply = Reply(
        reply_id=str(asked.trace_id),
        question=asked.question,
        answer=said[: review_forms.FIELD_LENGTH],
        document_id=document_id,
        user_id=user_id,
        trace_id=asked.trace_id,
    )
    reviews.show(proposing.propose_reply(database, reply))


def follow(event: turns.Event, bot_user_id: str, database: Database, reviews: Reviews) -> None:
    """Have a proposed case follow the reply whose words it has, where that is edited or deleted."""
    before = event.get("previous_message") or {}
    was = turns.build_plain_text(before.get("text") or "", bot_user_id=bot_user_id)
    is_gone = turns.find_deleted(event) is not None
    now = "" if is_gone else (event.get("message") or {}).get("text") or ""
    said = turns.build_plain_text(now, bot_user_id=bot_user_id)
    if not was or not before.get("thread_ts") or said == was:
        return
    for case in hand_answers.find_given(
        database,
        event["channel"],
        before["thread_ts"],
        before["ts"],
        was[: review_forms.FIELD_LENGTH],
    ):
        hand_answers.save_answer(database, case, said[: review_forms.FIELD_LENGTH])
        reviews.refresh(case)


def find_page(database: Database, text: str) -> int | None:
    """The document_id of the first page of the index that a Slack message links to."""
    urls = [html.unescape(url) for url in _LINK.findall(text)]
    return review.find_linked_page(database, urls) if urls else None


def find_root(client: WebClient, channel_id: str, thread_ts: str, bot_user_id: str) -> str:
    """What a thread begins with, as plain words; "" where the app may not read it."""
    try:
        found = posting.hasten(client, ROOT_TIMEOUT_S).conversations_replies(
            channel=channel_id, ts=thread_ts, limit=1
        )
    except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
        log.info("No thread read in %s: %s", channel_id, type(error).__name__)
        return ""
    root, *_ = found.get("messages") or [{}]
    return turns.build_plain_text(root.get("text") or "", bot_user_id=bot_user_id)
