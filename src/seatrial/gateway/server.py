"""The gateway's server: HTTP from inside a sandbox, one listener and one key per trial."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import orjson
from aiohttp import web

from seatrial.concurrency import finish
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import DIALECTS, dialect_of
from seatrial.gateway.exchange import carry
from seatrial.gateway.session import Session

MAX_BODY_BYTES = 256 * 2**20
BACKLOG = 4096


@asynccontextmanager
async def serve(session: Session, listener: socket.socket) -> AsyncIterator[int]:
    """Answer the requests that come in at a listening socket, until the block is left; yields its port."""
    server = web.Server(partial(_handle, session), access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=BACKLOG).start()
        yield int(listener.getsockname()[1])
    finally:
        await finish(runner.cleanup())


class _Response:
    """The way back to the agent, over HTTP."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.response: web.StreamResponse | None = None

    @property
    def begun(self) -> bool:
        return self.response is not None

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(self._request)
        self.response = response

    async def write(self, data: bytes) -> None:
        assert self.response is not None  # noqa: S101 - it has begun
        await self.response.write(data)


async def _handle(session: Session, request: web.BaseRequest) -> web.StreamResponse:
    way = _Response(request)
    try:
        model_request = await _read(session, request)
    except _RefusedError as refused:
        dialect = DIALECTS[dialect_of(request.path) or "openai_chat"]
        body = orjson.dumps(dialect.error_body(refused.status, "agent", str(refused)))
        return web.Response(status=refused.status, body=body, content_type="application/json")
    await carry(session, model_request, way)
    assert way.response is not None  # noqa: S101 - every answer has a status
    await way.response.write_eof()
    return way.response


class _RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


async def _read(session: Session, request: web.BaseRequest) -> ModelRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    credential = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not session.opens(credential):
        raise _RefusedError(401, "this key does not open the gateway; use the one in OPENAI_API_KEY")
    body = await _body(request)
    dialect = dialect_of(request.path) if request.method == "POST" else None
    payload = None
    if dialect is not None:
        try:
            payload = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise _RefusedError(400, f"the request is not JSON: {error}") from None
        if not isinstance(payload, dict):
            raise _RefusedError(400, "the request is not a JSON object")
    stream = payload is not None and dialect is not None and DIALECTS[dialect].asks_for_stream(payload)
    return ModelRequest(request.path_qs, request.method, dialect, payload, body, headers, stream)


async def _body(request: web.BaseRequest) -> bytes:
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise _RefusedError(413, f"the request is larger than {MAX_BODY_BYTES:,} bytes")
    pieces, size = [], 0
    async for piece in request.content.iter_any():
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise _RefusedError(413, f"the request is larger than {MAX_BODY_BYTES:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def listening_socket(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A socket of this machine to serve at."""
    listener = socket.create_server((host, port), backlog=BACKLOG)
    listener.setblocking(False)  # noqa: FBT003
    return listener
