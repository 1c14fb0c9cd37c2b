"""The workspace behind the stand-in: its messages, reactions and views, and the methods on them.

Each method takes the decoded parameters of a call and returns the body of Slack's answer, or
raises Refused with Slack's error.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from . import slack_limits

TEAM_ID = "T0001"
ENTERPRISE_ID = "E0001"
APP_ID = "A0001"
BOT_USER_ID = "U0BOT"
BOT_ID = "B0BOT"
FIRST_TS = 1_767_225_600  # 2026-01-01; messages are a second apart
CHANNEL_KINDS = {"C": "channel", "D": "im", "G": "group"}

Json = dict[str, Any]


class Refused(Exception):
    """Slack answers {"ok": false, "error": error}."""

    def __init__(self, error: str, *details: str) -> None:
        super().__init__(error)
        self.body: Json = {"ok": False, "error": error}
        if details:
            self.body["response_metadata"] = {"messages": list(details)}


class Workspace:
    """Every channel and user exists whose id begins as Slack's do.

    What channels and users hold for an id is laid over what conversations.info and users.info
    say of it: channels["C1"] = {"is_ext_shared": True}, users["U1"] = {"team_id": "T0002"}. What
    Slack sends of them agrees with that. Members are those of a channel that conversations.members
    tells of, by default U1 and us; groups has those of each user group.

    With is_org_wide, it is an organisation that has installed us, and this its one workspace where
    we may be.
    """

    def __init__(self) -> None:
        self.channels: dict[str, Json] = {}
        self.users: dict[str, Json] = {}
        self.members: dict[str, list[str]] = {}  # by channel
        self.groups: dict[str, list[str]] = {}  # by user group
        self.is_org_wide = False
        self.scopes: list[str] | None = None  # that auth.test tells of; None: it does not
        self._messages: defaultdict[str, dict[str, Json]] = defaultdict(dict)  # by channel, ts
        self._shown_to: dict[tuple[str, str], str] = {}  # of ephemeral messages, by channel, ts
        self._streaming: set[tuple[str, str]] = set()  # by channel, ts
        self._ts_count = 0
        self._trigger_ids: set[str] = set()
        self.upload_url = ""  # where files are sent, without their id
        self._files: dict[str, Json] = {}  # by id; without content until it is there
        self._view_ids: set[str] = set()
        self.methods: Mapping[str, Callable[[Json], Json]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.postEphemeral": self._post_ephemeral,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.startStream": self._start_stream,
            "chat.appendStream": self._append_stream,
            "chat.stopStream": self._stop_stream,
            "assistant.threads.setStatus": self._set_status,
            "assistant.threads.setSuggestedPrompts": self._set_suggested_prompts,
            "reactions.add": self._react,
            "reactions.remove": self._unreact,
            "conversations.replies": self._replies,
            "conversations.info": self._channel_info,
            "conversations.members": self._list_members,
            "users.info": self._user_info,
            "users.conversations": self._list_channels,
            "usergroups.list": self._list_groups,
            "files.getUploadURLExternal": self._open_upload,
            "files.completeUploadExternal": self._complete_upload,
            "views.open": self._open_view,
            "views.update": self._update_view,
            "views.publish": self._publish_view,
        }

    def messages(self, channel_id: str, thread_ts: str | None = None) -> list[Json]:
        """What stands in a channel, or in one thread of it with its root, oldest first."""
        in_channel = self._messages[channel_id]
        return [
            message
            for ts, message in sorted(in_channel.items())
            if thread_ts is None or thread_ts in (ts, message.get("thread_ts"))
        ]

    def list_streaming(self) -> list[tuple[str, str]]:
        """The messages that grow still, by channel and ts."""
        return list(self._streaming)

    def keep(self, channel_id: str, message: Mapping[str, Any]) -> None:
        """Store a message that a person wrote, unless it is there already."""
        self._messages[channel_id].setdefault(message["ts"], {"type": "message", **message})

    def open_pane(self, channel_id: str) -> str:
        """Put the root of a new thread of ours into direct messages; its ts."""
        root = {"type": "message", "subtype": "assistant_app_thread", "ts": self.next_ts()}
        root |= {"user": BOT_USER_ID, "bot_id": BOT_ID, "text": "New Assistant Thread"}
        self.keep(channel_id, {**root, "thread_ts": root["ts"]})
        return root["ts"]

    def change(self, channel_id: str, ts: str, changes: Mapping[str, Any]) -> tuple[Json, Json]:
        """Change a message that a person wrote; as it was, and as it is."""
        before = self._messages[channel_id][ts]
        self._messages[channel_id][ts] = {**before, **changes}
        return before, self._messages[channel_id][ts]

    def remove(self, channel_id: str, ts: str) -> tuple[Json, Json | None]:
        """Delete a message; as it was, and the tombstone that it leaves if it has replies."""
        before = self._messages[channel_id].pop(ts)
        if not self.messages(channel_id, ts):
            return before, None
        tombstone = {
            "type": "message",
            "subtype": "tombstone",
            "hidden": True,
            "user": "USLACKBOT",
            "text": "This message was deleted.",
            "ts": ts,
            "thread_ts": ts,
        }
        self._messages[channel_id][ts] = tombstone
        return before, tombstone

    def find_shown(self, channel_id: str, ts: str, user_id: str) -> Json | None:
        """A message that a person sees; None when it is one that only they see.

        Raises KeyError when they do not see it.
        """
        if (channel_id, ts) not in self._shown_to:
            return deepcopy(self._messages[channel_id][ts])
        if self._shown_to[channel_id, ts] != user_id:
            raise KeyError(ts)
        return None

    def find_team_id(self, user_id: str) -> str:
        """Whose a person is."""
        return str(self.users.get(user_id, {}).get("team_id", TEAM_ID))

    def is_ext_shared(self, channel: object) -> bool:
        """Whether the channel that an event names, if it does, is shared with other companies."""
        return bool(self.channels.get(str(channel), {}).get("is_ext_shared"))

    def next_ts(self) -> str:
        self._ts_count += 1
        return f"{FIRST_TS + self._ts_count}.{self._ts_count:06d}"

    def next_trigger_id(self) -> str:
        trigger_id = f"trigger-{len(self._trigger_ids) + 1}-{self.next_ts()}"
        self._trigger_ids.add(trigger_id)
        return trigger_id

    def _auth_test(self, params: Json) -> Json:
        return {
            "ok": True,
            "url": "https://stand-in.slack.com/",
            "team": "Stand-in",
            "team_id": ENTERPRISE_ID if self.is_org_wide else TEAM_ID,
            "enterprise_id": ENTERPRISE_ID if self.is_org_wide else None,
            "user": "footnote",
            "user_id": BOT_USER_ID,
            "bot_id": BOT_ID,
            "is_enterprise_install": self.is_org_wide,
        }

    def _post(self, params: Json) -> Json:
        channel_id = self._open_channel(params)
        message = _new_message(params, slack_limits.POST_TEXT)
        message["ts"] = self.next_ts()
        self._messages[channel_id][message["ts"]] = message
        return {"ok": True, "channel": channel_id, "ts": message["ts"], "message": message}

    def _post_ephemeral(self, params: Json) -> Json:
        channel_id = self._open_channel(params)
        user_id = self._user(params)
        _new_message(params, slack_limits.POST_TEXT)
        ts = self.next_ts()
        self._shown_to[channel_id, ts] = user_id  # an ephemeral message itself is not stored
        return {"ok": True, "message_ts": ts}

    def _update(self, params: Json) -> Json:
        channel_id = self._open_channel(params)
        message = self._own_message(channel_id, params.get("ts"), "cant_update_message")
        if (channel_id, message["ts"]) in self._streaming:
            raise Refused("streaming_state_conflict")
        changed = _new_message({**message, **params}, slack_limits.UPDATE_TEXT)
        changed["ts"] = message["ts"]
        changed["edited"] = {"user": BOT_USER_ID, "ts": self.next_ts()}
        self._messages[channel_id][message["ts"]] = changed
        return {"ok": True, "channel": channel_id, "ts": changed["ts"], "message": changed}

    def _delete(self, params: Json) -> Json:
        channel_id = self._open_channel(params)
        message = self._own_message(channel_id, params.get("ts"), "cant_delete_message")
        del self._messages[channel_id][message["ts"]]
        return {"ok": True, "channel": channel_id, "ts": message["ts"]}

    def _start_stream(self, params: Json) -> Json:
        channel_id = self._open_channel(params)
        self._stored(channel_id, _ts(params.get("thread_ts"), "invalid_thread_ts"))
        for whom in ("recipient_team_id", "recipient_user_id"):
            if not channel_id.startswith("D") and not params.get(whom):
                raise Refused(f"missing_{whom}")
        message = {"type": "message", "user": BOT_USER_ID, "bot_id": BOT_ID, "app_id": APP_ID}
        message |= {"text": "", "thread_ts": params["thread_ts"], "ts": self.next_ts()}
        self._messages[channel_id][message["ts"]] = message
        self._streaming.add((channel_id, message["ts"]))
        return {"ok": True, "channel": channel_id, "ts": self._grow(message, params)["ts"]}

    def _append_stream(self, params: Json) -> Json:
        if not params.get("markdown_text"):
            raise Refused("invalid_arguments")
        message = self._grow(self._streaming_message(params), params)
        return {"ok": True, "channel": params["channel"], "ts": message["ts"]}

    def _stop_stream(self, params: Json) -> Json:
        message = self._streaming_message(params)
        blocks = params.get("blocks") or []
        if len(blocks) > slack_limits.MESSAGE_BLOCKS:
            raise Refused("msg_blocks_too_many")
        if details := slack_limits.problems(blocks):
            raise Refused("invalid_blocks", *details)
        self._grow(message, params)
        message |= {key: params[key] for key in ("blocks", "metadata") if params.get(key)}
        self._streaming.remove((params["channel"], message["ts"]))
        return {"ok": True, "channel": params["channel"], "ts": message["ts"], "message": message}

    def _streaming_message(self, params: Json) -> Json:
        channel_id = self._open_channel(params)
        message = self._own_message(channel_id, params.get("ts"), "message_not_owned_by_app")
        if (channel_id, message["ts"]) not in self._streaming:
            raise Refused("message_not_in_streaming_state")
        return message

    def _grow(self, message: Json, params: Json) -> Json:
        more = params.get("markdown_text") or ""
        if len(more) > slack_limits.MARKDOWN_TEXT:
            raise Refused("msg_too_long")
        message["text"] += more
        return message

    def _set_status(self, params: Json) -> Json:
        channel_id = self._open_channel({"channel": params.get("channel_id")})
        self._stored(channel_id, _ts(params.get("thread_ts"), "invalid_thread_ts"))
        if "status" not in params:
            raise Refused("invalid_arguments")
        return {"ok": True}

    def _set_suggested_prompts(self, params: Json) -> Json:
        channel_id = self._open_channel({"channel": params.get("channel_id")})
        if "thread_ts" in params:
            self._stored(channel_id, _ts(params["thread_ts"], "invalid_thread_ts"))
        prompts = params.get("prompts") or []
        is_whole = all(prompt.get("title") and prompt.get("message") for prompt in prompts)
        if not 1 <= len(prompts) <= slack_limits.PROMPTS or not is_whole:
            raise Refused("invalid_arguments")
        return {"ok": True}

    def _react(self, params: Json) -> Json:
        message = self._stored(self._open_channel(params), params.get("timestamp"))
        name = params.get("name") or ""
        if not re.fullmatch(r"[a-z0-9_+'-]+(::skin-tone-[2-6])?", name):
            raise Refused("invalid_name")
        reactions = message.setdefault("reactions", [])
        if any(reaction["name"] == name for reaction in reactions):
            raise Refused("already_reacted")
        reactions.append({"name": name, "users": [BOT_USER_ID], "count": 1})
        return {"ok": True}

    def _unreact(self, params: Json) -> Json:
        message = self._stored(self._open_channel(params), params.get("timestamp"))
        reactions = message.get("reactions", [])
        left = [reaction for reaction in reactions if reaction["name"] != params.get("name")]
        if len(left) == len(reactions):
            raise Refused("no_reaction")
        message["reactions"] = left
        return {"ok": True}

    def _replies(self, params: Json) -> Json:
        thread = self.messages(self._channel(params), _ts(params.get("ts"), "invalid_ts"))
        if not thread:
            raise Refused("thread_not_found")
        start, limit = int(params.get("cursor") or 0), int(params.get("limit") or 1_000)
        more = start + limit < len(thread)
        return {
            "ok": True,
            "messages": thread[start : start + limit],
            "has_more": more,
            "response_metadata": {"next_cursor": str(start + limit) if more else ""},
        }

    def _channel_info(self, params: Json) -> Json:
        channel_id = self._channel(params)
        return {
            "ok": True,
            "channel": {
                "id": channel_id,
                "name": channel_id.lower(),
                "is_channel": channel_id.startswith("C"),
                "is_im": channel_id.startswith("D"),
                "is_private": not channel_id.startswith("C"),
                "is_archived": False,
                "is_member": True,
                "is_shared": False,
                "is_ext_shared": False,
                **self.channels.get(channel_id, {}),
            },
        }

    def _list_members(self, params: Json) -> Json:
        channel_id = self._channel(params)
        info = self.channels.get(channel_id, {})
        if info.get("is_private", not channel_id.startswith("C")) and not info.get(
            "is_member", True
        ):
            raise Refused("channel_not_found")
        return _page(params, "members", self._members(channel_id))

    def _members(self, channel_id: str) -> list[str]:
        return self.members.get(channel_id, ["U1", BOT_USER_ID])

    def _list_channels(self, params: Json) -> Json:
        self._check_team(params)
        user_id = self._user(params)
        types = str(params.get("types") or "public_channel").split(",")
        listed = [
            channel
            for channel_id in sorted({*self.channels, *self.members})
            if user_id in self._members(channel_id)
            and (channel := self._channel_info({"channel": channel_id})["channel"])["is_member"]
            and ("private_channel" if channel["is_private"] else "public_channel") in types
        ]
        return _page(params, "channels", listed)

    def _list_groups(self, params: Json) -> Json:
        self._check_team(params)
        is_told = params.get("include_users") in ("1", "true", True)
        groups = [
            {
                "id": group_id,
                "team_id": TEAM_ID,
                "handle": group_id.lower(),
                **({"users": users} if is_told else {}),
            }
            for group_id, users in self.groups.items()
        ]
        return {"ok": True, "usergroups": groups}

    def _check_team(self, params: Json) -> None:
        """Raise Refused unless it is known of which workspace something is asked."""
        if self.is_org_wide and not params.get("team_id"):
            raise Refused("missing_argument")
        if self.is_org_wide and params["team_id"] != TEAM_ID:
            raise Refused("team_access_not_granted")

    def _user_info(self, params: Json) -> Json:
        user_id = self._user(params)
        profile = {"real_name": f"Person {user_id}", "email": f"{user_id.lower()}@example.com"}
        user = {"id": user_id, "team_id": TEAM_ID, "name": user_id.lower(), "deleted": False}
        flags = {
            "is_bot": user_id == BOT_USER_ID,
            "is_restricted": False,
            "is_ultra_restricted": False,
        }
        overlaid = self.users.get(user_id, {})
        if "error" in overlaid:  # that Slack has for somebody whom we may not see
            raise Refused(overlaid["error"])
        return {"ok": True, "user": {**user, **flags, "profile": profile, **overlaid}}

    def _open_view(self, params: Json) -> Json:
        if params.get("trigger_id") not in self._trigger_ids:
            raise Refused("invalid_trigger_id")
        view = _modal(params)
        self._trigger_ids.remove(params["trigger_id"])  # each opens one view
        view_id = f"V{self.next_ts()}"
        self._view_ids.add(view_id)
        return {"ok": True, "view": {"id": view_id, "hash": "1.a", **view}}

    def _update_view(self, params: Json) -> Json:
        if params.get("view_id") not in self._view_ids:
            raise Refused("not_found")
        return {"ok": True, "view": {"id": params["view_id"], "hash": "2.a", **_modal(params)}}

    def _publish_view(self, params: Json) -> Json:
        self._user({"user": params.get("user_id")})
        view = params.get("view") or {}
        blocks = view.get("blocks") or []
        details = slack_limits.problems(blocks)
        if len(blocks) > slack_limits.VIEW_BLOCKS:
            details.append("[ERROR] no more than 100 items allowed [json-pointer:/view/blocks]")
        if details or view.get("type") != "home":
            raise Refused("invalid_arguments", *details)
        return {"ok": True, "view": {"id": f"V{self.next_ts()}", "hash": "1.a", **view}}

    def _open_upload(self, params: Json) -> Json:
        if not params.get("filename") or int(params.get("length") or 0) <= 0:
            raise Refused("invalid_arguments")
        file_id = f"F{len(self._files) + 1:04d}"
        self._files[file_id] = {"name": params["filename"], "length": int(params["length"])}
        return {"ok": True, "file_id": file_id, "upload_url": f"{self.upload_url}/{file_id}"}

    def take_upload(self, file_id: str, content: bytes) -> None:
        """Keep what was sent to an upload's URL; raises Refused where it is not as announced."""
        if len(content) != self._files[file_id]["length"]:
            raise Refused("length_mismatch")
        self._files[file_id]["content"] = content

    def _complete_upload(self, params: Json) -> Json:
        files = [{"id": each["id"], "title": each.get("title", "")} for each in params["files"]]
        if any("content" not in self._files.get(each["id"], {}) for each in files):
            raise Refused("file_not_found")
        if "channel_id" in params:  # without one, the files stay private
            channel_id = self._open_channel({"channel": params["channel_id"]})
            comment = params.get("initial_comment")
            said = {"text": comment} if comment else {"blocks": params.get("blocks")}
            message = _new_message({**said, "text": comment or "-"}, slack_limits.POST_TEXT)
            message |= {"subtype": "file_share", "files": files, "ts": self.next_ts()}
            self._messages[channel_id][message["ts"]] = message
        return {"ok": True, "files": files}

    def _channel(self, params: Json) -> str:
        channel_id = str(params.get("channel") or "")
        if channel_id[:1] == "U":
            channel_id = "D" + channel_id[1:]  # posting to a person opens the direct messages
        if channel_id[:1] not in CHANNEL_KINDS:
            raise Refused("channel_not_found")
        return channel_id

    def _open_channel(self, params: Json) -> str:
        channel_id = self._channel(params)
        info = self.channels.get(channel_id, {})
        if info.get("is_archived"):
            raise Refused("is_archived")
        if not info.get("is_member", True):
            raise Refused("not_in_channel")
        return channel_id

    def _user(self, params: Json) -> str:
        user_id = str(params.get("user") or "")
        if user_id[:1] not in ("U", "W"):
            raise Refused("user_not_found")
        return user_id

    def _stored(self, channel_id: str, ts: object) -> Json:
        try:
            return self._messages[channel_id][_ts(ts, "message_not_found")]
        except KeyError:
            raise Refused("message_not_found") from None

    def _own_message(self, channel_id: str, ts: object, error: str) -> Json:
        message = self._stored(channel_id, ts)
        if message.get("bot_id") != BOT_ID:
            raise Refused(error)
        return message


