"""A second opinion: whether a provider fails at everything, or only at what this agent has sent.

Some statuses say nothing about whose fault they are: a 500 may be a provider that is down, or one that stumbles over a
single odd request, which an agent could send on purpose. So the provider is asked something plain beside it.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import orjson

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import PATHS
from seatrial.model.trace import Dialect

DOUBTFUL_STATUSES = frozenset({403, 408, 409, 425, 500})
"""What a provider may answer to one odd request only. 403 is also what it says to a key without rights."""

ASKED_WITHIN_SEC = 60.0
"""How long the plain question may take, and how long its answer counts."""

_QUESTION = "Reply with the word ok."
_MOST_MODELS = 64  # an agent may ask for any name
_PLAIN: Mapping[Dialect, dict[str, Any]] = {
    "openai_chat": {"messages": [{"role": "user", "content": _QUESTION}]},
    "openai_responses": {"input": _QUESTION},
    "anthropic": {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": 16},
}


def plain_question(dialect: Dialect, model: str, trial: int = 0) -> ModelRequest:
    """The plainest request there is to a model, which no provider that works refuses."""
    payload = {"model": model, **_PLAIN[dialect]}
    return ModelRequest(PATHS[dialect], dialect=dialect, payload=payload, body=orjson.dumps(payload), trial=trial)


class Pulse:
    """When each model of a provider has last answered well."""

    def __init__(self) -> None:
        self._beats: dict[Any, float] = {}

    def beat(self, request: ModelRequest) -> None:
        """It has answered a request well."""
        name = _name(request)
        if name is not None:
            if len(self._beats) >= _MOST_MODELS and name not in self._beats:
                self._beats.clear()
            self._beats[name] = monotonic()

    def beats_since(self, request: ModelRequest, since: float) -> bool:
        """Whether the model of this request has answered some request well since then."""
        return self._beats.get(_name(request), float("-inf")) > since


def _name(request: ModelRequest) -> str | None:
    name = (request.payload or {}).get("model")
    return name if isinstance(name, str) else None
