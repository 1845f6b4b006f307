"""Reaching into a container on this machine: a socket that listens there, and folders that another container shares.

A socket belongs for ever to the network it was made in, and that is chosen per thread, as is whose files are seen. As
root, a thread moves into the container, does its work and ends; without root, a second container makes the socket.
"""

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import ESRCH
from itertools import islice
from pathlib import Path
from typing import TypeVar

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.division import Test
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.container import remove_container
from seatrial.untrusted.files import FOLDER

BACKLOG = 4096
_MOST_SHARED = 100
_TEMPORARY = "var/tmp"

T = TypeVar("T")
FindProcess = Callable[[], int | None]
"""Finds the first process of a container; None where it is not on this machine, or has ended."""


def may_enter() -> bool:
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


# Without root: a second container visits the network, on a daemon of this machine. It shares that network and nothing
# else, runs our own Python as ourselves, makes the socket, hands it over by a unix socket in our directory, and ends.

_PROGRAM = f"""
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])), backlog={BACKLOG})
with socket.socket(socket.AF_UNIX) as home:
    home.connect(sys.argv[1])
    socket.send_fds(home, [b"x"], [listener.fileno()])
"""
_TIMEOUT_SEC = 60.0
# What a program needs besides its own files: loaders, libraries, and where to find them.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc")


@dataclass(frozen=True, slots=True)
class HelperContainer:
    """A container that goes into the network of another: whose, of which image, and where the socket is handed over."""

    container: str
    image: str
    folder: Path
    labels: Mapping[str, str]


async def listen_by_helper(client: EngineClient, helper: HelperContainer, port: int) -> socket.socket:
    """A listener on 127.0.0.1:`port` in the network of a container. Raises SandboxError with its words."""
    name = f"{helper.container}-visitor-{secrets.token_hex(4)}"
    door = helper.folder / secrets.token_hex(4)
    with socket.socket(socket.AF_UNIX) as home:
        home.bind(str(door))
        home.listen(1)
        home.setblocking(False)
        try:
            async with asyncio.timeout(_TIMEOUT_SEC):
                said = await _send_out(client, name, _request(helper, door, port))
            connection, _ = home.accept()
        except TimeoutError:
            raise SandboxError(
                f"the process that was to listen on 127.0.0.1:{port} in the container did not answer"
            ) from None
        except BlockingIOError:
            reason = said.strip().rpartition("\n")[2] or "it ended without a word"
            raise SandboxError(f"cannot listen on 127.0.0.1:{port} in the container: {reason}") from None
        finally:
            door.unlink(missing_ok=True)
            await finish(remove_container(client, name))
    with connection:
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    return listener


async def _send_out(client: EngineClient, name: str, order: dict[str, object]) -> str:
    """Run a container to its end; returns what it said."""
    await client.ask("POST", "/containers/create", order, name=name)
    stream = await client.stream(f"/containers/{name}/attach", stream="1", stdout="1", stderr="1")
    try:
        await client.ask("POST", f"/containers/{name}/start")
        return b"".join([data async for _, data in stream.outputs()]).decode(errors="replace")
    finally:
        await finish(stream.close())


def _request(helper: HelperContainer, door: Path, port: int) -> dict[str, object]:
    python, files = os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix)
    folders = [*(path for path in _SYSTEM if Path(path).is_dir()), files]
    return {
        "Image": helper.image,
        "Entrypoint": [python, "-I", "-S", "-c", _PROGRAM, str(door), str(port)],
        "Cmd": [],
        "User": f"{os.getuid()}:{os.getgid()}",
        "WorkingDir": "/",
        "Labels": dict(helper.labels),
        **dict.fromkeys(("AttachStdout", "AttachStderr"), True),
        "HostConfig": {
            "NetworkMode": f"container:{helper.container}",
            "LogConfig": {"Type": "none"},
            "CapDrop": ["ALL"],
            "SecurityOpt": ["label=disable"],
            "Binds": [*(f"{path}:{path}:ro" for path in dict.fromkeys(folders)), f"{helper.folder}:{helper.folder}"],
        },
    }
