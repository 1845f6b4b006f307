"""Outgoing: a request in the form in which it goes to a provider, as often as it takes."""

import io
from collections.abc import AsyncIterator
from typing import NamedTuple

from yarl import URL

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.bodies import Spooled
from seatrial.gateway.dialects import call_body
from seatrial.gateway.upstreams.passing_on import ANTHROPIC_VERSION, is_googles, key_headers, sent_headers, target_url
from seatrial.gateway.upstreams.provider_options import ProviderOptions
from seatrial.model.trace import Dialect

_LARGE = 512 * 1024
_MADE_UP = frozenset({"content-type", "user-agent"})
_STYLES: tuple[Dialect | None, ...] = ("openai_chat", "openai_responses", "anthropic", "google", None)


class Outgoing(NamedTuple):
    """What is sent. The key is ours, not the agent's."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    dialect: Dialect | None
    spooled: Spooled | None = None

    def left_out(self) -> frozenset[str] | None:
        """The headers that aiohttp would make up. Only if there are any: to keep them out takes it long."""
        return _MADE_UP.difference(self.headers) or None

    def data(self) -> bytes | io.BytesIO | AsyncIterator[bytes] | None:
        """The body as aiohttp wants it: a large one in pieces, as a file that is written once only."""
        if self.spooled is not None:
            return self.spooled.pieces()
        if self.body is None or len(self.body) <= _LARGE:
            return self.body
        return io.BytesIO(self.body)


class Envelope:
    """How requests go to one provider: its address, the headers that are always the same, and how the key is shown."""

    def __init__(self, options: ProviderOptions, key: str | None) -> None:
        self._options = options
        self._headers = {style: {**options.headers, **key_headers(key, style)} for style in _STYLES}

    def prepare(self, request: ModelRequest) -> Outgoing:
        """An agent's request as it goes to this provider. Raises ValueError for a path that cannot be passed on."""
        style = request.dialect or self._style(request)
        headers = sent_headers(request.headers)
        body: bytes | None = request.body or None
        # The bytes of a request that is passed on as it came are here, or else in its file.
        spooled = request.spooled if body is None else None
        if spooled is not None:
            headers["content-length"] = str(spooled.size)
        elif body is None and request.payload is not None:
            body = call_body(request.dialect, request.payload)
        if body is not None or spooled is not None:
            headers.setdefault("content-type", "application/json")
        if style == "anthropic":
            headers.setdefault("anthropic-version", ANTHROPIC_VERSION)
        headers.update(self._headers[style])
        url = target_url(self._options.base_url, request.path)
        return Outgoing(request.method, url, headers, body, request.dialect, spooled)

    def _style(self, request: ModelRequest) -> Dialect | None:
        """The dialect whose way of showing a key is used on paths of none: the way the agent itself used."""
        dialects = self._options.dialects
        if "google" in dialects and (len(dialects) == 1 or is_googles(request.path)):
            return "google"
        if "anthropic" not in dialects:
            return None
        if len(dialects) == 1 or any(name.lower() == "anthropic-version" for name in request.headers):
            return "anthropic"
        return None
