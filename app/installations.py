"""Which workspaces and organisations have installed Footnote, and the token of each.

slack_sdk's stores keep them in our database, so that they outlive the disk of a container.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import time

from slack_sdk import WebClient
from slack_sdk.oauth.installation_store import Bot
from slack_sdk.oauth.installation_store.sqlalchemy import SQLAlchemyInstallationStore
from slack_sdk.oauth.token_rotation import TokenRotator
from sqlalchemy import Engine, text


class Installations(SQLAlchemyInstallationStore):
    """The installations of one app, whatever processes serve it."""

    def __init__(self, client_id: str, engine: Engine) -> None:
        super().__init__(client_id, engine)

    def find_bot(
        self,
        *,
        enterprise_id: str | None,
        team_id: str | None,
        is_enterprise_install: bool | None = False,
    ) -> Bot | None:
        """The installation of a workspace, else that of its whole organisation.

        What comes from a workspace names it, also where the organisation has installed the app,
        of which the installation names no workspace.
        """
        own = super().find_bot(
            enterprise_id=enterprise_id,
            team_id=team_id,
            is_enterprise_install=is_enterprise_install,
        )
        if own is not None or enterprise_id is None:
            return own
        return super().find_bot(enterprise_id=enterprise_id, team_id=None)

    def list_bots(self) -> list[Bot]:
        """The latest installation of each workspace and organisation."""
        with self.engine.connect() as connection:
            rows = connection.execute(
                text("""
                    SELECT DISTINCT ON (enterprise_id, team_id) *
                    FROM slack_bots WHERE client_id = :client_id AND bot_token IS NOT NULL
                    ORDER BY enterprise_id, team_id, installed_at DESC
                """),
                {"client_id": self.client_id},
            )
            return [self.build_bot_entity(row) for row in rows.mappings()]

    def remove(self, *, enterprise_id: str | None, team_id: str | None, before: float) -> None:
        """Delete one installation, unless it is of after a time: somebody has installed it anew."""
        with self.engine.begin() as connection:
            for table in ("slack_bots", "slack_installations"):
                connection.execute(
                    text(f"""
                        DELETE FROM {table} WHERE client_id = :client_id
                        AND enterprise_id IS NOT DISTINCT FROM :enterprise_id
                        AND team_id IS NOT DISTINCT FROM :team_id
                        AND installed_at < to_timestamp(:before) AT TIME ZONE 'UTC'
                    """),
                    {
                        "client_id": self.client_id,
                        "enterprise_id": enterprise_id,
                        "team_id": team_id,
                        "before": before,
                    },
                )

    @contextmanager
    def locked(self, bot: Bot) -> Iterator[None]:
        """Hold an installation against every other process; ends with the connection."""
        key = {"key": f"footnote token {self.client_id} {bot.enterprise_id} {bot.team_id}"}
        with self.engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(hashtext(:key))"), key)
            connection.commit()  # Slack is asked meanwhile
            try:
                yield
            finally:
                connection.execute(text("SELECT pg_advisory_unlock(hashtext(:key))"), key)


class OneRotator(TokenRotator):
    """Refreshes a token once: Slack takes each refresh token one time, from whoever is first."""

    def __init__(
        self, installations: Installations, *, client_secret: str, client: WebClient
    ) -> None:
        super().__init__(
            client_id=installations.client_id, client_secret=client_secret, client=client
        )
        self._installations = installations

    def perform_bot_token_rotation(
        self, *, bot: Bot, minutes_before_expiration: int = 120
    ) -> Bot | None:
        """The bot with a token that lasts, ours or another process's; None while its own lasts.

        Raises SlackTokenRotationError when Slack refuses.
        """
        expires_at = bot.bot_token_expires_at
        if expires_at is None or expires_at > time() + minutes_before_expiration * 60:
            return None
        with self._installations.locked(bot):
            now = self._installations.find_bot(enterprise_id=bot.enterprise_id, team_id=bot.team_id)
            if now is not None and now.bot_refresh_token != bot.bot_refresh_token:
                return now
            refreshed = super().perform_bot_token_rotation(
                bot=bot, minutes_before_expiration=minutes_before_expiration
            )
            if refreshed is not None:
                self._installations.save_bot(refreshed)
            return refreshed


def find_tenant_id(bot: Bot) -> str:
    """Whose documents an installation answers from: the organisation's, else the workspace's."""
    return str(bot.enterprise_id if bot.is_enterprise_install else bot.team_id)
