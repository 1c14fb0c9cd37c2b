"""The workspaces and organisations that one process answers, each by an app of its own."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from slack_bolt import App, BoltRequest, BoltResponse
from slack_sdk import WebClient
from slack_sdk.errors import SlackTokenRotationError
from slack_sdk.oauth.installation_store import Bot
from slack_sdk.signature import SignatureVerifier

from app.attempts import Attempts
from app.installations import Installations, OneRotator, find_tenant_id
from app.places import Places

LISTENERS_TIMEOUT_S = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """What answers one workspace or organisation, with its token and from its documents."""

    bolt: App
    attempts: Attempts
    places: Places
    client: WebClient  # its token is the last that Slack gave us

    def close(self) -> None:
        """Let what was received become a job; what is begun goes on."""
        # What Slack has put off is not waited for.
        listeners = self.bolt.listener_runner.listener_executor
        closing = threading.Thread(target=listeners.shutdown, daemon=True)
        closing.start()
        closing.join(LISTENERS_TIMEOUT_S)
        self.places.close()


class Tenants:
    """Whose request is whose; a tenant is built when it is first heard of."""

    def __init__(
        self,
        installations: Installations,
        rotator: OneRotator,
        build: Callable[[str, Bot], Tenant],
        *,
        signing_secret: str,
    ) -> None:
        """build makes a tenant of its id and its installation."""
        self._installations = installations
        self._rotator = rotator
        self._build = build
        self._verifier = SignatureVerifier(signing_secret)
        self._lock = threading.Lock()
        self._known: dict[str, Tenant] = {}
        self._refused: set[str | None] = set()  # refresh tokens of which that is logged

    def dispatch(self, request: BoltRequest) -> BoltResponse:
        """What is answered to a request of Slack's, by the tenant that it comes from."""
        # Before anything is looked up: what a request says of itself is anybody's word.
        headers = {name: values[0] for name, values in request.headers.items()}
        if not self._verifier.is_valid_request(request.raw_body, headers):
            return BoltResponse(status=401)
        if request.body.get("type") == "url_verification":
            return BoltResponse(status=200, body={"challenge": request.body.get("challenge")})
        if _is_goodbye(request.body):
            self._remove(request)
        elif (bot := self._find_bot(request)) is None:
            log.info("Nobody has installed the app in %s", request.context.team_id)
        elif (current := self._refresh(bot)) is not None:
            return self._find(current).bolt.dispatch(request)
        return BoltResponse(status=200)  # Slack would send it again

    def refresh_tokens(self) -> None:
        """Have the token of each tenant last, whether or not anybody asks it anything."""
        for bot in self._installations.list_bots():
            current = self._refresh(bot)
            with self._lock:
                tenant = self._known.get(find_tenant_id(bot))
            if current is not None and tenant is not None:
                tenant.client.token = current.bot_token

    def close(self) -> None:
        """As Tenant.close, for all at once."""
        with self._lock:
            tenants = list(self._known.values())
        closing = [threading.Thread(target=tenant.close) for tenant in tenants]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def find_client(self, tenant_id: str) -> WebClient | None:
        """By whom a tenant is told something that it has not asked for; None before it is there."""
        tenant = self._find_by_id(tenant_id)
        return None if tenant is None else tenant.client

    def answer(self, tenant_id: str, trace_id: UUID) -> None:
        """Have an attempt at a question of a tenant; nothing where it is gone. Raises Again."""
        tenant = self._find_by_id(tenant_id)
        if tenant is None:
            log.warning("Question %s is of %s, which is not there", trace_id, tenant_id)
        else:
            tenant.attempts.run(trace_id)

    def give_back(self) -> None:
        """As Attempts.stop, of all."""
        with self._lock:
            tenants = list(self._known.values())
        for tenant in tenants:
            tenant.attempts.stop()

    def _find_by_id(self, tenant_id: str) -> Tenant | None:
        for bot in self._installations.list_bots():
            if find_tenant_id(bot) == tenant_id and (current := self._refresh(bot)) is not None:
                return self._find(current)
        return None

    def _find_bot(self, request: BoltRequest) -> Bot | None:
        return self._installations.find_bot(
            enterprise_id=request.context.enterprise_id,
            team_id=request.context.team_id,
            is_enterprise_install=request.context.is_enterprise_install,
        )

    def _remove(self, request: BoltRequest) -> None:
        """Forget the installation that a goodbye names, and no other of its organisation."""
        said = request.context
        team_id = None if said.is_enterprise_install else said.team_id
        self._installations.remove(
            enterprise_id=said.enterprise_id,
            team_id=team_id,
            # It may be late, or told twice, and the app be installed anew since.
            before=request.body["event_time"],
        )
        log.info("%s has removed the app", team_id or said.enterprise_id)

    def _refresh(self, bot: Bot) -> Bot | None:
        """The bot with a token that lasts; None where Slack gives it none."""
        try:
            return self._rotator.perform_bot_token_rotation(bot=bot) or bot
        except SlackTokenRotationError:
            if bot.bot_refresh_token not in self._refused:
                log.error("Slack refreshes no token of %s: install it again", find_tenant_id(bot))
            self._refused.add(bot.bot_refresh_token)
            return None

    def _find(self, bot: Bot) -> Tenant:
        tenant_id = find_tenant_id(bot)
        with self._lock:
            if tenant_id not in self._known:
                self._known[tenant_id] = self._build(tenant_id, bot)
            tenant = self._known[tenant_id]
            tenant.client.token = bot.bot_token
        return tenant


def _is_goodbye(body: Mapping[str, Any]) -> bool:
    """Whether it says that the installation that it comes from is over."""
    event = body.get("event") or {}
    is_ours = event.get("type") == "tokens_revoked" and (event.get("tokens") or {}).get("bot")
    return event.get("type") == "app_uninstalled" or bool(is_ours)
