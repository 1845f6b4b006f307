"""The official SDKs reading a stream of ours, without a network."""

from collections.abc import Iterable
from typing import Any

import anthropic
import httpx2
import openai

from seatrial.gateway.sse import SseEvent, encode_event


def sdk_stream(dialect: str, events: Iterable[SseEvent]) -> Iterable[Any]:
    """What the SDK of this dialect yields for a stream of these events."""
    content = b"".join(encode_event(event) for event in events)
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=content))
    http = httpx2.Client(transport=transport)
    hello: list[Any] = [{"role": "user", "content": "hi"}]
    if dialect == "anthropic":
        claude = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
        return claude.messages.create(model="m", max_tokens=9, messages=hello, stream=True)
    client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
    if dialect == "openai_responses":
        return client.responses.create(model="m", input="hi", stream=True)
    return client.chat.completions.create(model="m", messages=hello, stream=True)
