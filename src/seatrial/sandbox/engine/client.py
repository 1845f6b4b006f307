"""Talking to a container engine: requests with an answer in time, and connections that become streams."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import urlencode

import aiohttp

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.engine.endpoint import Endpoint
from seatrial.sandbox.engine.streams import Stream, upgrade

_CONNECT_SEC = 10.0
_ANSWER_SEC = 120.0
_CHUNK = 2**18
_FAILED = 400


class EngineError(SandboxError):
    """The engine refused a request; `status` is what HTTP says of it."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class EngineClient:
    """A connection pool to one daemon, for the length of an `async with` block."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.server = ""
        """How the daemon calls itself, such as `Docker/28.2.2 (linux)`."""

    async def __aenter__(self) -> Self:
        """Raises HostUnsupportedError when no daemon answers."""
        path, timeout = self.endpoint.socket, aiohttp.ClientTimeout(total=_ANSWER_SEC, sock_connect=_CONNECT_SEC)
        # As many connections as there are requests: the daemon does them all at once, and some take long.
        connector = aiohttp.UnixConnector(path, limit=0) if path else aiohttp.TCPConnector(limit=0)
        base = f"http://{self.endpoint.host}:{self.endpoint.port or 80}"
        # Left to itself, Docker compresses the archives of a container, which takes six times as long as packing them.
        headers = {"Accept-Encoding": "identity"}
        self._session = aiohttp.ClientSession(base, connector=connector, timeout=timeout, headers=headers)
        try:
            async with asyncio.timeout(_CONNECT_SEC), self.open("GET", "/_ping") as response:
                self.server = response.headers.get("Server", "")
        except (SandboxError, TimeoutError) as error:
            await self._session.close()
            raise HostUnsupportedError(self.endpoint.explain(error)) from error
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: Any = None, /, **query: str) -> Any:
        """One request and its answer, None unless it is JSON. Raises EngineError, or SandboxError when none comes."""
        async with self.open(method, path, body, query) as response:
            content = (await response.read()).strip()
            return json.loads(content) if content.startswith((b"{", b"[")) else None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        *,
        timeout_sec: float = 0,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer to be read piece by piece. A body is sent as JSON, or as an archive when it is a file.

        `timeout_sec` is how long it may take, in seconds, when it is not the usual. Raises like `ask`.
        """
        content: dict[str, Any] = {}
        if hasattr(body, "read"):
            content = {"data": _pieces(body), "headers": {"Content-Type": "application/x-tar"}}
        elif body is not None:
            content = {"json": body}
        if timeout_sec:
            content["timeout"] = aiohttp.ClientTimeout(total=timeout_sec, sock_connect=_CONNECT_SEC)
        try:
            async with self._session.request(method, path, params=query, **content) as response:
                if response.status >= _FAILED:
                    raise EngineError(_message(await response.read(), response), response.status)
                yield response
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise SandboxError(self.endpoint.explain(error)) from error

    async def stream(self, path: str, body: Any = None, /, **query: str) -> Stream:
        """A connection that belongs to a process from now on. Raises like `ask`."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            async with asyncio.timeout(_ANSWER_SEC):
                stream, status, content = await upgrade(self.endpoint, target, body)
        except (OSError, EOFError) as error:
            raise SandboxError(self.endpoint.explain(error)) from error
        if stream is None:
            raise EngineError(_said(content) or f"HTTP status {status}", status)
        return stream


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, _CHUNK):
        yield piece


def _message(content: bytes, response: aiohttp.ClientResponse) -> str:
    return _said(content) or f"HTTP status {response.status}: {response.reason}"


def _said(content: bytes) -> str:
    """The engine's own words about what went wrong."""
    try:
        found = json.loads(content)
    except ValueError:
        return content.decode(errors="replace").strip()[:500]
    if isinstance(found, dict):
        return str(found.get("message") or found.get("cause") or "")
    return str(found)
