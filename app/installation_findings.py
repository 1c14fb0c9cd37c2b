"""What `footnote doctor` says of the workspaces that have installed the app, as we have kept it."""

import time
from collections.abc import Callable, Iterator, Sequence

from slack_sdk.oauth.installation_store import Bot
from sqlalchemy import Engine

from app import findings, installing
from app.config import Settings
from app.counting import count
from app.findings import Finding
from app.installations import Installations, find_tenant_id

MOST = 5  # workspaces that are named


def examine(
    engine: Engine, settings: Settings, *, now: Callable[[], float] = time.time
) -> Iterator[Finding]:
    """Whether each has a token that lasts, with all the scopes of manifest.yml; asks Slack nothing.

    Nothing where the app is for one workspace. now: seconds since 1970.
    """
    if settings.slack_client_id is None:
        return
    bots = Installations(settings.slack_client_id, engine).list_bots()
    at = now()
    ended = [bot for bot in bots if (bot.bot_token_expires_at or at) < at]
    lacking = [bot for bot in bots if not {*installing.SCOPES} <= {*bot.bot_scopes}]
    if not bots:
        yield findings.note(
            f"No workspace has installed the app: {installing.INSTALL_PATH} of `footnote serve` is "
            "where people do."
        )
    if ended:
        yield findings.error(
            f"{count(len(ended), 'token')} of Slack lasted for 12 hours and ended, those of "
            f"{_name(ended)}: see that `footnote serve` runs, which refreshes them, and what its "
            "log says of tokens; else have the app installed again there."
        )
    if lacking:
        missing = [
            scope
            for scope in installing.SCOPES
            if any(scope not in bot.bot_scopes for bot in lacking)
        ]
        yield findings.error(
            f"The app was installed without scopes that manifest.yml has, {', '.join(missing)}, in "
            f"{_name(lacking)}: have it installed again there, at {installing.INSTALL_PATH}."
        )
    if bots and not (ended or lacking):
        yield findings.ok(f"The app has its scopes in {count(len(bots), 'workspace')}.")


def _name(bots: Sequence[Bot]) -> str:
    more = f" and {len(bots) - MOST:,} more" if len(bots) > MOST else ""
    return f"{', '.join(sorted(map(find_tenant_id, bots))[:MOST])}{more}"
