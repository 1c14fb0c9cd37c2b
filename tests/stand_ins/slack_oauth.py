"""Installing an app, and refreshing its tokens, as Slack does it."""

from collections.abc import Mapping
from typing import Any

from .slack_workspace import Refused

Json = dict[str, Any]
EXPIRES_IN_S = 43_200


class OAuth:
    """What oauth.v2.access gives for a code, or for a refresh token, each of them once.

    codes holds what is said of each installation: {"code": {"team": {"id": "T2"}}}.
    """

    def __init__(self) -> None:
        self.codes: dict[str, Json] = {}
        self.refresh_tokens: set[str] = set()
        self.tokens: dict[str, Json] = {}  # given out, with what auth.test says of each
        self._count = 0

    def access(self, params: Mapping[str, Any]) -> Json:
        """The method's answer; raises Refused."""
        if params.get("grant_type") == "refresh_token":
            return self._refresh(str(params.get("refresh_token")))
        installed = self.codes.pop(str(params.get("code")), None)
        if installed is None:
            raise Refused("invalid_code")
        issued = {**self._issue(), "app_id": "A0001", **installed}
        self.tokens[issued["access_token"]] = {
            "team_id": (installed.get("team") or {}).get("id"),
            "user_id": installed["bot_user_id"],
            "bot_id": f"B{installed['bot_user_id']}",
        }
        return issued

    def _refresh(self, token: str) -> Json:
        if token not in self.refresh_tokens:
            raise Refused("invalid_refresh_token")
        self.refresh_tokens.remove(token)
        issued = self._issue()
        self.refresh_tokens.add(f"xoxe-1-{self._count}")
        return {**issued, "refresh_token": f"xoxe-1-{self._count}", "expires_in": EXPIRES_IN_S}

    def _issue(self) -> Json:
        self._count += 1
        token = f"xoxb-issued-{self._count}"
        self.tokens[token] = {}
        return {"ok": True, "access_token": token, "token_type": "bot"}
