"""The official SDKs reading a stream of ours, without a network."""

from collections.abc import Iterable
from typing import Any

import anthropic
import httpx2
import openai

from seatrial.gateway.base import SseEvent, encode_event

HELLO: list[Any] = [{"role": "user", "content": "hi"}]


def _http(events: Iterable[SseEvent]) -> httpx2.Client:
    content = b"".join(encode_event(event) for event in events)
    headers = {"content-type": "text/event-stream"}
    return httpx2.Client(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=content))
    )


def _claude(events: Iterable[SseEvent]) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", http_client=_http(events), max_retries=0)


def _openai(events: Iterable[SseEvent]) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", http_client=_http(events), max_retries=0)


def sdk_stream(dialect: str, events: Iterable[SseEvent]) -> Iterable[Any]:
    """What the SDK of this dialect yields for a stream of these events."""
    if dialect == "anthropic":
        return _claude(events).messages.create(model="m", max_tokens=9, messages=HELLO, stream=True)
    if dialect == "openai_responses":
        return _openai(events).responses.create(model="m", input="hi", stream=True)
    return _openai(events).chat.completions.create(model="m", messages=HELLO, stream=True)


def sdk_answer(dialect: str, events: Iterable[SseEvent]) -> Any:
    """The answer as the SDK of this dialect itself puts a stream together."""
    if dialect == "anthropic":
        with _claude(events).messages.stream(model="m", max_tokens=9, messages=HELLO) as messages:
            return messages.get_final_message()
    if dialect == "openai_responses":
        with _openai(events).responses.stream(model="m", input="hi") as responses:
            return responses.get_final_response()
    with _openai(events).chat.completions.stream(model="m", messages=HELLO) as completions:
        return completions.get_final_completion()
