"""What the reviewers do in Slack: read what stands in their channel, press, fill in, send."""

from typing import Any

from app.loop.review_blocks import MAKE_CASE
from tests.app.bot import Json
from tests.stand_ins.slack import SlackStandIn

REVIEWERS = "C7"


def wait_until_shown(slack: SlackStandIn, words: str) -> Json:
    """The message to the reviewers that shows these words, once one does."""
    return slack.wait_for_message(
        REVIEWERS, lambda message: "thread_ts" not in message and words in read(message)
    )


def read(message: Any) -> str:
    """All that a message shows, block by block."""
    texts = [
        holder["text"]
        for block in message["blocks"]
        for holder in (block, *block.get("elements", []))
        if "text" in holder
    ]
    return "\n".join(words if isinstance(words, str) else words["text"] for words in texts)


def find_button(message: Json, action_id: str) -> Json | None:
    buttons = (each for block in message["blocks"] for each in block.get("elements", []))
    return next((each for each in buttons if each.get("action_id") == action_id), None)


def press(slack: SlackStandIn, message: Json, action_id: str, user_id: str = "U5") -> str:
    button = find_button(message, action_id)
    assert button is not None
    return slack.send_block_action(
        {key: button[key] for key in ("type", "action_id", "value")},
        user_id=user_id,
        channel_id=REVIEWERS,
        message_ts=message["ts"],
    )


def open_form(slack: SlackStandIn, message: Json, action_id: str, user_id: str = "U5") -> Json:
    already = len(slack.calls("views.open"))
    press(slack, message, action_id, user_id)
    calls = slack.wait_for_call("views.open", count=already + 1)
    return dict(calls[-1].answer["view"])


def open_found(slack: SlackStandIn, message: Json, user_id: str = "U5") -> Json:
    """The form to make a case once it shows the passages that were looked for."""
    already = len(slack.calls("views.update"))
    opened = open_form(slack, message, MAKE_CASE, user_id)
    assert "submit" not in opened
    (call,) = slack.wait_for_call("views.update", count=already + 1)[already:]
    assert call.params["view_id"] == opened["id"]
    return dict(call.answer["view"])


def send(slack: SlackStandIn, view: Json, user_id: str = "U5", **filled: object) -> Any:
    """Send a form with all that stands in it, but for what is filled in; None when it closes."""
    values: dict[str, Any] = {}
    for block in view["blocks"]:
        if block["type"] != "input":
            continue
        name, element = block["block_id"], block["element"]
        if element["type"] == "external_select":
            chosen = element.get("initial_option")
            if filled.get(name):
                chosen = {"value": str(filled[name])}
            values[name] = {name: {"type": element["type"], "selected_option": chosen}}
        elif element["type"] == "radio_buttons":
            chosen = {"value": filled[name]} if name in filled else None
            values[name] = {name: {"type": element["type"], "selected_option": chosen}}
        else:
            words = filled.get(name, element.get("initial_value"))
            values[name] = {name: {"type": element["type"], "value": words}}
    envelope_id = slack.send_view_submission(view, user_id=user_id, values=values)
    return slack.wait_for_ack(envelope_id).payload
