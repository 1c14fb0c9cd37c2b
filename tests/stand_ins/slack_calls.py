import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from .local_http import HttpAnswer, HttpRequest, json_answer
from .slack_workspace import Refused

JSON_PARAMETERS = ("blocks", "attachments", "files", "metadata", "prompts", "view")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that Slack received, and what it answered."""

    method: str  # as "chat.postMessage"; "response_url" for a reply to a command or a button
    params: Mapping[str, Any]  # decoded, whether they came as a form or as JSON
    headers: Mapping[str, str]  # names in lower case
    path: str
    status: int
    answer: Mapping[str, Any] | None  # None: the connection was dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with one call."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    drop_connection: bool
    after_storing: bool  # the call takes effect, only its answer goes wrong

    def answer(self) -> HttpAnswer:
        if self.drop_connection:
            return HttpAnswer(body=None)
        return json_answer(self.body, status=self.status, headers=self.headers)


def decode_params(request: HttpRequest) -> dict[str, Any]:
    """The parameters as plain values, also those that a form carries as JSON."""
    if request.headers.get("content-type", "").startswith("application/json"):
        params: dict[str, Any] = json.loads(request.body)
    else:
        params = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
    for name in JSON_PARAMETERS:
        if isinstance(params.get(name), str):
            params[name] = json.loads(params[name])
    return params


def find_token(request: HttpRequest, params: Mapping[str, Any]) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme == "Bearer" else params.get("token")


def check_token(token: str | None, right: str, misplaced: str) -> None:
    """Raise Refused unless token is the right one; misplaced is one for other methods."""
    if not token:
        raise Refused("not_authed")
    if token != right:
        raise Refused("not_allowed_token_type" if token == misplaced else "invalid_auth")
