"""Requests to upstreams, and their answers read to the end."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import orjson

from seatrial.gateway import dialects
from seatrial.gateway.api import ModelRequest, Upstream
from seatrial.gateway.dialects import call_body, call_path
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import FakeProvider, Step

KEY = "sk-provider-0123456789"
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}
DIALECTS: list[DialectName] = list(dialects.DIALECTS)
PATHS: dict[DialectName, str] = {each.name: each.path for each in dialects.DIALECTS.values() if each.path}
"""Where each dialect is spoken that has one path."""


class Answered(NamedTuple):
    status: int
    headers: Mapping[str, str]
    chunks: list[bytes]

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


def call(dialect: DialectName | None = "openai_chat", *, stream: bool = False, **changes: Any) -> ModelRequest:
    """A small request in a dialect; `changes` are fields of its payload."""
    payload = {**HELLO, **changes}
    if dialect == "openai_responses":
        payload["input"] = payload.pop("messages")
    if dialect == "google":
        payload = _in_googles_words(payload, stream=stream)
    elif stream:
        payload["stream"] = True
    path = call_path(dialect, payload) if dialect else "/v1/models"
    return ModelRequest(path, dialect=dialect, payload=payload, body=call_body(dialect, payload), stream=stream)


def _in_googles_words(payload: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    limit = {"generationConfig": {"maxOutputTokens": payload.pop("max_tokens")}}
    contents = [
        {"role": "user", "parts": [{"text": each["content"]}] if "content" in each else each["parts"]}
        for each in payload.pop("messages")
    ]
    return {**limit, **payload, "contents": contents, "stream": stream}


async def ask(upstream: Upstream, request: ModelRequest) -> Answered:
    async with upstream.ask(request) as reply:
        return Answered(reply.status, reply.headers, [chunk async for chunk in reply.chunks])


class Naps(list[float]):
    """A clock that remembers how long it was asked to wait, and does not wait."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@asynccontextmanager
async def provider(
    *script: Step, naps: Naps | None = None, fake: FakeProvider | None = None, **options: Any
) -> AsyncIterator[tuple[HttpProvider, FakeProvider]]:
    """A provider in front of a fake one, which follows a script unless it is given."""
    async with fake or FakeProvider(*script) as served:
        settings: dict[str, Any] = {"base_url": served.base_url, "api_key_var": "KEY", "dialects": frozenset(DIALECTS)}
        upstream = HttpProvider(
            ProviderOptions(**{**settings, **options}),
            environ={"KEY": KEY},
            sleep=Naps() if naps is None else naps,
            chance=lambda: 0.0,
        )
        async with upstream:
            yield upstream, served
