"""The message shortcut: what somebody wrote becomes a question of who uses it."""

from dataclasses import replace
from typing import Any

from slack_bolt import App, BoltContext, Respond
from slack_sdk import WebClient

from app import blocks, posting, turns
from app.jobs import Jobs
from app.listeners import messages
from app.listeners.actions import acknowledge


def register(app: App, jobs: Jobs) -> None:
    """Listen to *Ask Footnote about this*."""

    def ask(
        body: dict[str, Any], client: WebClient, context: BoltContext, respond: Respond
    ) -> None:
        message, channel_id, user_id = body["message"], body["channel"]["id"], body["user"]["id"]
        arrival = turns.build_arrival(
            {
                **message,
                "channel": channel_id,
                "user": user_id,
                "user_team": body["user"].get("team_id"),
            },
            team_id=messages.find_team_id(context),
            bot_user_id=str(context.bot_user_id),
        )
        arrival = replace(arrival, is_unasked=False)  # whoever wrote it, somebody asks now
        is_ours = message.get("bot_id") == context.bot_id
        if is_ours or not arrival.question:
            posting.reply_privately(respond, blocks.NOTHING_TO_ASK)
            return
        reader = posting.Reader(
            user_id=user_id, channel_id=channel_id, thread_ts=message.get("thread_ts")
        )
        try:
            posting.promise(client, reader, blocks.build_notice(blocks.ANSWER_IN_THREAD))
        except posting.NotInChannel:
            posting.reply_privately(respond, blocks.INVITE_FIRST)
            return
        jobs.take_again(arrival)

    app.shortcut("ask_footnote", middleware=[acknowledge])(ask)
