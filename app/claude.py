"""What every call of Claude shares: the client, and what is read of its messages."""

from collections.abc import Mapping

import anthropic
from anthropic.types import Message, TextBlock

from app.config import Settings
from retrieval.errors import ConfigError


def open_client(settings: Settings, *, timeout_s: float, max_retries: int) -> anthropic.Anthropic:
    """A client of the Messages API, safe to use from several threads; close it after use.

    Raises ConfigError when no key is set.
    """
    if settings.anthropic_api_key is None:
        raise ConfigError("Claude needs a key. Set ANTHROPIC_API_KEY.")
    return anthropic.Anthropic(
        api_key=settings.anthropic_api_key.get_secret_value(),
        base_url=settings.anthropic_base_url,
        timeout=timeout_s,
        max_retries=max_retries,
    )


def read_text(message: Message) -> str:
    """All that Claude wrote, without what it thought."""
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))


def count_tokens(message: Message) -> Mapping[str, int]:
    """Input, from a cache or not, and output, as billed."""
    usage = message.usage
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return {"input": usage.input_tokens + cached, "output": usage.output_tokens}
