"""The way out of one sandbox: a forward proxy that starts with the first command that may use it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.sandbox.api import Network
from seatrial.sandbox.proxy import ForwardProxy


class Outbound:
    """Lends commands access to the network, each by its own policy and only while it runs."""

    def __init__(self, listen: Callable[[], Awaitable[socket.socket]]) -> None:
        self._listen = listen
        self._lock = asyncio.Lock()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._proxy: ForwardProxy | None = None
        self._port = 0

    @asynccontextmanager
    async def access(self, network: Network) -> AsyncIterator[dict[str, str]]:
        """The environment that lets one command out, until the block is left."""
        if network.mode in ("none", "host"):
            yield {}
            return
        proxy = await self._running_proxy()
        grant = proxy.grant(network)
        try:
            yield grant.environment(self._port)
        finally:
            await finish(proxy.revoke(grant))

    async def _running_proxy(self) -> ForwardProxy:
        async with self._lock:
            if self._task is None:
                listener = await self._listen()
                self._port = listener.getsockname()[1]
                started: asyncio.Future[ForwardProxy] = asyncio.get_running_loop().create_future()
                # A task of its own, because commands come and go in tasks of others; `close` waits for it.
                self._task = asyncio.create_task(self._serve(listener, started))
                self._proxy = await started
            if self._proxy is None or self._task.done():
                raise SandboxError("the sandbox's proxy has failed")
            return self._proxy

    async def _serve(self, listener: socket.socket, started: asyncio.Future[ForwardProxy]) -> None:
        async with ForwardProxy([listener]) as proxy:
            started.set_result(proxy)
            await self._stop.wait()

    async def close(self) -> None:
        """Stop the proxy and cut its connections."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])
