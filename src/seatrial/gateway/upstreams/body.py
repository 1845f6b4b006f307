"""Body: the body of a provider's answer as it arrives, given up when nothing arrives for too long."""

import asyncio
import contextlib
from time import monotonic
from typing import Self

import aiohttp

from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.upstreams.http_client import in_words


class Body:
    """Owns a response whose first bytes are here, until it is closed. Its chunks come as the network gives them, and
    end in ProviderError if the answer breaks off or falls silent.

    It is an iterator itself: a generator would have to be started and ended for each of many short answers.
    """

    __slots__ = ("_content", "_first", "_idle_sec", "_is_idle", "_response", "_timer", "_waiting_since")

    def __init__(self, response: aiohttp.ClientResponse, first: bytes, idle_sec: float) -> None:
        self._response = response
        self._content = response.content
        self._first = first
        self._idle_sec = idle_sec
        self._is_idle = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since: float | None = None

    @classmethod
    async def begun(cls, response: aiohttp.ClientResponse, idle_sec: float) -> Self:
        """The body of a response, once its first bytes are here. Raises what aiohttp raises."""
        try:
            return cls(response, await response.content.readany(), idle_sec)
        except BaseException:
            response.close()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        content = self._content
        if self._timer is None:
            if content.at_eof():
                raise StopAsyncIteration
            self._watch(self._idle_sec)
        try:
            self._waiting_since = monotonic()
            chunk = await content.readany()
            while not chunk and not content.at_eof():
                chunk = await content.readany()
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
        return self._first if self._content.at_eof() else None

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
