"""The pages on which workspaces install Footnote themselves (OAuth)."""

import logging

from slack_bolt import BoltResponse
from slack_bolt.oauth import OAuthFlow
from slack_bolt.oauth.callback_options import CallbackOptions, FailureArgs, SuccessArgs
from slack_bolt.oauth.oauth_settings import OAuthSettings
from slack_sdk import WebClient
from slack_sdk.oauth.state_store.sqlalchemy import SQLAlchemyOAuthStateStore

from app import rights
from app.installations import Installations, find_tenant_id

INSTALL_PATH = "/slack/install"
REDIRECT_PATH = "/slack/oauth_redirect"
STATE_S = 600  # to press *Allow* in; as slack_sdk has it
# As manifest.yml has them.
SCOPES = (
    *("app_mentions:read", "assistant:write", "chat:write", "commands", "files:write"),
    *("channels:history", "groups:history", "im:history", "mpim:history"),
    *("reactions:read", "reactions:write"),
    *rights.SCOPES,
)

log = logging.getLogger(__name__)


def build_flow(installations: Installations, *, client_secret: str, client: WebClient) -> OAuthFlow:
    """The pages on which a workspace installs the app."""

    def succeeded(args: SuccessArgs) -> BoltResponse:
        log.info("%s has installed the app", find_tenant_id(args.installation.to_bot()))
        return args.default.success(args)

    def failed(args: FailureArgs) -> BoltResponse:
        # What stands in the address is anybody's word.
        reason = args.reason if args.reason.isidentifier() else "refused"
        log.warning("The app was not installed: %s", reason[:40])
        return args.default.failure(args)

    quiet = logging.getLogger("slack_bolt.oauth")
    quiet.setLevel(logging.ERROR)  # below, it tells codes and states
    return OAuthFlow(
        client=client,
        logger=quiet,
        settings=OAuthSettings(
            client_id=installations.client_id,
            client_secret=client_secret,
            scopes=SCOPES,
            user_scopes=(),
            install_path=INSTALL_PATH,
            redirect_uri_path=REDIRECT_PATH,
            callback_options=CallbackOptions(success=succeeded, failure=failed),
            installation_store=installations,
            state_store=SQLAlchemyOAuthStateStore(STATE_S, installations.engine, logger=quiet),
        ),
    )
