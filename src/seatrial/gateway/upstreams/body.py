"""Body: the body of a provider's answer as it arrives, given up when nothing arrives for too long."""

import asyncio
import contextlib
from typing import Self

import aiohttp

from seatrial.errors import ProviderError


class Body:
    """Owns a response until it is closed. Its chunks come as the network gives them, and end in ProviderError if the
    answer breaks off or falls silent.

    It is an iterator itself: a generator would have to be started and ended for each of many short answers.
    """

    __slots__ = ("_content", "_first", "_idle_sec", "_is_idle", "_loop", "_response", "_timer", "_waiting_since")

    def __init__(self, response: aiohttp.ClientResponse, idle_sec: float) -> None:
        self._response = response
        self._content = response.content
        self._idle_sec = idle_sec
        self._loop = asyncio.get_running_loop()
        self._first = b""
        self._is_idle = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since: float | None = None

    @classmethod
    async def begun(cls, response: aiohttp.ClientResponse, idle_sec: float) -> Self:
        """The body of a response, once its first bytes are here. Raises what aiohttp raises."""
        body = cls(response, idle_sec)
        try:
            body._first = await response.content.readany()
        except BaseException:
            body.close()
            raise
        return body

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        try:
            while not self._content.at_eof():
                self._waiting_since = self._loop.time()
                if self._timer is None:
                    self._timer = self._loop.call_later(self._idle_sec, self._check)
                chunk = await self._content.readany()
                self._waiting_since = None  # a reader who takes his time is no fault of the provider's
                if chunk:
                    return chunk
        except (aiohttp.ClientError, OSError) as error:
            silent = f"nothing more came for {self._idle_sec:g} s"
            reason = silent if self._is_idle else f"the connection broke: {error}"
            raise ProviderError(f"the answer stopped in the middle: {reason}") from error
        raise StopAsyncIteration

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

    def _check(self) -> None:
        # One timer for the whole answer, moved when it fires: moving it for every chunk would cost more than the chunk.
        now = self._loop.time()
        since = now if self._waiting_since is None else self._waiting_since
        if now - since >= self._idle_sec:
            self._is_idle = True
            self._response.close()
        else:
            self._timer = self._loop.call_at(since + self._idle_sec, self._check)
