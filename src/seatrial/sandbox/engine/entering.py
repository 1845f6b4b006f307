"""What takes a thread inside of a container: a socket that listens there, and folders that another container shares.

A socket belongs for ever to the network it was made in, and that is chosen per thread, as is whose files are seen: a
thread that moves into the container does its work and ends. It takes root, and a container on this very machine.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from errno import ESRCH
from itertools import islice
from pathlib import Path
from typing import TypeVar

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.division import Test
from seatrial.sandbox.overlay_walk import FOLDER

BACKLOG = 4096
_MOST_SHARED = 100
_TEMPORARY = "var/tmp"

T = TypeVar("T")
FindProcess = Callable[[], int | None]
"""Finds the first process of a container; None where it is not on this machine, or has ended."""


def may_enter() -> bool:
    """Whether we may enter networks of others at all."""
    return os.geteuid() == 0


async def listen(pid: int, port: int) -> socket.socket:
    """A listener on 127.0.0.1:`port` in the network of a process of this machine."""
    return await _in_thread(_listen, pid, port)


async def share_folders(find: FindProcess, find_other: FindProcess, parts: Mapping[str, Test], workdir: str) -> None:
    """Show one container the folders of another one where services keep sockets, logs and data.

    These are `/run` and what is in `/var`, but for `parts` of the system, the `workdir` and temporary files. Raises
    SandboxError.
    """
    await _in_thread(_share_folders, find, find_other, parts, workdir)


async def _in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Do something in a thread of its own, that goes afterwards."""
    threads = ThreadPoolExecutor(1, "seatrial-enter")
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)
    finally:
        threads.shutdown(wait=False)


def _share_folders(find: FindProcess, find_other: FindProcess, parts: Mapping[str, Test], workdir: str) -> None:
    from seatrial.sandbox import syscalls  # noqa: PLC0415 - only Linux has them

    try:
        with ExitStack() as opened:
            there, here = (opened.enter_context(_mounts_of(each)) for each in (find_other, find))
            # From here on nothing may be imported: it would be the container's.
            syscalls.unshare(syscalls.CLONE_FS)
            syscalls.setns(there, syscalls.CLONE_NEWNS)
            trees: dict[str, int] = {}
            for path in islice(_places(parts, workdir), _MOST_SHARED):
                with suppress(OSError), _folder(path) as folder:
                    trees[path] = syscalls.clone_mounts(folder)
                    opened.callback(os.close, trees[path])
            syscalls.setns(here, syscalls.CLONE_NEWNS)
            for path, tree in trees.items():
                with suppress(OSError), _folder(path) as folder:
                    syscalls.attach_mounts(tree, folder)
    except OSError as error:
        raise SandboxError(f"folders of services cannot be shared: {error}") from error


@contextmanager
def _mounts_of(find: FindProcess) -> Iterator[int]:
    """The mount namespace of a container, by its first process, whose number may be another's the moment it ends."""
    pid = find()
    with Path(f"/proc/{pid}/ns/mnt").open("rb") as file:
        if pid is None or find() != pid:
            raise ProcessLookupError(ESRCH, "the container's first process is not there")
        yield file.fileno()


def _places(parts: Mapping[str, Test], workdir: str) -> Iterator[str]:
    """The folders of `/var` that are neither the system's nor on the way to the workdir, and `/run`."""
    left = ["run", "var"]
    while left:
        path = left.pop()
        if path in parts:
            names: list[str] = []
            with suppress(OSError), _folder(path) as folder, os.scandir(folder) as entries:
                names += [each.name for each in entries if each.is_dir(follow_symlinks=False)]
            left += [f"{path}/{name}" for name in names if not parts[path](name)]
        elif path != _TEMPORARY and not f"{workdir}/".startswith(f"/{path}/"):
            yield path


@contextmanager
def _folder(path: str) -> Iterator[int]:
    """A folder by its path from the root, in which no link is followed: an agent may have put one in place of any."""
    descriptor = os.open("/", FOLDER)
    try:
        for name in path.split("/"):
            above, descriptor = descriptor, os.open(name, FOLDER, dir_fd=descriptor)
            os.close(above)
        yield descriptor
    finally:
        os.close(descriptor)


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
