"""A socket that listens inside a container's network and is accepted out here.

A socket belongs for ever to the network it was made in, and that is chosen per thread: a thread that moves into the
container's network makes one and ends. It takes root, and a container on this very machine.
"""

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor

from seatrial.errors import HostUnsupportedError, SandboxError

BACKLOG = 4096


def may_enter() -> bool:
    """Whether we may enter networks of others at all."""
    return os.geteuid() == 0


async def listen(pid: int, port: int) -> socket.socket:
    """A listener on 127.0.0.1:`port` in the network of a process of this machine."""
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(1, "seatrial-listen")  # a thread of its own, that goes afterwards
    try:
        return await loop.run_in_executor(threads, _listen, pid, port)
    finally:
        threads.shutdown(wait=False)


def _listen(pid: int, port: int) -> socket.socket:
    from seatrial.sandbox.syscalls import CLONE_NEWNET, setns  # noqa: PLC0415 - only Linux has them

    try:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HostUnsupportedError(f"the network of the container cannot be entered: {error}") from error
    try:
        setns(descriptor, CLONE_NEWNET)
        listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except OSError as error:
        raise SandboxError(f"cannot listen on 127.0.0.1:{port} in the container: {error}") from error
    finally:
        os.close(descriptor)
    listener.setblocking(False)
    return listener
