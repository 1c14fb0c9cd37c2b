"""People of other companies, whom shared channels bring (Slack Connect)."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from slack_bolt import App, BoltContext, BoltResponse
from slack_sdk import WebClient
from sqlalchemy.exc import SQLAlchemyError

from app import blocks, posting
from app.channels import ChannelMode
from app.listeners import messages
from retrieval.db import Database

DECLINED = "I only answer people of the company that runs me, so I have not looked for an answer."

# A form, and what is typed into it: the search behind it shows the titles of pages.
_FORMS = ("view_submission", "block_suggestion")
_HEARD = ("app_mention", "message")  # by listeners of our own

log = logging.getLogger(__name__)


def register(
    app: App, database: Database, *, allowed: Mapping[str, ChannelMode], are_answered: bool
) -> None:
    """Let pass what strangers do, whatever it is, and decline their mentions.

    Only that they have come to speak in a thread is kept: it is no longer between us and who asked.

    Before all other listeners, as the first that fits is the only one to hear of it. With
    are_answered strangers ask and vote as colleagues do; only forms are not for them.
    """

    def sort_out(
        body: dict[str, Any], context: BoltContext, next: Callable[[], None]
    ) -> BoltResponse | None:
        kind = (body.get("event") or body).get("type", "command")
        is_heard = are_answered and kind not in _FORMS
        if is_heard or not is_stranger(body, context):
            next()
            return None
        log.info("A stranger: %s of %s in %s", kind, context.user_id, context.channel_id)
        if kind in _HEARD:
            next()
            return None
        return BoltResponse(status=200, body={"options": []} if kind == "block_suggestion" else "")

    def decline(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        event = body["event"]
        if user_id := event.get("user"):  # a workflow has none
            reader = posting.Reader(
                user_id=user_id, channel_id=event["channel"], thread_ts=event.get("thread_ts")
            )
            posting.show_privately(client, reader, blocks.build_notice(DECLINED))
        note(body, context)

    def note(body: dict[str, Any], context: BoltContext) -> None:
        try:
            messages.note_standing(body, context, database, allowed)
        except SQLAlchemyError:  # nobody has asked for this
            log.exception("Could not see how a thread stands")

    app.use(sort_out)
    if not are_answered:
        app.event("app_mention", matchers=[is_stranger])(decline)
        app.event("message", matchers=[is_stranger])(note)


def is_stranger(body: Mapping[str, Any], context: BoltContext) -> bool:
    """Whether a request comes from a person of another company than ours.

    Ours is where the token was issued: what else a request names may be the person's own. Where it
    does not say whose they are, as of reactions, in a shared channel nobody is taken for ours.
    """
    is_shared = bool(body.get("is_ext_shared_channel"))
    token = context.authorize_result
    ours = {token.team_id, token.enterprise_id} - {None} if token else set()
    theirs = _find_teams(body)
    if not theirs:
        return is_shared
    if "event" in body and not is_shared and token and token.enterprise_id:
        return False  # of another workspace of our organisation, by its own id
    return not theirs & ours


def _find_teams(body: Mapping[str, Any]) -> set[str]:
    """The workspace and the organisation of whoever a request comes from, as far as it says."""
    found: list[str | None]
    if "event" in body:
        found = [_find_sender_team(body["event"])]
    elif "command" in body:
        found = [body.get("team_id"), body.get("enterprise_id")]
    else:
        user, team = body.get("user") or {}, body.get("team") or {}
        found = [user.get("team_id"), user.get("enterprise_id")]
        if team.get("id") == user.get("team_id"):
            found += [team.get("enterprise_id"), (body.get("enterprise") or {}).get("id")]
    return {each for each in found if each}


def _find_sender_team(event: Mapping[str, Any]) -> str | None:
    """The workspace, or the organisation, of who wrote the message that an event is about.

    Of a mention, `team` is where the app is installed; the other two are only there when those
    differ. Of an edit or a deletion, the message says it. Source: bolt-python's
    tests/slack_bolt/request/test_internals.py, of real events.
    """
    for message in (event, event.get("message") or {}, event.get("previous_message") or {}):
        for key in ("user_team", "source_team", "team"):
            if message.get(key):
                return str(message[key])
    return None
