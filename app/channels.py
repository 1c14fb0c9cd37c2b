"""What each channel allows besides mentions, as CHANNELS says; pure."""

from collections.abc import Mapping
from typing import Literal

ChannelMode = Literal["mentions", "follow-ups", "questions"]  # each allows what those before do
ANY_CHANNEL = "*"

DESCRIBED: Mapping[ChannelMode, str] = {
    "mentions": "In this channel I answer mentions.",
    "follow-ups": "In this channel I answer mentions and follow-ups in my threads.",
    "questions": "In this channel I answer mentions, follow-ups in my threads and questions to "
    "everybody, as far as our documents hold an answer.",
}
# Slack does not say whether a direct message is one with us.
DIRECT = "In direct messages with me I answer whatever you write; those with others I do not hear."
GROUP = "In direct messages of several people I answer mentions."
_GROUP_NAME = "mpdm-"  # as Slack begins the names of their channels


def find_mode(channels: Mapping[str, ChannelMode], channel_id: str) -> ChannelMode:
    """What a channel allows: what is said of it, else of any."""
    return channels.get(channel_id) or channels.get(ANY_CHANNEL, "mentions")


def describe(channels: Mapping[str, ChannelMode], channel_id: str, channel_name: str) -> str:
    """What is answered in a place, in one sentence."""
    if channel_name.startswith(_GROUP_NAME):
        return GROUP
    return DIRECT if channel_id.startswith("D") else DESCRIBED[find_mode(channels, channel_id)]
