"""The bot, connected to Slack's stand-in."""

from collections.abc import Iterator

import pytest

from retrieval.db import Database
from tests.app.bot import Bot, connected
from tests.stand_ins.slack import SlackStandIn


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    with connected(slack, database) as bot:
        yield bot
