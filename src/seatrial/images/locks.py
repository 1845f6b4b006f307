"""Work on the store that is done once however many want it, and the child process that has the right to do it.

A lock is on a file with a name, for this process and all others. `worker.py` is what the child runs.
"""

import asyncio
import fcntl
import hashlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from seatrial.concurrency import finish
from seatrial.errors import ImageError, SandboxError
from seatrial.images.layers import LayerFormat
from seatrial.sandbox.embedded.client import StopWatch, granted_range, map_ids
from seatrial.sandbox.embedded.protocol import receive, send


class WorkLocks:
    """Locks by name. They end with the process that holds them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._here: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Be the only one to work on something. Whoever waited should look first whether it is done."""
        here = self._here.setdefault(name, asyncio.Lock())
        path = self._folder / hashlib.sha256(name.encode()).hexdigest()[:32]  # names may be longer than a file's
        async with here:
            descriptor = await _lock(path)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)  # those who wait notice that it is not the same file any more
                os.close(descriptor)


async def _lock(path: Path) -> int:
    """A locked descriptor of the file that has this name now."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await _wait_for(descriptor)
        if _is_named(descriptor, path):
            return descriptor
        os.close(descriptor)


async def _wait_for(descriptor: int) -> None:
    """Wait for a lock in a thread of its own, which nobody has to wait for when we are cancelled."""
    loop = asyncio.get_running_loop()
    locked: asyncio.Future[None] = loop.create_future()
    duplicate = os.dup(descriptor)

    def wait() -> None:
        fcntl.flock(duplicate, fcntl.LOCK_EX)
        os.close(duplicate)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, locked)

    threading.Thread(target=wait, daemon=True).start()
    try:
        await locked
    except BaseException:
        os.close(descriptor)
        raise


def settle(waiting: "asyncio.Future[None]") -> None:
    """Wake up whoever waits, if anybody still does."""
    if not waiting.done():
        waiting.set_result(None)


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


# Our side of `worker.py`: one process for one piece of work, which ends whatever happens meanwhile.

_COMMAND = [sys.executable, "-I", "-m", "seatrial.images.worker"]


def manner_here() -> LayerFormat:
    """How layers have to be on this machine, for this user."""
    if os.geteuid() == 0:
        return LayerFormat("kept", "trusted")
    user = pwd.getpwuid(os.getuid())
    tables = (("newuidmap", "/etc/subuid"), ("newgidmap", "/etc/subgid"))
    mapped = all(shutil.which(program) and granted_range(table, user.pw_name, user.pw_uid) for program, table in tables)
    return LayerFormat("kept" if mapped else "squashed", "user")


async def remove_trees(*paths: Path) -> None:
    """Remove directories, whoever owns what is in them. Raises ImageError."""
    if paths:
        await run_worker({"op": "remove", "paths": [str(path) for path in paths]})


async def run_worker(
    message: dict[str, Any], descriptors: Sequence[int] = (), on_read: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Have one thing done; `on_read` hears how many bytes of its source have been read.

    Raises ImageError, and SandboxError when the worker is killed.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own interpreter, passing a descriptor
                [*_COMMAND, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        ours.setblocking(False)
        try:
            with StopWatch(process.pid, process.kill):
                answer = None
                with suppress(BrokenPipeError):  # it was gone before it got its order
                    answer = await _converse(ours, message, descriptors, on_read)
                status = await asyncio.to_thread(process.wait)
        except BaseException:
            process.kill()
            await finish(asyncio.to_thread(process.wait))
            raise
    if answer is None and status == 0:
        return {}
    if answer is None and status < 0:
        # Not an ImageError: nothing is wrong with the image.
        raise SandboxError(
            f"{message['op']}: the process that handles layers of images was killed by signal {-status}: from outside, "
            "by the kernel out of memory (see `dmesg`), or by us because it had been stopped"
        )
    if answer is None:
        raise ImageError(f"{message['op']}: the worker ended with {status}; its words are above")
    if "error" in answer:
        raise ImageError(answer["error"])
    return answer


async def _converse(
    control: socket.socket, message: dict[str, Any], descriptors: Sequence[int], on_read: Callable[[int], None] | None
) -> dict[str, Any] | None:
    """Give the order once the worker is ready; returns its answer, None when it ends without one."""
    if os.geteuid() == 0:
        send(control, message, descriptors)
    while True:
        received = await _next_message(control)
        if received is None:
            return None
        if "map" in received:
            mapped = await asyncio.to_thread(map_ids, received["map"])
            if not mapped and manner_here().owners == "kept":
                raise ImageError("newuidmap or newgidmap refused the ids of /etc/subuid; `seatrial doctor` tells more")
            send(control, {"mapped": mapped})
            send(control, message, descriptors)
        elif "read" in received:
            if on_read:
                on_read(received["read"])
        else:
            return received


async def _next_message(control: socket.socket) -> dict[str, Any] | None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            received = receive(control)
        except BlockingIOError:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(control, settle, ready)
            try:
                await ready
            finally:
                loop.remove_reader(control)
        except ConnectionResetError:
            return None
        else:
            return received[0] if received else None
