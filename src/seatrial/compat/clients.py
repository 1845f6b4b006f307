"""Clients of models under the names of verifiers. Here whatever asks a model takes what they were made from."""

from typing import Any


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
