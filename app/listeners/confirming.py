"""The button that says that a page is still true."""

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slack_bolt import App, BoltContext
from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError

from app import blocks, confirming, mrkdwn, posting
from app.blocks import Message
from app.confirming import OwnedPage
from app.counting import list_names
from app.listeners import strangers
from app.listeners.actions import acknowledge
from app.rights import Rights, RightsUnknown

CONFIRMED = "Thanks: {title} counts as verified today."
ALREADY = "{title} counts as verified today already."
CONFIRMED_BY = "✓ {title} confirmed by {name}, {day}"
GONE = "That page is gone, or not for you to read, so nothing has changed."
NOT_OWNER = (
    "Only those who look after a page can confirm it, so nothing has changed. {title} {owner}."
)
OTHERWISE = "ask whoever looks after Footnote"
UNKNOWN = "Slack doesn't say just now who may do that, so nothing has changed. Please try again."

log = logging.getLogger(__name__)


def register(
    app: App,
    rights: Rights,
    *,
    admins: frozenset[str],
    experts: Mapping[str, str],
) -> None:
    """Listen to the button; it counts for the page's owner, for those whom experts name for the
    page, and for admins."""

    def pressed(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if strangers.is_stranger(body, context):
            tell(body, client, GONE)
            return
        document_id, user_id = int(body["actions"][0]["value"]), body["user"]["id"]
        try:
            said, is_new = confirm(document_id, user_id)
        except RightsUnknown:
            said, is_new = UNKNOWN, False
        if is_new:  # first, so that such lines stand in the order of the presses
            tell_all(body, client, document_id)
        tell(body, client, said)

    def confirm(document_id: int, user_id: str) -> tuple[str, bool]:
        """Have the page count as verified if that person may say so; what they are told, and
        whether that is new."""
        readable = rights.open_for_person(user_id)
        page = confirming.load_page(readable, document_id)
        if page is None:
            return GONE, False
        if not confirming.may_confirm(page, user_id, admins=admins, experts=experts, rights=rights):
            return _refuse(page, knows_address=rights.find_email(user_id) is not None), False
        is_new = confirming.confirm(readable, [document_id], user_id) > 0
        said = CONFIRMED if is_new else ALREADY
        return said.format(title=_quote_title(page)), is_new

    def tell_all(body: dict[str, Any], client: WebClient, document_id: int) -> None:
        """Say in the thread who has confirmed the page, unless some who read there may not read it.

        The message with the button stays as it is: of an answer that has grown Slack shows us no
        more than its end, and what two people press at once would undo each other.
        """
        user_id, channel_id = body["user"]["id"], body["container"]["channel_id"]
        try:
            page = confirming.load_page(rights.open_for_channel(channel_id), document_id)
            if page is None:
                return
            name = _quote(rights.find_name(f"user:{user_id}") or user_id)
            line = CONFIRMED_BY.format(
                title=_quote_title(page), name=name, day=datetime.now(UTC).date()
            )
            told = Message(text=line, blocks=(mrkdwn.build_context(line),))
            thread_ts = body["message"].get("thread_ts") or body["message"]["ts"]
            posting.tell(client, channel_id, told, thread_ts=thread_ts)
        except (RightsUnknown, SlackClientError, posting.PostLost) as error:
            log.info("Not told as confirmed in %s: %s", channel_id, type(error).__name__)

    def tell(body: dict[str, Any], client: WebClient, said: str) -> None:
        reader = posting.Reader(
            user_id=body["user"]["id"],
            channel_id=body["container"]["channel_id"],
            thread_ts=(body.get("message") or {}).get("thread_ts"),
        )
        posting.show_privately(client, reader, blocks.build_notice(said))

    app.action(re.compile(rf"{blocks.STILL_TRUE}_\d+"), middleware=[acknowledge])(pressed)


def _refuse(page: OwnedPage, *, knows_address: bool) -> str:
    names = confirming.find_owner_names(page.owner)
    owners = [_show_owner(each) for each in confirming.split_owners(page.owner)]
    if not owners:
        said = f"names no owner: {OTHERWISE}"
    elif not knows_address and any(name.startswith("email:") for name in names):
        said = f"is looked after by {list_names(owners)}; Slack does not tell me who that is: "
        said += OTHERWISE
    else:
        said = f"is looked after by {list_names(owners)}: please ask them"
    return NOT_OWNER.format(title=_quote_title(page), owner=said)


def _show_owner(owner: str) -> str:
    """A person or group as Slack shows them to who reads it; a private line calls nobody."""
    for name in confirming.find_owner_names(owner):
        kind, _, owner_id = name.partition(":")
        if kind != "email":
            return f"<@{owner_id}>" if kind == "user" else f"<!subteam^{owner_id}>"
    return _quote(owner)


def _quote_title(page: OwnedPage) -> str:
    return f"“{_quote(page.title)}”"


def _quote(words: str) -> str:
    return mrkdwn.quote(words, blocks.LABEL_LENGTH)
