"""What Slack sends over Socket Mode, shaped as in its reference and bolt-python's tests."""

from collections.abc import Mapping
from typing import Any

from .slack_workspace import APP_ID, BOT_USER_ID, CHANNEL_KINDS, TEAM_ID

Json = dict[str, Any]
TOKEN = "verification-token"  # Slack still sends one; nothing may rely on it


def event_callback(event: Mapping[str, Any], event_id: str, *, is_ext_shared: bool = False) -> Json:
    authorization = {
        "enterprise_id": None,
        "team_id": TEAM_ID,
        "user_id": BOT_USER_ID,
        "is_bot": True,
        "is_enterprise_install": False,
    }
    return {
        "token": TOKEN,
        "team_id": TEAM_ID,
        "api_app_id": APP_ID,
        "event": dict(event),
        "type": "event_callback",
        "event_id": event_id,
        "event_time": int(float(event.get("event_ts") or event.get("ts") or 0)),
        "authorizations": [authorization],
        "is_ext_shared_channel": is_ext_shared,
        "event_context": f"4-{event_id}",
    }


def message(
    *,
    channel_id: str,
    user_id: str,
    text: str,
    ts: str,
    thread_ts: str | None = None,
    team_id: str = TEAM_ID,
) -> Json:
    """The message event for what a person wrote; team_id is whose they are."""
    thread = {} if thread_ts is None else {"thread_ts": thread_ts}
    elsewhere = {} if team_id == TEAM_ID else {"user_team": team_id, "source_team": team_id}
    return {
        "type": "message",
        "channel": channel_id,
        "channel_type": CHANNEL_KINDS[channel_id[0]],
        "user": user_id,
        "team": TEAM_ID,
        "text": text,
        "ts": ts,
        "event_ts": ts,
        **thread,
        **elsewhere,
    }


def assistant_thread_started(*, channel_id: str, user_id: str, thread_ts: str) -> Json:
    thread = {"user_id": user_id, "channel_id": channel_id, "thread_ts": thread_ts}
    return {
        "type": "assistant_thread_started",
        "assistant_thread": {**thread, "context": {"team_id": TEAM_ID}},
        "event_ts": thread_ts,
    }


def message_changed(
    message: Mapping[str, Any], before: Mapping[str, Any], *, channel_id: str, ts: str
) -> Json:
    """That a message reads otherwise, or has got something that Slack puts below it."""
    return _hidden("message_changed", before, channel_id, ts, message=stored(message))


def message_deleted(before: Mapping[str, Any], *, channel_id: str, ts: str) -> Json:
    return _hidden("message_deleted", before, channel_id, ts, deleted_ts=before["ts"])


def _hidden(
    subtype: str, before: Mapping[str, Any], channel_id: str, ts: str, **more: object
) -> Json:
    """An event that is shown to nobody: what has become of a message."""
    return {
        "type": "message",
        "subtype": subtype,
        "hidden": True,
        "channel": channel_id,
        "channel_type": CHANNEL_KINDS[channel_id[0]],
        "previous_message": stored(before),
        "ts": ts,
        "event_ts": ts,
        **more,
    }


def stored(message: Mapping[str, Any]) -> Json:
    """A message without what only its event has."""
    of_event = ("channel", "channel_type", "event_ts")
    return {**{key: message[key] for key in message if key not in of_event}, "type": "message"}


def slash_command(
    *,
    command: str,
    text: str,
    user_id: str,
    channel_id: str,
    trigger_id: str,
    response_url: str,
) -> Json:
    return {
        "token": TOKEN,
        "team_id": TEAM_ID,
        "team_domain": "stand-in",
        "channel_id": channel_id,
        "channel_name": channel_id.lower(),
        "user_id": user_id,
        "user_name": user_id.lower(),
        "command": command,
        "text": text,
        "api_app_id": APP_ID,
        "is_enterprise_install": "false",
        "response_url": response_url,
        "trigger_id": trigger_id,
    }


def block_actions(
    action: Mapping[str, Any],
    *,
    user_id: str,
    channel_id: str,
    message_ts: str,
    message: Mapping[str, Any] | None,
    action_ts: str,
    trigger_id: str,
    response_url: str,
) -> Json:
    """A button that was pressed; message is None when it is an ephemeral one."""
    container = {
        "type": "message",
        "message_ts": message_ts,
        "channel_id": channel_id,
        "is_ephemeral": message is None,
    }
    return {
        "type": "block_actions",
        **_interaction(user_id),
        "trigger_id": trigger_id,
        "container": container,
        "channel": {"id": channel_id, "name": channel_id.lower()},
        **({} if message is None else {"message": dict(message)}),
        "state": {"values": {}},
        "response_url": response_url,
        "actions": [{"block_id": "b", "action_ts": action_ts, **action}],
    }


def message_action(
    callback_id: str,
    *,
    user_id: str,
    channel_id: str,
    message: Mapping[str, Any],
    trigger_id: str,
    action_ts: str,
    response_url: str,
) -> Json:
    """A message shortcut that was used."""
    return {
        "type": "message_action",
        **_interaction(user_id),
        "callback_id": callback_id,
        "trigger_id": trigger_id,
        "action_ts": action_ts,
        "message_ts": message["ts"],
        "message": dict(message),
        "channel": {"id": channel_id, "name": channel_id.lower()},
        "response_url": response_url,
    }


def block_suggestion(
    view: Mapping[str, Any], *, user_id: str, block_id: str, action_id: str, value: str
) -> Json:
    """What was typed so far into an external_select of a view."""
    return {
        "type": "block_suggestion",
        **_interaction(user_id),
        "container": {"type": "view", "view_id": view.get("id")},
        "action_id": action_id,
        "block_id": block_id,
        "value": value,
        "view": {**view, "team_id": TEAM_ID, "state": {"values": {}}},
    }


def view_submission(
    view: Mapping[str, Any], *, user_id: str, values: Mapping[str, Any], trigger_id: str
) -> Json:
    return {
        "type": "view_submission",
        **_interaction(user_id),
        "trigger_id": trigger_id,
        "view": {**view, "team_id": TEAM_ID, "state": {"values": values}},
        "response_urls": [],
    }


def _interaction(user_id: str) -> Json:
    return {
        "user": {"id": user_id, "username": user_id.lower(), "team_id": TEAM_ID},
        "team": {"id": TEAM_ID, "domain": "stand-in"},
        "enterprise": None,
        "is_enterprise_install": False,
        "api_app_id": APP_ID,
        "token": TOKEN,
    }
