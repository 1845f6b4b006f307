"""One tiny call before a job: does the provider take our key and know the model, or why not?

Scripts, replays and functions are not asked: they have no key, and every answer of theirs is meant for a trial.
"""

import asyncio
from typing import Any, Literal, NamedTuple

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest, Upstream
from seatrial.gateway.dialects import call_path
from seatrial.gateway.upstreams.backoff import error_message
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.model.trace import Dialect

_TIMEOUT_SEC = 60.0
_MOST_ERROR_BYTES = 64 * 1024
_ORDER: tuple[Dialect, ...] = ("openai_chat", "anthropic", "openai_responses", "google")
_REFUSED = frozenset({401, 402, 403, 404})
_UNKNOWN_MODEL = ("not found", "does not exist", "not exist", "unknown model", "invalid model", "no such model")


class Tried(NamedTuple):
    """What came of a tiny call. What is `unclear`, such as a provider that is busy, stands in nobody's way."""

    verdict: Literal["answers", "refuses", "unclear"]
    said: str = ""


async def try_upstream(upstream: Upstream, model: str | None) -> Tried | None:
    """Ask for one token of a model, or for the list of models where none is named; None where that is not done."""
    if not isinstance(upstream, HttpProvider):
        return None
    try:
        async with asyncio.timeout(_TIMEOUT_SEC), upstream.ask(_request(upstream, model)) as reply:
            return await _judged(reply, model)
    except TimeoutError:
        return Tried("unclear", f"it did not answer within {_TIMEOUT_SEC:g} s")
    except ProviderError as error:
        unreachable = error.status is None
        return Tried("refuses" if unreachable or not error.retryable else "unclear", str(error))


def _request(upstream: Upstream, model: str | None) -> ModelRequest:
    if model is None:
        return ModelRequest("/v1/models", "GET")
    dialect = next(each for each in _ORDER if each in upstream.dialects)
    payload = _payload(dialect, model)
    return ModelRequest(call_path(dialect, payload), dialect=dialect, payload=payload)


def _payload(dialect: Dialect, model: str) -> dict[str, Any]:
    if dialect == "openai_responses":
        return {"model": model, "input": "Hi", "max_output_tokens": 16}  # the least that it takes
    if dialect == "google":
        asked = [{"role": "user", "parts": [{"text": "Hi"}]}]
        return {"model": model, "contents": asked, "generationConfig": {"maxOutputTokens": 1}}
    return {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}


async def _judged(reply: ModelReply, model: str | None) -> Tried:
    if reply.status < 400:
        return Tried("answers")
    body = b""
    async for piece in reply.chunks:
        body = (body + piece)[:_MOST_ERROR_BYTES]
    said = f"it answered {reply.status}: {error_message(body) or 'no reason given'}"
    if model is None:  # not every provider has a list of models
        return Tried("refuses" if reply.status in _REFUSED - {404} else "unclear", said)
    # A model may not like the form of so small a question; that is no reason to keep an agent from it.
    unknown = reply.status == 400 and any(words in said.lower() for words in _UNKNOWN_MODEL)
    return Tried("refuses" if unknown or reply.status in _REFUSED else "unclear", said)
