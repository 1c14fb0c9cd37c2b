"""What `footnote doctor` says of the Slack app: its tokens, its scopes and Slack's clock.

Which events, commands and shortcuts the app has, Slack tells only those who configure it.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator
from email.utils import parsedate_to_datetime

from pydantic import SecretStr
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse

from app import clock_findings, findings, installing, posting, rights
from app.config import Settings
from app.findings import Finding

TIMEOUT_S = 5  # of each call; chosen: who is paged waits for all of them
_NO_START = "nobody can tell who reads an answer, so `footnote serve` does not start"
_TWICE = (
    "nobody can tell whether an answer stands there already, so after a crash it may stand there "
    "twice"
)
# What does not work without each scope that manifest.yml asks for.
LOST_WITHOUT = {
    **dict.fromkeys(rights.SCOPES, _NO_START),
    "app_mentions:read": "mentions are not heard",
    **dict.fromkeys(("channels:history", "groups:history", "mpim:history"), _TWICE),
    "assistant:write": "no questions are offered in the messages tab",
    "chat:write": "nothing can be answered",
    "commands": "neither /ragstats nor the shortcuts work",
    "files:write": "the nightly figure has no picture",
    "im:history": "direct messages are not heard",
    "reactions:read": "reactions 👍 and 👎 do not count",
    "reactions:write": "no 👀 tells that an answer is being made, where Slack takes no status",
}
OPTIONAL = ("users:read.email",)  # as manifest.yml has it, commented out
# How Slack writes an app-level token, in which the app's id is.
_APP_ID = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")


def examine(settings: Settings, *, now: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Whether Slack takes the tokens, whether they are of one app, and what it lacks.

    Nothing where no bot's token is set, as for many workspaces, of which each has its own. now:
    seconds since 1970 on this machine's clock.
    """
    if settings.slack_bot_token is None or settings.slack_client_id is not None:
        return
    client = _build_client(settings.slack_bot_token, settings)
    asked_at = now()
    try:
        told = client.auth_test()
    except SlackApiError as error:
        yield _explain(
            "SLACK_BOT_TOKEN", error, "Copy it anew from the app's page OAuth & Permissions"
        )
        return
    except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
        yield findings.error(
            f"Slack does not answer at {settings.slack_api_url} ({type(error).__name__}): see that "
            "this machine may reach it, and that SLACK_API_URL is right."
        )
        return
    if told.get("bot_id") is None:
        yield findings.error(
            "SLACK_BOT_TOKEN is no bot's token: copy the one that begins with xoxb- from the app's "
            "page OAuth & Permissions."
        )
        return
    yield findings.ok(f"Slack takes SLACK_BOT_TOKEN, for {told.get('team')}.")
    yield from _examine_scopes(rights.read_scopes(told), settings)
    yield from _examine_clock(told, (asked_at + now()) / 2)
    if settings.slack_app_token is not None:
        yield from _examine_app_token(settings.slack_app_token, client, told, settings)


def _build_client(token: SecretStr, settings: Settings) -> WebClient:
    client = posting.build_client(token.get_secret_value(), settings.slack_api_url)
    return posting.hasten(client, TIMEOUT_S)


def _explain(variable: str, error: SlackApiError, remedy: str) -> Finding:
    """What Slack says against a token, and what to do."""
    if error.response.status_code == posting.RATE_LIMITED or error.response.status_code >= 500:
        return findings.note(
            f"Slack did not say whether it takes {variable} (HTTP {error.response.status_code}): "
            "run `footnote doctor` again in a minute."
        )
    return findings.error(f"Slack does not take {variable}: {error.response['error']}. {remedy}.")


def _examine_scopes(granted: Collection[str] | None, settings: Settings) -> Iterator[Finding]:
    """What the app may do, beside what manifest.yml asks for."""
    if granted is None:
        yield findings.note("Slack does not tell which scopes SLACK_BOT_TOKEN has.")
        return
    missing = [scope for scope in installing.SCOPES if scope not in granted]
    spare = sorted({*granted} - {*installing.SCOPES, *OPTIONAL})
    if missing:
        listed = "; ".join(
            f"{', '.join(each for each in missing if LOST_WITHOUT[each] == lost)}: {lost}"
            for lost in dict.fromkeys(LOST_WITHOUT[scope] for scope in missing)
        )
        yield findings.error(
            f"The Slack app lacks scopes. Without {listed}. Add them on its page OAuth & "
            "Permissions, as manifest.yml has them, and install it again: until then the token "
            "has them not."
        )
    if spare:
        yield findings.note(
            f"The Slack app has scopes that Footnote has no use for: {', '.join(spare)}. Remove "
            "them on its page OAuth & Permissions, and install it again."
        )
    if settings.channels:
        yield findings.note(
            "CHANNELS is set: see that the Slack app has the events message.channels and "
            "message.groups, which manifest.yml has as comments. Slack does not tell us."
        )
    if not missing:
        yield findings.ok("The Slack app has all the scopes of manifest.yml.")


def _examine_clock(told: SlackResponse, asked_at: float) -> Iterator[Finding]:
    date = {name.lower(): value for name, value in told.headers.items()}.get("date")
    if date is not None:
        half = 0.5  # its fraction of a second is not told
        theirs = parsedate_to_datetime(date).timestamp() + half
        yield clock_findings.examine("Slack", asked_at - theirs)


def _examine_app_token(
    token: SecretStr, client: WebClient, bot: SlackResponse, settings: Settings
) -> Iterator[Finding]:
    """Whether Slack connects us by it; opens no connection."""
    try:
        _build_client(token, settings).apps_connections_open(app_token=token.get_secret_value())
    except SlackApiError as error:
        yield _explain(
            "SLACK_APP_TOKEN",
            error,
            "See that Socket Mode is on, and make a token with connections:write on the app's page "
            "Basic Information, under App-Level Tokens",
        )
        return
    except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
        yield findings.note(
            f"Slack did not say whether it takes SLACK_APP_TOKEN ({type(error).__name__}): run "
            "`footnote doctor` again in a minute."
        )
        return
    match = _APP_ID.match(token.get_secret_value())
    bot_app_id = _find_app_id(client, str(bot["bot_id"])) if match else None
    if match and bot_app_id not in (None, match[1]):
        yield findings.error(
            f"SLACK_APP_TOKEN is of the app {match[1]}, SLACK_BOT_TOKEN of {bot_app_id}: what the "
            "one hears the other does not answer. Take both from the pages of one app."
        )
    else:
        yield findings.ok("Slack takes SLACK_APP_TOKEN, for Socket Mode.")


def _find_app_id(client: WebClient, bot_id: str) -> str | None:
    """Of which app a bot is; None where Slack does not say."""
    try:
        bot = client.bots_info(bot=bot_id).get("bot") or {}
    except (SlackClientError, *posting.CONNECTION_FAULTS):
        return None
    app_id: str | None = bot.get("app_id")
    return app_id
