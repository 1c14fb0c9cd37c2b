"""What each channel allows, and what the manifest needs for it."""

import re
from pathlib import Path

import pytest
import yaml

from app import channels
from app.channels import ChannelMode

MANIFEST = (Path(__file__).parents[2] / "manifest.yml").read_text("utf-8")


@pytest.mark.parametrize(
    ("allowed", "mode"),
    [
        ({}, "mentions"),
        ({"C1": "follow-ups"}, "follow-ups"),
        ({"*": "questions"}, "questions"),
        ({"*": "questions", "C1": "mentions"}, "mentions"),
        ({"C2": "questions"}, "mentions"),
    ],
)
def test_what_is_said_of_a_channel_counts_before_what_is_said_of_any(
    allowed: dict[str, ChannelMode], mode: ChannelMode
) -> None:
    assert channels.find_mode(allowed, "C1") == mode
    assert channels.describe(allowed, "C1", "help-it") == channels.DESCRIBED[mode]
    assert channels.describe(allowed, "D1", "directmessage") == channels.DIRECT
    for group in ("G1", "C1"):  # Slack has given them ids of both kinds
        assert channels.describe(allowed, group, "mpdm-ann--bob--eve-1") == channels.GROUP


def listed(source: str) -> set[str]:
    manifest = yaml.safe_load(source)
    events = manifest["settings"]["event_subscriptions"]["bot_events"]
    return {*manifest["oauth_config"]["scopes"]["bot"], *events}


def test_the_comments_of_the_manifest_let_it_hear_channels() -> None:
    heard = re.sub(r"# (?=- )", "", MANIFEST)
    assert listed(heard) - listed(MANIFEST) == {
        *("message.channels", "message.groups"),
        "users:read.email",  # of another thing that may be added
    }


def test_the_manifest_makes_an_agent() -> None:
    features = yaml.safe_load(MANIFEST)["features"]
    assert set(features["agent_view"]) == {"agent_description"}
    assert 1 <= len(features["agent_view"]["agent_description"]) <= 300
    assert "assistant_view" not in features  # Slack takes one of them
