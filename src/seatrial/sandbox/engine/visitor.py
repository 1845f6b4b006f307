"""A listener inside a container for whoever may not enter its network: another container goes there for us.

It shares that network and nothing else, runs our own Python from the host's files as ourselves, makes the socket, hands
it over by a unix socket in our directory, and ends. So it takes a daemon on this very machine, but not root.
"""

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.entering import BACKLOG
from seatrial.sandbox.engine.leftovers import remove_container

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
class Visit:
    """Whom to visit, in which image, and where the socket is handed over."""

    container: str
    image: str
    folder: Path
    labels: Mapping[str, str]


async def listen_by_visit(client: EngineClient, visit: Visit, port: int) -> socket.socket:
    """A listener on 127.0.0.1:`port` in the network of a container. Raises SandboxError with the visitor's words."""
    name = f"{visit.container}-visitor-{secrets.token_hex(4)}"
    door = visit.folder / secrets.token_hex(4)
    with socket.socket(socket.AF_UNIX) as home:
        home.bind(str(door))
        home.listen(1)
        home.setblocking(False)
        try:
            async with asyncio.timeout(_TIMEOUT_SEC):
                said = await _send_out(client, name, _order(visit, door, port))
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


def _order(visit: Visit, door: Path, port: int) -> dict[str, object]:
    python, files = os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix)
    folders = [*(path for path in _SYSTEM if Path(path).is_dir()), files]
    return {
        "Image": visit.image,
        "Entrypoint": [python, "-I", "-S", "-c", _PROGRAM, str(door), str(port)],
        "Cmd": [],
        "User": f"{os.getuid()}:{os.getgid()}",
        "WorkingDir": "/",
        "Labels": dict(visit.labels),
        **dict.fromkeys(("AttachStdout", "AttachStderr"), True),
        "HostConfig": {
            "NetworkMode": f"container:{visit.container}",
            "LogConfig": {"Type": "none"},
            "CapDrop": ["ALL"],
            "SecurityOpt": ["label=disable"],
            "Binds": [*(f"{path}:{path}:ro" for path in dict.fromkeys(folders)), f"{visit.folder}:{visit.folder}"],
        },
    }
