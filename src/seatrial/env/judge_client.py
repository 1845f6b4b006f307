"""JudgeClient: a model that judges, opened when it is first asked and closed with its rubric or its event loop."""

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from seatrial.env.chat_calls import chat_namespace

if TYPE_CHECKING:  # an HTTP client, which a rubric that is only described has no use for
    from seatrial.env.client import Client


class JudgeClient:
    """Whatever `evaluate` takes for a client. It has `chat.completions.create`, as the clients of SDKs do.

    `given` is opened once for each event loop that asks.
    """

    def __init__(self, given: object) -> None:
        self.given = given
        self._opened: _Opened | None = None

    @property
    def chat(self) -> SimpleNamespace:
        """The way in that reward functions know."""
        return chat_namespace(self.complete)

    async def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a chat completion request, as a table. Raises ModelError or UsageError."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop:
            self._opened = _Opened(loop)
        client = await self._opened.client(self.given)
        return await client.complete(request)

    async def close(self) -> None:
        """Give up the connection; the next question opens another one."""
        opened, self._opened = self._opened, None
        if opened is not None and opened.loop is asyncio.get_running_loop():
            await opened.stack.aclose()

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self.given, "_opened": None}


class _Opened:
    """A client that belongs to one event loop, which closes it when it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._client: Client | None = None

    async def client(self, given: object) -> "Client":
        from seatrial.env.client import open_client  # noqa: PLC0415 - see the top

        async with self._lock:
            if self._client is None:
                self._client = await self.stack.enter_async_context(open_client(given))
        return self._client
