"""What Footnote has to know of the workspace that it is installed in."""

import logging

from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError

from app import posting

log = logging.getLogger(__name__)


class Workspace:
    """The workspace of a token. It is asked for once, and kept: each answer costs a call."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._url: str | None = None

    def find_url(self) -> str | None:
        """What links to messages begin with; None when Slack does not say, until it does.

        Bolt asks the same at its start, but keeps no URL of a single workspace (1.30).
        """
        if self._url is None:
            try:
                self._url = self._client.auth_test().get("url")
            except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
                log.info("auth.test did not work: %s", type(error).__name__)
        return self._url
