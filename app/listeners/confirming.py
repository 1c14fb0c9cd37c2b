"""The button that says that a page is still true."""

import re
from collections.abc import Mapping
from typing import Any

from slack_bolt import App, BoltContext
from slack_sdk import WebClient

from app import blocks, confirming, mrkdwn, posting
from app.confirming import OwnedPage
from app.listeners import strangers
from app.listeners.actions import acknowledge
from app.rights import Rights, RightsUnknown
from retrieval.db import Database

CONFIRMED = "Thanks: {title} counts as verified today."
GONE = "That page is gone, or not for you to read, so nothing is changed."
NOT_OWNER = (
    "Only who looks after a page can say that it is still true, so nothing is changed. "
    "{title} {owner}."
)
OTHERWISE = "ask whoever looks after Footnote"
UNKNOWN = "Slack doesn't say just now who may do that, so nothing is changed. Please try again."


def register(
    app: App,
    database: Database,
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
        try:
            tell(body, client, confirm(int(body["actions"][0]["value"]), body["user"]["id"]))
        except RightsUnknown:
            tell(body, client, UNKNOWN)

    def confirm(document_id: int, user_id: str) -> str:
        """Have the page count as verified if that person may say so; what they are told."""
        readable = database.reading_as(rights.find_for_person(user_id))
        page = confirming.load_page(readable, document_id)
        if page is None:
            return GONE
        if not confirming.may_confirm(page, user_id, admins=admins, experts=experts, rights=rights):
            return _refuse(page, knows_address=rights.find_email(user_id) is not None)
        is_confirmed = confirming.confirm(readable, [document_id], user_id)
        return CONFIRMED.format(title=_quote(page.title)) if is_confirmed else GONE

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
        said = f"belongs to {', '.join(owners)}; Slack does not tell me who that is: {OTHERWISE}"
    else:
        said = f"belongs to {', '.join(owners)}: please ask there"
    return NOT_OWNER.format(title=_quote(page.title), owner=said)


def _show_owner(owner: str) -> str:
    """A person or group as Slack shows them to who reads it; a private line calls nobody."""
    for name in confirming.find_owner_names(owner):
        kind, _, owner_id = name.partition(":")
        if kind != "email":
            return f"<@{owner_id}>" if kind == "user" else f"<!subteam^{owner_id}>"
    return _quote(owner)


def _quote(words: str) -> str:
    return mrkdwn.quote(words, blocks.LABEL_LENGTH)
