"""The gateway's server: HTTP from inside a sandbox, one listener and one key per trial.

`serve` reads what comes in at a listener as requests to a model and hands each to `exchange.carry`. What it refuses
itself are requests that are no calls; how many connections an agent may have, and for how long, is decided here too.
"""

import asyncio
import logging
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any

import orjson
from aiohttp import web

from seatrial.concurrency import finish
from seatrial.descriptors import share, taking_part
from seatrial.errors import ListenerError, ProviderError
from seatrial.gateway.api import Bodies, BodyTooLargeError, Held, ModelRequest, Spooled, SpoolError
from seatrial.gateway.dialects import DIALECTS, PROVIDERS
from seatrial.gateway.dialects.base import ModelPaths, with_path
from seatrial.gateway.exchange import carry, takes_files
from seatrial.gateway.routes import FINAL, NoRoute, Route, error_dialect, find_route, shown, split_key
from seatrial.gateway.session import Session

# Requests: whether one is worth reading, and what it says.

_MOST_PARTS = 2_000_000  # an empty table takes 64 bytes of memory for 3 of JSON


UPGRADE_REQUIRED = 426
"""What agents that would rather have a WebSocket go on without one for, at once: Codex asks for one first."""


class RefusedError(Exception):
    """A request that is no call; the message is for the agent."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


_VARIABLES = [each.key_variables[0] for each in PROVIDERS.values()]
_RIGHT_KEY = (
    f"send the one that is in the variable {', '.join(_VARIABLES[:-1])} or {_VARIABLES[-1]} (they hold the same key), "
    "in place of a fixed one"
)
_KEY_HEADERS = tuple(dict.fromkeys(each.key_header for each in DIALECTS.values()))


def admitted(session: Session, request: web.BaseRequest) -> Route:
    """Where a request goes, before its body is read. Raises RefusedError."""
    if request.method == "GET" and request.headers.get("upgrade", "").lower() == "websocket":
        raise RefusedError(UPGRADE_REQUIRED, "there are no WebSockets here; send a POST")
    target, key = split_key(request.raw_path)
    if not _opens(session, request.headers, key):
        tried = key or any(request.headers.get(name, "").removeprefix(before).strip() for name, before in _KEY_HEADERS)
        found = "is not the key of this trial" if tried else "is missing"
        raise RefusedError(401, f"the API key {found}; {_RIGHT_KEY}")
    route = find_route(request.method, target)
    if isinstance(route, NoRoute):
        raise RefusedError(route.status, route.reason)
    return route


def _opens(session: Session, headers: Mapping[str, str], in_query: str) -> bool:
    for name, before in _KEY_HEADERS:
        if (found := headers.get(name)) and session.opens(found.removeprefix(before).strip()):
            return True
    return session.opens(in_query)


def read_request(session: Session, request: web.BaseRequest, route: Route, body: bytes) -> ModelRequest:
    """The request with this body. Raises RefusedError."""
    headers, method, dialect = request.headers, request.method, route.dialect
    if not route.counts:
        return ModelRequest(route.path, method, body=body, headers=headers, trial=session.number)
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"the request is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise RefusedError(400, "the request is not a JSON object")
    if dialect is not None and (paths := DIALECTS[dialect].model_paths) is not None:
        payload = _with_path(payload, route.path, paths)
    if (streamed := payload.get("stream")) is not None and type(streamed) is not bool:
        # Some providers take 1 or "yes" for true; nobody could tell what such an answer is.
        raise RefusedError(400, f"`stream` is {streamed!r:.40}, expected true or false")
    stream = dialect is not None and DIALECTS[dialect].asks_for_stream(payload)
    return ModelRequest(route.path, method, dialect, payload, body, headers, stream, None, session.number)


def _with_path(payload: dict[str, Any], target: str, paths: ModelPaths) -> dict[str, Any]:
    """What a request says in its body, and in its path. Nobody may say one thing here and another there."""
    path = paths.read(target)
    assert path is not None  # noqa: S101 - the route says that it is one
    if (reason := paths.contradiction(payload, path)) is not None:
        raise RefusedError(400, reason)
    return with_path(payload, path)


def read_spooled(session: Session, request: web.BaseRequest, route: Route, spooled: Spooled) -> ModelRequest:
    """The request with a body that is in a file. Raises RefusedError, or OSError."""
    body = spooled.load()
    if body.count(b"[") + body.count(b"{") > _MOST_PARTS:
        raise RefusedError(413, f"the request has more than {_MOST_PARTS:,} brackets")
    spooled.fingerprint = hash(body)
    return read_request(session, request, route, body)._replace(spooled=spooled)


# Connections: how many one trial's agent may have, and when they are closed. Those that are too many wait in the
# kernel, where they take up nothing of ours, until others close: an agent waits for itself only. Descriptors are shared
# out among all listeners of the process in advance, so that no agent can take those of another trial. Should the
# process lack descriptors all the same, the trial that suffers by it has failed by us, unless it holds many connections
# itself: an agent must not be able to choose that.

BACKLOG = 4096
_AT_ONCE = 64
_MODEST = 16  # so many connections are nobody's attack
_RETRY_SEC = 0.1
_SPELL_SEC = 1.0  # without a failure for so long, the next one is another matter
_BUFFER = 2**16
_LINGER_SEC = 2.0
_PER_CONNECTION = 4  # descriptors at most: the connection, the one to the provider, and two files
_GRACE_SEC = 0.1  # for connections nobody uses any more; zero would mean for ever
# What strangers send is no news, and each malformed line would be a traceback in the user's terminal.
_QUIET = logging.Logger("seatrial.gateway", logging.CRITICAL)  # noqa: LOG001 - it is nobody's to configure


class Connections(web.Server):
    """Accepts at a listener, from `start` to `close`. aiohttp tells it of every connection that comes and goes."""

    def __init__(self, session: Session, listener: socket.socket) -> None:
        limits = session.limits
        super().__init__(
            partial(_handle, session, self),
            access_log=None,
            logger=_QUIET,
            keepalive_timeout=limits.idle_sec,
            lingering_time=_LINGER_SEC,
            read_bufsize=_BUFFER,
        )
        self.idle: dict[web.RequestHandler, float] = {}
        """Those that have had an answer and wait for the next request, the longest first."""
        self.reading: dict[web.RequestHandler, float] = {}
        """Those whose request is still coming in, and since when."""
        self.answering: dict[web.RequestHandler, asyncio.Task[Any]] = {}
        """The tasks that answer requests, which may go on for a while when their connection is gone."""
        self.closed = False
        self._party = ExitStack()
        self._session = session
        self._listener = listener
        self._limits = limits
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._joining: set[asyncio.Task[Any]] = set()
        self._unread: dict[web.RequestHandler, tuple[int, float]] = {}
        self._starved_since: float | None = None
        self._starved_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._party.enter_context(taking_part())
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._resume()
        self._sweep()

    async def close(self) -> None:
        """Break off the requests under way; returns when they have ended, and there will be no more."""
        self.closed = True
        for answering in (tasks := list(self.answering.values())):
            answering.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._party.close()
        for timer in filter(None, (self._timer, self._sweeper)):
            timer.cancel()
        self._timer = None  # connections that close from now on make room for no others
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for task in self._joining:
            task.cancel()
        if self._joining:
            await asyncio.wait(self._joining)
        await asyncio.sleep(0)  # what has just come in is told that it is too late
        self.pre_shutdown()
        await self.shutdown(_GRACE_SEC)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        for known in (self._open, self.idle, self.reading, self._unread):
            known.pop(handler, None)
        if (task := self.answering.get(handler)) is not None:
            self._session.waits.agent_left(task)
        if self._timer is not None and self._starved_since is None:
            self._resume()

    def _resume(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop.add_reader(self._listener, self._accept)

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(_RETRY_SEC, self._resume)

    def _accept(self) -> None:
        for count in range(_AT_ONCE):
            if len(self._open) + len(self._joining) >= share(self._limits.connections, _PER_CONNECTION):
                if not count:  # only now it is certain that somebody waits
                    self._make_room()
                return
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._starve(error)
                return
            self._starved_since = None
            self._session.waits.came_late(_waited_sec(connection))
            connection.setblocking(False)
            task = self._loop.create_task(self._loop.connect_accepted_socket(self, connection))
            self._joining.add(task)
            task.add_done_callback(partial(self._joined, connection))

    def _joined(self, connection: socket.socket, task: asyncio.Task[Any]) -> None:
        self._joining.discard(task)
        if task.cancelled() or task.exception() is not None:  # also before it came to do anything
            connection.close()

    def _make_room(self) -> None:
        """Wait for a connection to close: the one that is idle for longest, if there is one, is told to."""
        longest = next(iter(self.idle), None)
        if longest is not None and self._loop.time() - self.idle[longest] >= self._limits.evicted_after_sec:
            del self.idle[longest]
            longest.force_close()
        self._pause()

    def _starve(self, error: OSError) -> None:
        now = self._loop.time()
        if self._starved_since is None or now - self._starved_at > _SPELL_SEC:
            self._starved_since = now
        self._starved_at = now
        if now - self._starved_since >= self._limits.starved_sec and len(self._open) <= _MODEST:
            reason = f"the gateway cannot accept connections: {error.strerror}; raise the limit (ulimit -n)"
            self._session.fail(ListenerError(reason))
        self._pause()

    def _sweep(self) -> None:
        limits, now = self._limits, self._loop.time()
        late = [each for each, since in self.reading.items() if now - since > limits.body_sec]
        for handler in (*late, *self._stalled(now)):
            _reset(self._open[handler])
        every = min(15.0, limits.body_sec / 4, limits.stalled_sec / 4)
        self._sweeper = self._loop.call_later(every, self._sweep)

    def _stalled(self, now: float) -> list[web.RequestHandler]:
        before, self._unread = self._unread, {}
        for handler, transport in self._open.items():
            if size := transport.get_write_buffer_size():
                known = before.get(handler)
                self._unread[handler] = known if known is not None and known[0] == size else (size, now)
        return [each for each, (_, since) in self._unread.items() if now - since > self._limits.stalled_sec]


def _waited_sec(connection: socket.socket) -> float:
    """How long what came in by a connection that was just accepted lay there."""
    if sys.platform != "linux":
        return 0.0
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)
    return int.from_bytes(info[52:56], sys.byteorder) / 1000  # tcpi_last_data_recv


def _reset(transport: asyncio.Transport) -> None:
    """Close at once: the kernel would go on trying to send what nobody reads."""
    with suppress(OSError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


# Serving: from a connection to an answer.


@asynccontextmanager
async def serve(session: Session, listener: socket.socket) -> AsyncIterator[int]:
    """Answer the requests that come in at a listening socket, until the block is left; yields its port.

    Calls that are under way then are broken off; all are written down when this returns.
    """
    port = int(listener.getsockname()[1])
    connections = Connections(session, listener)
    connections.start()
    try:
        yield port
    finally:
        session.waits.closed = True
        await finish(connections.close())


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


async def _handle(session: Session, connections: Connections, request: web.BaseRequest) -> web.StreamResponse:
    if connections.closed:
        raise ConnectionResetError("the gateway is closed")
    task, connection, responder = asyncio.current_task(), request.protocol, _Response(request)
    assert task is not None  # noqa: S101 - a coroutine runs in one
    connections.idle.pop(connection, None)
    connections.answering[connection] = task
    try:
        route = admitted(session, request)
        # Almost every request is here at once. Each await between here and the answer is paid for with every call.
        if (body := _body_here(request)) is not None and session.bodies.fits(len(body)):
            held = Held(session.bodies, body)
        else:
            connections.reading[connection] = monotonic()
            held = await _collected(request, session.bodies, body)
            connections.reading.pop(connection, None)
        del body
        with held:
            if held.spooled is None:
                await carry(session, read_request(session, request, route, held.data), responder)
            else:
                await _carry_spooled(session, held.spooled, route, responder)
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
        del connections.answering[connection]
        if connection.transport is not None:
            connections.idle[connection] = monotonic()
    assert responder.response is not None  # noqa: S101 - every answer has a status
    return responder.response


def _body_here(request: web.BaseRequest) -> bytes | None:
    """The body of a request, if all of it is here."""
    content = request.content
    return content.read_nowait() if content.is_eof() and content.exception() is None else None


async def _collected(request: web.BaseRequest, bodies: Bodies, first: bytes | None) -> Held:
    try:
        bodies.check(request.content_length or 0)
        return await bodies.collect(request.content, await request.content.readany() if first is None else first)
    except (ConnectionError, SpoolError):
        raise
    except BodyTooLargeError as error:
        raise RefusedError(413, str(error)) from None
    except Exception as error:  # noqa: BLE001 - a body that is not in the form its headers say, whatever comes of it
        # Never our failure, or agents could choose not to be counted.
        raise RefusedError(400, f"the body cannot be read: {error}") from None


async def _carry_spooled(session: Session, spooled: Spooled, route: Route, responder: _Response) -> None:
    async with AsyncExitStack() as stack:
        if not takes_files(session.upstream):
            await stack.enter_async_context(session.one_large)
        await carry(session, read_spooled(session, responder.request, route, spooled), responder)


def _refusal(session: Session, request: web.BaseRequest, refused: RefusedError) -> web.Response:
    target, _ = split_key(request.raw_path)
    if refused.status == 401:
        session.locked_out(str(refused))
    elif refused.status != UPGRADE_REQUIRED:  # which is no failure: the agent asks again without
        session.refused(shown(request.method), shown(target), refused.status, str(refused))
    dialect = DIALECTS[error_dialect(target, request.headers)]
    body = orjson.dumps(dialect.error_body(refused.status, "agent", str(refused)))
    return web.Response(status=refused.status, body=body, headers=FINAL)


def listening_socket(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
