"""Our end of the wire to the spawner: requests become awaitable, exits of commands become futures."""

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seatrial.concurrency import finish
from seatrial.errors import ContentError, HostUnsupportedError, SandboxError, TooLargeError
from seatrial.sandbox.embedded.hindrance import find_hindrance
from seatrial.sandbox.embedded.protocol import receive, send
from seatrial.sandbox.embedded.requests import Mode

_ERRORS = {kind.__name__: kind for kind in (ContentError, TooLargeError)}


class SpawnerClient:
    """Starts a spawner and talks to it from one event loop."""

    def __init__(self, mode: Mode, run: Path) -> None:
        self._mode = mode
        self._run = run
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._exits: dict[str, asyncio.Future[int]] = {}
        self._greeting: asyncio.Future[dict[str, Any]] | None = None
        self.many_users = mode != "user"
        self._numbers = 0
        self._sending = asyncio.Lock()
        self._room: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Start the spawner. Raises HostUnsupportedError when the kernel refuses it, else SandboxError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        module = ["-I", "-m", "seatrial.sandbox.embedded"]
        place = [str(self._run.parent), self._run.name]
        command = [sys.executable, *module, "first", str(theirs.fileno()), self._mode, *place]
        with theirs:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own interpreter; asyncio's would need a watcher
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        ours.setblocking(False)  # noqa: FBT003
        self._connection = ours
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, self._on_readable)
        try:
            greeting = await self._next_greeting()
            if "map" in greeting:
                self.many_users = await asyncio.to_thread(map_ids, greeting["map"])
                send(ours, {"mapped": self.many_users})
                greeting = await self._next_greeting()
            if greeting.get("refused"):
                raise HostUnsupportedError(f"{greeting['error']}: {find_hindrance()}")  # noqa: TRY301
            if "up" not in greeting:
                raise SandboxError(greeting.get("error", "the sandbox spawner did not start"))  # noqa: TRY301
        except BaseException:
            await finish(self.close())
            raise

    async def _next_greeting(self) -> dict[str, Any]:
        self._greeting = asyncio.get_running_loop().create_future()
        return await self._greeting

    async def call(
        self, operation: str, descriptors: Sequence[int] = (), *, sent: asyncio.Event | None = None, **fields: Any
    ) -> tuple[dict[str, Any], list[int]]:
        """Carry out one request; returns the answer and its descriptors. Raises SandboxError with the reason.

        `sent` is set once the spawner is sure to carry it out, whatever becomes of us.
        """
        if self._connection is None:
            raise SandboxError("the sandbox spawner is gone")
        self._numbers += 1
        number = self._numbers
        async with self._sending:  # one at a time: the event loop knows only one waiter per socket
            await self._send({"id": number, "op": operation, **fields}, descriptors)
        if sent:
            sent.set()
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
            except OSError as error:
                raise SandboxError(f"the sandbox spawner is gone: {error}") from None
        raise SandboxError("the sandbox spawner is gone")

    async def _writable(self, connection: socket.socket) -> None:
        """Wait until there is room, or until there will never be any again."""
        loop = asyncio.get_running_loop()
        self._room = loop.create_future()
        loop.add_writer(connection, _settle, self._room)
        try:
            await self._room
        finally:
            if connection is self._connection:
                loop.remove_writer(connection)

    def expect_exit(self, token: str) -> asyncio.Future[int]:
        """A future for the exit code of the command started under `token`."""
        future = self._exits[token] = asyncio.get_running_loop().create_future()
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
            except OSError:
                received = None
            if received is None:
                self._on_end()
                return
            self._dispatch(*received)

    def _dispatch(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if "exit" in message:
            exited = self._exits.pop(message["exit"], None)
            if exited and not exited.done():
                exited.set_result(message["code"])
        elif "id" in message:
            answer = self._answers.pop(message["id"])
            if answer.cancelled():
                _close(descriptors)
            else:
                answer.set_result((message, descriptors))
        elif self._greeting and not self._greeting.done():
            self._greeting.set_result(message)

    def _on_end(self) -> None:
        """The spawner is gone and every sandbox with it: whoever waits for something learns so."""
        self._let_go()
        lost = SandboxError("the sandbox spawner ended unexpectedly")
        waiting: list[asyncio.Future[Any]] = [*self._answers.values(), *self._exits.values()]
        for future in [*waiting, *([self._greeting] if self._greeting else [])]:
            if not future.done():
                future.set_exception(lost)
                future.exception()  # seen: whoever was waiting may have been cancelled meanwhile
        self._answers.clear()
        self._exits.clear()

    def _let_go(self) -> None:
        """Close our end; the spawner ends itself when it notices, if it still can."""
        if self._connection is None:
            return
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
        """End the spawner and everything it runs; returns when its process is gone."""
        self._let_go()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
            self._process = None


def _settle(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _close(descriptors: Iterable[int]) -> None:
    """Let go of what came with an answer that nobody waits for any more."""
    for descriptor in descriptors:
        os.close(descriptor)


def map_ids(pid: int) -> bool:
    """Give a user namespace the id range /etc/subuid grants us, by the helpers made for it; False when it cannot be."""
    name, uid = pwd.getpwuid(os.getuid()).pw_name, os.getuid()
    for helper, table, own in (("newuidmap", "/etc/subuid", uid), ("newgidmap", "/etc/subgid", os.getgid())):
        program, granted = shutil.which(helper), granted_range(table, name, uid)
        if program is None or granted is None:
            return False
        done = subprocess.run(  # noqa: S603 - a system helper, by its full path
            [program, str(pid), "0", str(own), "1", "1", *granted], check=False, capture_output=True
        )
        if done.returncode != 0:
            return False
    return True


def granted_range(table: str, name: str, uid: int) -> tuple[str, str] | None:
    """Where the ids start that a table grants a user, and how many they are."""
    try:
        lines = Path(table).read_text().splitlines()
    except OSError:
        return None
    rows = [line.split(":") for line in lines if line.count(":") == 2]
    return next(((start, count) for owner, start, count in rows if owner in (name, str(uid))), None)
