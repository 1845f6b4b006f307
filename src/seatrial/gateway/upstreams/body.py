"""Body: the body of a provider's answer as it arrives, given up when nothing arrives for too long."""

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Self

import aiohttp

from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.upstreams.http_client import in_words

_HIDDEN = "[key]"
_LEAST_SECRET = 8
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


def secrets_of(key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """What a provider is sent that nobody else may see: its key, and what headers carry that are named like one."""
    values = [key or "", *(value for name, value in headers.items() if _SECRET_HEADER.search(name))]
    parts = {part for value in values for part in (value, *value.split())}  # a key stands behind the word Bearer
    return tuple(sorted((part for part in parts if len(part) >= _LEAST_SECRET), key=len, reverse=True))


class Hider:
    """Replaces secrets by `[key]`, in text and in bodies that come in pieces. They are of one line each."""

    def __init__(self, secrets: Sequence[str]) -> None:
        written = dict.fromkeys(form for each in secrets for form in (each, json.dumps(each)[1:-1]))
        self._forms = sorted(written, key=len, reverse=True)
        self._written = [form.encode() for form in self._forms]

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form in self._forms:
            text = text.replace(form, _HIDDEN)
        return text

    def whole(self, data: bytes) -> bytes:
        """The bytes without secrets."""
        for form in self._written:
            if form in data:
                data = data.replace(form, _HIDDEN.encode())
        return data

    def begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret."""
        if data.endswith(b"\n"):  # as nearly all pieces of a stream do
            return 0
        for form in self._written:
            start = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while start >= 0:
                if form.startswith(data[start:]):
                    return len(data) - start
                start = data.find(form[:1], start + 1)
        return 0


_NOTHING_HIDDEN = Hider(())


class Body:
    """Owns a response whose first bytes are here, until it is closed. Its chunks come as the network gives them, but
    for secrets, and end in ProviderError if the answer breaks off or falls silent.

    It is an iterator itself: a generator would have to be started and ended for each of many short answers.
    """

    __slots__ = (
        "_begun",
        "_content",
        "_first",
        "_hider",
        "_idle_sec",
        "_is_idle",
        "_response",
        "_timer",
        "_waiting_since",
    )

    def __init__(self, response: aiohttp.ClientResponse, idle_sec: float, hider: Hider) -> None:
        self._response = response
        self._content = response.content
        self._hider = hider
        self._begun = b""  # what may be the beginning of a secret
        self._first = b""
        self._idle_sec = idle_sec
        self._is_idle = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since: float | None = None

    @classmethod
    async def begun(cls, response: aiohttp.ClientResponse, idle_sec: float, hider: Hider = _NOTHING_HIDDEN) -> Self:
        """The body of a response, once its first bytes are here. Raises what aiohttp raises."""
        body = cls(response, idle_sec, hider)
        try:
            body._first = await body._read()
        except BaseException:
            response.close()
            raise
        return body

    async def _read(self) -> bytes:
        """What comes next; nothing at the end."""
        content, hider = self._content, self._hider
        while True:
            chunk = await content.readany()
            if self._begun:
                chunk, self._begun = self._begun + chunk, b""
            if content.at_eof():
                return hider.whole(chunk)
            if chunk:
                chunk = hider.whole(chunk)
                if (size := hider.begun(chunk)) == 0:
                    return chunk
                chunk, self._begun = chunk[:-size], chunk[-size:]
                if chunk:
                    return chunk

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        content = self._content
        if self._timer is None:
            if content.at_eof() and not self._begun:
                raise StopAsyncIteration
            self._watch(self._idle_sec)
        try:
            self._waiting_since = monotonic()
            chunk = await self._read()
        except (aiohttp.ClientError, OSError) as error:
            silent = f"nothing more came for {self._idle_sec:g} s"
            if self._is_idle:
                raise ModelSilentError(f"the answer stopped in the middle: {silent}") from error
            raise ProviderError(f"the answer stopped in the middle: the connection broke: {in_words(error)}") from error
        self._waiting_since = None  # a reader who takes his time is no fault of the provider's
        if chunk:
            return chunk
        raise StopAsyncIteration

    @property
    def first(self) -> bytes:
        """The first bytes, as long as nothing is taken."""
        return self._first

    def whole(self) -> bytes | None:
        """All of it, if nothing is taken or to come."""
        return self._first if self._content.at_eof() and not self._begun else None

    async def read(self, most: int) -> bytes:
        """The body as far as it comes, up to about `most` bytes; for what the provider says about a failure."""
        said = bytearray()
        with contextlib.suppress(ProviderError):
            async for chunk in self:
                said += chunk
                if len(said) >= most:
                    break
        return bytes(said[:most])

    def close(self) -> None:
        """Let go of the response. A connection whose answer was read to its end serves the next request."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._response.closed:
            self._response.close()

    def _watch(self, for_sec: float) -> None:
        # One timer for the whole answer, moved when it fires: moving it for every chunk would cost more than the chunk.
        self._timer = asyncio.get_running_loop().call_later(for_sec, self._check)

    def _check(self) -> None:
        now = monotonic()
        left_sec = self._idle_sec - (now - (self._waiting_since or now))
        if left_sec > 0:
            self._watch(left_sec)
        else:
            self._is_idle = True
            self._response.close()