def _page(params: Json, name: str, items: list[Any]) -> Json:
    limit = int(params.get("limit") or 100)
    if not 0 < limit < 1_000:
        raise Refused("invalid_limit")
    start = int(params.get("cursor") or 0)
    more = start + limit < len(items)
    return {
        "ok": True,
        name: items[start : start + limit],
        "response_metadata": {"next_cursor": str(start + limit) if more else ""},
    }


def check_message(params: Json, most_text: int) -> None:
    """Raise Refused where Slack would: no text, or more of it, or of blocks, than it takes."""
    text, blocks = params.get("text") or "", params.get("blocks") or []
    if not text and not blocks:
        raise Refused("no_text")
    if len(text) > most_text:
        raise Refused("msg_too_long")
    if len(blocks) > slack_limits.MESSAGE_BLOCKS:
        raise Refused("msg_blocks_too_many")
    details = slack_limits.problems(blocks)
    if details:
        raise Refused("invalid_blocks", *details)


def _modal(params: Json) -> Json:
    view: Json = params.get("view") or {}
    details = slack_limits.view_problems(view)
    if details or view.get("type") != "modal":
        raise Refused("invalid_arguments", *details)
    return view


def _new_message(params: Json, most_text: int) -> Json:
    check_message(params, most_text)
    message = {"type": "message", "user": BOT_USER_ID, "bot_id": BOT_ID, "app_id": APP_ID}
    message["text"] = params.get("text") or ""
    message |= {key: params[key] for key in ("blocks", "metadata", "reactions") if params.get(key)}
    if "thread_ts" in params:
        message["thread_ts"] = _ts(params["thread_ts"], "invalid_thread_ts")
    return message


def _ts(value: object, error: str) -> str:
    if not re.fullmatch(r"\d{10}\.\d{6}", str(value)):
        raise Refused(error)
    return str(value)
