"""Clients of models under the names of verifiers. Here whatever asks a model takes what they were made from."""

import os
from typing import Any

from seatrial.env.client_config import ClientConfig
from seatrial.errors import UsageError


class Client:
    """Made from a ClientConfig or an SDK's client, it is just that: wherever a client is asked for, both will do."""

    def __new__(cls, client_or_config: Any) -> Any:
        """What was given."""
        return client_or_config


class OpenAIChatCompletionsClient(Client):
    """Chat completions of OpenAI's dialect."""


class OpenAIResponsesClient(Client):
    """A client of OpenAI's SDK; it is asked for chat completions."""


class AnthropicMessagesClient(Client):
    """A client of Anthropic's SDK, or a ClientConfig."""


def resolve_client(client_or_config: Any) -> Any:
    """What was given."""
    return client_or_config


def setup_openai_client(config: ClientConfig) -> Any:
    """A client of OpenAI's SDK for what a ClientConfig names. Raises UsageError without the SDK."""
    try:
        from openai import AsyncOpenAI  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise UsageError("setup_openai_client needs OpenAI's SDK: pip install openai") from None
    key = config.api_key or os.environ.get(config.api_key_var or "OPENAI_API_KEY")
    return AsyncOpenAI(
        base_url=config.base_url, api_key=key or "none", timeout=config.timeout, max_retries=config.max_retries
    )


setup_client = setup_openai_client
