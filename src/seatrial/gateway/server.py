"""The gateway's server: HTTP from inside a sandbox, one listener and one key per trial."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from seatrial.concurrency import finish
from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import DIALECTS, dialect_of
from seatrial.gateway.exchange import carry
from seatrial.gateway.session import Session
from seatrial.model.trace import Dialect

MAX_BODY_BYTES = 256 * 2**20
BACKLOG = 4096
_GRACE_SEC = 0.1  # for connections nobody uses any more; zero would mean for ever


@asynccontextmanager
async def serve(session: Session, listener: socket.socket) -> AsyncIterator[int]:
    """Answer the requests that come in at a listening socket, until the block is left; yields its port.

    Calls that are under way then are broken off; all are written down when this returns.
    """
    underway = _Underway()
    server = web.Server(partial(_handle, session, underway), access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=_GRACE_SEC)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=BACKLOG).start()
        yield int(listener.getsockname()[1])
    finally:
        await finish(_close(runner, underway))


async def _close(runner: web.ServerRunner, underway: "_Underway") -> None:
    await underway.end()
    await runner.cleanup()


class _Underway:
    """The requests that are being answered."""

    def __init__(self) -> None:
        self.closed = False
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._none = asyncio.Event()

    def begin(self, task: asyncio.Task[Any] | None) -> None:
        """Count the request that a task answers."""
        self._tasks.add(task)

    def done(self, task: asyncio.Task[Any] | None) -> None:
        """It is answered, or will not be."""
        self._tasks.discard(task)
        if not self._tasks:
            self._none.set()

    async def end(self) -> None:
        """Break all of them off; returns when they have ended, and there will be no more."""
        self.closed = True
        for task in filter(None, self._tasks):
            task.cancel()
        if self._tasks:
            self._none.clear()
            await self._none.wait()


class _Response:
    """The way back to the agent, over HTTP."""

    __slots__ = ("_request", "response", "write")

    write: Callable[[bytes], Coroutine[Any, Any, None]]

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.response: web.StreamResponse | None = None

    @property
    def begun(self) -> bool:
        return self.response is not None

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        response = web.StreamResponse(status=status, headers=headers)
        writer = await response.prepare(self._request)
        assert writer is not None  # noqa: S101 - it was not prepared before
        self.response = response
        self.write = writer.write

    async def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        # Not begun and written in pieces: that would be three packets, and one for each wakes the agent.
        response = web.Response(status=status, headers=headers, body=body)
        await response.prepare(self._request)
        self.response = response
        await response.write_eof()


async def _handle(session: Session, underway: _Underway, request: web.BaseRequest) -> web.StreamResponse:
    if underway.closed:
        raise ConnectionResetError("the gateway is closed")
    task = asyncio.current_task()
    underway.begin(task)
    way = _Response(request)
    try:
        _check(session, request)
        body = await request.content.readany()
        if not request.content.at_eof():
            body = await _with_the_rest(request.content, body)
        asked = _read(request, body)
        try:
            await carry(session, asked, way)
        except ConnectionError:
            raise
        except Exception as error:
            # The session fails by it, so that no agent is judged by what it did after that.
            session.fail(ProviderError(f"the gateway itself failed: {type(error).__name__}: {error}"))
            raise
    except _RefusedError as refused:
        return _refusal(request, refused)
    finally:
        underway.done(task)
    assert way.response is not None  # noqa: S101 - every answer has a status
    return way.response


def _refusal(request: web.BaseRequest, refused: "_RefusedError") -> web.Response:
    dialect = DIALECTS[_dialect(request.path) or "openai_chat"]
    body = orjson.dumps(dialect.error_body(refused.status, "agent", str(refused)))
    return web.Response(status=refused.status, body=body, content_type="application/json")


@lru_cache(maxsize=256)
def _dialect(path: str) -> Dialect | None:
    # As providers read paths: `//v1//messages` must not lead past the limits and the record.
    return dialect_of(re.sub("/{2,}", "/", path))


class _RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def _check(session: Session, request: web.BaseRequest) -> None:
    """Whether a request is worth reading. Raises _RefusedError."""
    headers = request.headers
    credential = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not session.opens(credential):
        raise _RefusedError(401, "this key does not open the gateway; use the one in OPENAI_API_KEY")
    _check_size(request.content_length or 0)


def _check_size(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise _RefusedError(413, f"the request is larger than {MAX_BODY_BYTES:,} bytes")


def _read(request: web.BaseRequest, body: bytes) -> ModelRequest:
    headers, method = request.headers, request.method
    _check_size(len(body))
    dialect = _dialect(request.path) if method == "POST" else None
    if dialect is None:
        return ModelRequest(request.path_qs, method, None, None, body, headers)
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _RefusedError(400, f"the request is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise _RefusedError(400, "the request is not a JSON object")
    stream = DIALECTS[dialect].asks_for_stream(payload)
    return ModelRequest(request.path_qs, method, dialect, payload, body, headers, stream)


async def _with_the_rest(content: aiohttp.StreamReader, first: bytes) -> bytes:
    pieces, size = [first], len(first)
    while not content.at_eof():
        _check_size(size)
        pieces.append(await content.readany())
        size += len(pieces[-1])
    return b"".join(pieces)


def listening_socket(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A socket of this machine to serve at."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setblocking(False)  # noqa: FBT003
    return listener
