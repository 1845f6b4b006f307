"""The gateway's server: HTTP from inside a sandbox, one listener and one key per trial."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

import orjson
from aiohttp import web

from seatrial.concurrency import finish
from seatrial.errors import ProviderError
from seatrial.gateway.bodies import BodyTooLargeError, Content, Held, SpoolError
from seatrial.gateway.connections import BACKLOG, Connections
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.exchange import carry
from seatrial.gateway.requests import UPGRADE_REQUIRED, RefusedError, admitted, read_request, read_spooled
from seatrial.gateway.routes import Route, error_dialect, shown, split_key
from seatrial.gateway.session import Session
from seatrial.gateway.spill import takes_files
from seatrial.gateway.way_back import FINAL


@asynccontextmanager
async def serve(session: Session, listener: socket.socket) -> AsyncIterator[int]:
    """Answer the requests that come in at a listening socket, until the block is left; yields its port.

    Calls that are under way then are broken off; all are written down when this returns.
    """
    underway = _Underway()
    port = int(listener.getsockname()[1])
    connections = Connections(partial(_handle, session, underway), session, listener)
    connections.start()
    try:
        yield port
    finally:
        session.waits.closed = True
        await finish(_close(connections, underway))


async def _close(connections: Connections, underway: "_Underway") -> None:
    await underway.end()
    await connections.close()


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

    __slots__ = ("request", "response", "write")

    write: Callable[[bytes], Coroutine[Any, Any, None]]

    def __init__(self, request: web.BaseRequest) -> None:
        self.request = request
        self.response: web.StreamResponse | None = None

    @property
    def begun(self) -> bool:
        return self.response is not None

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        response = web.StreamResponse(status=status, headers=headers)
        writer = await response.prepare(self.request)
        assert writer is not None  # noqa: S101 - it was not prepared before
        self.response = response
        self.write = writer.write

    async def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        # Not begun and written in pieces: that would be three packets, and one for each wakes the agent.
        response = web.Response(status=status, headers=headers, body=body)
        await response.prepare(self.request)
        self.response = response
        await response.write_eof()


async def _handle(
    session: Session, underway: _Underway, connections: Connections, request: web.BaseRequest
) -> web.StreamResponse:
    if underway.closed:
        raise ConnectionResetError("the gateway is closed")
    task, connection, way = asyncio.current_task(), request.protocol, _Response(request)
    underway.begin(task)
    connections.idle.pop(connection, None)
    assert task is not None  # noqa: S101 - a coroutine runs in one
    connections.answering[connection] = task
    connections.reading[connection] = monotonic()
    try:
        route = admitted(session, request)
        body = await _first_of(request.content)
        # Almost every request is here at once. Each await between here and the answer is paid for with every call.
        if request.content.at_eof() and session.bodies.fits(len(body)):
            connections.reading.pop(connection, None)
            with Held(session.bodies, body):
                await carry(session, read_request(session, request, route, body), way)
        else:
            held = await _rest_of(request.content, body, session)
            del body
            connections.reading.pop(connection, None)
            with held:
                await _carry(session, held, route, way)
    except RefusedError as refused:
        return _refusal(session, request, refused)
    except ConnectionError:
        raise
    except Exception as error:
        # The session fails by it, so that no agent is judged by what it did after that.
        session.fail(ProviderError(f"the gateway itself failed: {type(error).__name__}: {error}"))
        raise
    finally:
        connections.reading.pop(connection, None)
        connections.answering.pop(connection, None)
        if connection.transport is not None:
            connections.idle[connection] = monotonic()
        underway.done(task)
    assert way.response is not None  # noqa: S101 - every answer has a status
    return way.response


async def _first_of(content: Content) -> bytes:
    try:
        return await content.readany()
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - a body that is not in the form its headers say, whatever comes of it
        raise _unreadable(error) from None


async def _rest_of(content: Content, first: bytes, session: Session) -> Held:
    try:
        return await session.bodies.collect(content, first)
    except (ConnectionError, SpoolError):
        raise
    except BodyTooLargeError as error:
        raise RefusedError(413, str(error)) from None
    except Exception as error:  # noqa: BLE001 - as above
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> RefusedError:
    # Never our failure, or agents could choose not to be counted.
    return RefusedError(400, f"the body cannot be read: {error}")


async def _carry(session: Session, held: Held, route: Route, way: _Response) -> None:
    """Answer a request that came in several pieces."""
    if held.spooled is None:
        await carry(session, read_request(session, way.request, route, held.data), way)
    elif takes_files(session.upstream):
        await carry(session, read_spooled(session, way.request, route, held.spooled), way)
    else:
        async with session.one_large:
            await carry(session, read_spooled(session, way.request, route, held.spooled), way)


def _refusal(session: Session, request: web.BaseRequest, refused: RefusedError) -> web.Response:
    (target, _), headers = split_key(request.raw_path), request.headers
    if refused.status == 401:
        session.locked_out(str(refused))
    elif refused.status != UPGRADE_REQUIRED:  # which is no failure: the agent asks again without
        session.refused(shown(request.method), shown(target), refused.status, str(refused))
    dialect = DIALECTS[error_dialect(target, headers.get("anthropic-version"))]
    body = orjson.dumps(dialect.error_body(refused.status, "agent", str(refused)))
    return web.Response(status=refused.status, body=body, headers=FINAL)


def listening_socket(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A socket of this machine to serve at."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
