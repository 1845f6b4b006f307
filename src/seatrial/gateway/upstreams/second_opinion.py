"""A second opinion: whether a provider fails at everything, or only at what this agent has sent.

Some statuses say nothing about whose fault they are: a 500 may be a provider that is down, or one that stumbles over a
single odd request, which an agent could send on purpose. So the provider is asked something plain beside it.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import orjson

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import call_body, call_path
from seatrial.gateway.upstreams.backoff import HOPELESS_STATUSES, RETRIED_STATUSES
from seatrial.model.trace import Dialect

DOUBTFUL_STATUSES = frozenset({403, 408, 409, 425, 500})
"""What a provider may answer to one odd request only. 403 is also what it says to a key without rights."""

_ABOUT_SIZE = 413  # what is too large stays so, whoever says it

ASKED_WITHIN_SEC = 60.0
"""How long the plain question may take, and how long its answer counts."""

_QUESTION = "Reply with the word ok."
_MOST_MODELS = 64  # an agent may ask for any name
_PLAIN: Mapping[Dialect, dict[str, Any]] = {
    "openai_chat": {"messages": [{"role": "user", "content": _QUESTION}]},
    "openai_responses": {"input": _QUESTION},
    "anthropic": {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": 16},
    "google": {"contents": [{"role": "user", "parts": [{"text": _QUESTION}]}]},
}


def is_doubtful(status: int, said: bytes) -> bool:
    """Whether nobody can tell by an answer to a call whose fault it is."""
    return status in DOUBTFUL_STATUSES or _is_a_page(status, said)


def may_pass(status: int, said: bytes) -> bool:
    """Whether another attempt may help: always with the statuses for that, and with what no model has said."""
    return status in RETRIED_STATUSES or (status != _ABOUT_SIZE and _is_a_page(status, said))


def plain_question(dialect: Dialect, model: str, trial: int = 0) -> ModelRequest:
    """The plainest request there is to a model, which no provider that works refuses."""
    payload = {"model": model, **_PLAIN[dialect]}
    path, body = call_path(dialect, payload), call_body(dialect, payload)
    return ModelRequest(path, dialect=dialect, payload=payload, body=body, trial=trial)


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


def _is_a_page(status: int, said: bytes) -> bool:
    """Whether a refusal comes from something before the model, such as an ingress: models refuse in JSON."""
    if not 400 <= status < 500 or status in RETRIED_STATUSES or status in HOPELESS_STATUSES:
        return False
    try:
        return not isinstance(orjson.loads(said), dict)
    except orjson.JSONDecodeError:
        return True
