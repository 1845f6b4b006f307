"""Outgoing: a request in the form in which it goes to a provider, as often as it takes."""

import io
from typing import NamedTuple

import orjson
from yarl import URL

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.upstreams.passing_on import ANTHROPIC_VERSION, key_headers, sent_headers, target_url
from seatrial.gateway.upstreams.provider_options import ProviderOptions
from seatrial.model.trace import Dialect

_LARGE = 512 * 1024
_MADE_UP = ("content-type", "user-agent")


class Outgoing(NamedTuple):
    """What is sent. The key is ours, not the agent's."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    dialect: Dialect | None

    def left_out(self) -> list[str] | None:
        """The headers that aiohttp would make up. Only if there are any: to keep them out takes it long."""
        return [name for name in _MADE_UP if name not in self.headers] or None

    def data(self) -> bytes | io.BytesIO | None:
        """The body as aiohttp wants it: a large one as a file, which is written in pieces and once only."""
        if self.body is None or len(self.body) <= _LARGE:
            return self.body
        return io.BytesIO(self.body)


def prepare(request: ModelRequest, options: ProviderOptions, key: str | None) -> Outgoing:
    """The request of an agent as it goes to this provider. Raises ValueError for a path that cannot be passed on."""
    style = _key_style(request, options)
    headers = sent_headers(request.headers)
    body: bytes | None = request.body or None
    if body is None and request.payload is not None:
        body = orjson.dumps(request.payload)
    if body is not None:
        headers.setdefault("content-type", "application/json")
    if style == "anthropic":
        headers.setdefault("anthropic-version", ANTHROPIC_VERSION)
    headers["accept-encoding"] = "identity"  # a server that compresses holds a stream back until it has enough
    headers.update(options.headers)
    headers.update(key_headers(key, style))
    return Outgoing(request.method, target_url(options.base_url, request.path), headers, body, request.dialect)


def _key_style(request: ModelRequest, options: ProviderOptions) -> Dialect | None:
    """The dialect whose way of showing a key is used; on paths of none, the way the agent itself used."""
    if request.dialect is not None or "anthropic" not in options.dialects:
        return request.dialect
    if len(options.dialects) == 1 or any(name.lower() == "anthropic-version" for name in request.headers):
        return "anthropic"
    return None
