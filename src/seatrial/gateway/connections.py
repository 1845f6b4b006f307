"""The connections of one trial's agent: how many there may be, and when they are closed.

Those that are too many wait in the kernel, where they take up nothing of ours, until others close: an agent waits for
itself only. Descriptors are shared out among all listeners of the process in advance, so that no agent can take those
of another trial. Should the process lack descriptors all the same, the trial that suffers by it has failed by us,
unless it holds many connections itself: an agent must not be able to choose that.
"""

import asyncio
import logging
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from aiohttp import web

from seatrial.descriptors import share, taking_part
from seatrial.errors import ProviderError
from seatrial.gateway.session import Session

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


Answerer = Callable[["Connections", web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections(web.Server):
    """Accepts at a listener, from `start` to `close`. aiohttp tells it of every connection that comes and goes."""

    def __init__(self, answer: Answerer, session: Session, listener: socket.socket) -> None:
        limits = session.limits
        super().__init__(
            partial(answer, self),
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
        """The tasks that answer requests."""
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
        """Begin to accept."""
        self._party.enter_context(taking_part())
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._resume()
        self._sweep()

    async def close(self) -> None:
        """Accept no more, and close what is open."""
        self._party.close()
        for timer in filter(None, (self._timer, self._sweeper)):
            timer.cancel()
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
        """See web.Server."""
        super().connection_made(handler, transport)
        self._open[handler] = transport

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """See web.Server."""
        super().connection_lost(handler, exc)
        for known in (self._open, self.idle, self.reading, self._unread):
            known.pop(handler, None)
        if (task := self.answering.pop(handler, None)) is not None:
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
            task = self._loop.create_task(self._join(connection))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self, connection)
        except BaseException:
            connection.close()
            raise

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
            self._session.fail(ProviderError(reason))
        self._pause()

    def _sweep(self) -> None:
        """Cut off who sends or reads too slowly."""
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
