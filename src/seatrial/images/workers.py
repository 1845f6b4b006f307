"""Our side of `worker.py`: starts one for one piece of work, and sees it end whatever happens meanwhile."""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from seatrial.concurrency import finish
from seatrial.errors import ImageError, SandboxError
from seatrial.images.layers import LayerFormat
from seatrial.images.locks import settle
from seatrial.sandbox.embedded.id_ranges import granted_range, map_ids
from seatrial.sandbox.embedded.protocol import receive, send
from seatrial.sandbox.embedded.stop_watch import StopWatch

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
