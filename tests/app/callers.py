"""Who calls Footnote over HTTP: Slack, which signs, and anybody else."""

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from slack_sdk.signature import SignatureVerifier

from app import web

SECRET = "8f742231b10e8888abcd99a5e3e285a5"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: str


class Caller:
    """Whoever calls a port: Slack, if it signs with the right secret."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **headers: str) -> Reply:
        return self._request("GET", path, b"", headers)

    def post(self, body: str | bytes, headers: Mapping[str, str]) -> Reply:
        raw = body.encode() if isinstance(body, str) else body
        return self._request("POST", web.EVENTS_PATH, raw, headers)

    def send(self, payload: Mapping[str, Any], **how: Any) -> Reply:
        """An event, signed."""
        body = json.dumps(payload)
        return self.post(body, {"Content-Type": "application/json", **sign(body, **how)})

    def submit(self, form: Mapping[str, str]) -> Reply:
        """A slash command, signed."""
        body = urlencode(form)
        return self.post(body, {"Content-Type": FORM, **sign(body)})

    def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return Reply(
                status=response.status,
                headers={name.lower(): value for name, value in response.getheaders()},
                body=response.read().decode(),
            )
        finally:
            connection.close()


def sign(body: str | bytes, *, secret: str = SECRET, age_s: int = 0) -> dict[str, str]:
    timestamp = str(int(time.time()) - age_s)
    signature = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)
    assert signature is not None
    return {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": signature}
