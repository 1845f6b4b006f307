"""Our end of the wire to the spawner: requests become awaitable, exits of commands become futures.

Nothing is waited for without an end. Once a second, while the spawner owes us something, it is looked at; one that has
stopped or does not answer any more (`watch.py` decides) is killed, and everybody who waits is told.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seatrial.concurrency import finish
from seatrial.descriptors import is_shortage, shortage
from seatrial.errors import ContentError, HostUnsupportedError, SandboxError, TooLargeError
from seatrial.sandbox.embedded.hindrance import find_hindrance
from seatrial.sandbox.embedded.id_ranges import map_ids
from seatrial.sandbox.embedded.protocol import DescriptorsLostError, receive, send
from seatrial.sandbox.embedded.requests import Mode
from seatrial.sandbox.embedded.spawner_process import SpawnerProcess
from seatrial.sandbox.embedded.watch import LOOK_SEC, Watch
from seatrial.sandbox.runs import unusable

_ERRORS = {kind.__name__: kind for kind in (ContentError, TooLargeError)}
_PING = 0  # the number of a request for a sign of life; others count from 1


class SpawnerClient:
    """Starts a spawner and talks to it from one event loop."""

    def __init__(self, mode: Mode, run: Path) -> None:
        self._mode = mode
        self._run = run
        self._connection: socket.socket | None = None
        self._process: SpawnerProcess | None = None
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._exits: dict[str, asyncio.Future[int]] = {}
        self._greeting: asyncio.Future[dict[str, Any]] | None = None
        self.many_users = mode != "user"
        self._numbers = 0
        self._sending = asyncio.Lock()
        self._room: asyncio.Future[None] | None = None
        self._watch = Watch()
        self._next_look: asyncio.TimerHandle | None = None
        self.end: str | None = None
        """How the spawner ended, None as long as it serves."""

    async def start(self) -> None:
        """Start the spawner. Raises HostUnsupportedError when the kernel refuses it, else SandboxError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._connection = ours
        asyncio.get_running_loop().add_reader(ours, self._on_readable)
        try:
            with theirs:
                self._process = SpawnerProcess.start(theirs, self._mode, self._run)
            greeting = await self._next_greeting()
            if "map" in greeting:
                self.many_users = await asyncio.to_thread(map_ids, greeting["map"])
                send(ours, {"mapped": self.many_users})
                greeting = await self._next_greeting()
            if greeting.get("refused"):
                raise HostUnsupportedError(f"{greeting['error']}: {find_hindrance()}")  # noqa: TRY301 - the `except` below ends the process for these too
            if "unusable" in greeting:
                raise unusable(self._run.parent, OSError(greeting["unusable"], greeting["error"]))  # noqa: TRY301 - as above
            if "up" not in greeting:
                raise SandboxError(greeting.get("error", "the sandbox spawner did not start"))  # noqa: TRY301 - the `except` below ends the process for these too
        except BaseException:
            await finish(self.close())
            raise

    async def _next_greeting(self) -> dict[str, Any]:
        self._greeting = asyncio.get_running_loop().create_future()
        self._look_later()
        return await self._greeting

    async def call(
        self, operation: str, descriptors: Sequence[int] = (), *, sent: asyncio.Event | None = None, **fields: Any
    ) -> tuple[dict[str, Any], list[int]]:
        """Carry out one request; returns the answer and its descriptors. Raises SandboxError with the reason.

        `sent` is set once the spawner is sure to carry it out, whatever becomes of us.
        """
        if self._connection is None:
            raise SandboxError(self._gone)
        self._numbers += 1
        number = self._numbers
        async with self._sending:  # one at a time: the event loop knows only one waiter per socket
            await self._send({"id": number, "op": operation, **fields}, descriptors)
        if sent:
            sent.set()
        self._look_later()
        # The answer is not read before the event loop goes on, which is below.
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            answer, passed = await future
        except asyncio.CancelledError:
            # The answer may have come first, but nobody will have it.
            if not future.cancel() and not future.cancelled() and not future.exception():
                _close(future.result()[1])
            raise
        if "error" in answer:
            if operation == "get" and answer.get("kind") in ("FileNotFoundError", "NotADirectoryError"):
                raise FileNotFoundError(answer["error"])
            raise _ERRORS.get(answer.get("kind"), SandboxError)(f"{operation}: {answer['error']}")
        return answer, passed

    async def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        while self._connection is not None:
            try:
                return send(self._connection, message, descriptors)
            except BlockingIOError:
                await self._writable(self._connection)
            except ConnectionError as error:
                raise SandboxError(f"{self._gone}: {error}") from None
            except OSError as error:
                reason = shortage() if is_shortage(error) else error
                raise SandboxError(f"nothing can be sent to the sandbox spawner: {reason}") from None
        raise SandboxError(self._gone)

    @property
    def _gone(self) -> str:
        return self.end or "the sandbox spawner is gone"

    async def _writable(self, connection: socket.socket) -> None:
        """Wait until there is room, or until there will never be any again."""
        loop = asyncio.get_running_loop()
        self._room = loop.create_future()
        self._look_later()
        loop.add_writer(connection, _settle, self._room)
        try:
            await self._room
        finally:
            if connection is self._connection:
                loop.remove_writer(connection)

    def expect_exit(self, token: str) -> asyncio.Future[int]:
        """A future for the exit code of the command started under `token`."""
        future = self._exits[token] = asyncio.get_running_loop().create_future()
        self._look_later()
        return future

    def forget_exit(self, token: str) -> None:
        """Nobody waits for that command any more."""
        self._exits.pop(token, None)

    def _on_readable(self) -> None:
        assert self._connection is not None  # noqa: S101 - the reader is removed before the connection is
        while True:
            try:
                received = receive(self._connection)
            except BlockingIOError:
                return
            except DescriptorsLostError as error:
                self._dispatch({**error.message, "error": str(error)}, [])
                continue
            except OSError:
                received = None
            if received is None:
                self._on_end("ended unexpectedly: killed from outside, or by the kernel out of memory (see `dmesg`)")
                return
            self._dispatch(*received)

    def _dispatch(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self._watch.heard()
        if "exit" in message:
            self._note_exit(message)
        elif "id" in message:
            answer = self._answers.pop(message["id"], None)
            if answer is None or answer.cancelled():
                _close(descriptors)
            else:
                answer.set_result((message, descriptors))
        elif "spawner" in message and self._process:
            self._process.introduce(message["spawner"])
        elif self._greeting and not self._greeting.done():
            self._greeting.set_result(message)

    def _note_exit(self, message: dict[str, Any]) -> None:
        exited = self._exits.pop(message["exit"], None)
        if exited is None or exited.done():
            return
        if lost := message.get("lost"):
            exited.set_exception(SandboxError(lost))
            exited.exception()
        else:
            exited.set_result(message["code"])

    def _look_later(self) -> None:
        """See to it that the spawner is looked at while somebody waits for it."""
        if self._next_look is None and self._connection is not None:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_SEC, self._look)

    def _look(self) -> None:
        self._next_look = None
        if self._connection is None or self._process is None or not self._waiting():
            return
        if reason := self._watch.note(self._process.look()):
            self._process.kill()
            self._on_end(f"{reason}, and was ended")
            return
        if self._watch.wants_a_sign:
            with contextlib.suppress(OSError):  # no room for it: then it is being asked enough already
                send(self._connection, {"id": _PING, "op": "ping"})
        self._look_later()

    def _waiting(self) -> list["asyncio.Future[Any]"]:
        """What the spawner owes us."""
        single = [future for future in (self._greeting, self._room) if future]
        return [future for future in (*self._answers.values(), *self._exits.values(), *single) if not future.done()]

    def _on_end(self, how: str) -> None:
        """The spawner is gone and every sandbox with it: whoever waits for something learns so."""
        self._let_go()
        pid = f", process {self._process.pid}," if self._process else ""
        self.end = f"the sandbox spawner{pid} {how}"
        for future in self._waiting():
            future.set_exception(SandboxError(self.end))
            future.exception()  # seen: whoever was waiting may have been cancelled meanwhile
        self._answers.clear()
        self._exits.clear()

    def _let_go(self) -> None:
        """Close our end."""
        if self._connection is None:
            return
        if self._next_look:
            self._next_look.cancel()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._connection)
        loop.remove_writer(self._connection)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._connection = None
        if self._room is not None:
            _settle(self._room)

    async def close(self) -> None:
        """End the spawner and everything it runs; returns when its process is gone. Raises SandboxError."""
        self._let_go()
        if self._process is not None:
            process, self._process = self._process, None
            await process.end()


def _settle(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _close(descriptors: Iterable[int]) -> None:
    """Let go of what came with an answer that nobody waits for any more."""
    for descriptor in descriptors:
        os.close(descriptor)
