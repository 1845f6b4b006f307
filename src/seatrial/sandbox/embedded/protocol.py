"""The wire between our process and the spawner: one JSON object per packet, with file descriptors beside it."""

import array
import errno
import json
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from seatrial.descriptors import shortage
from seatrial.sandbox.syscalls import close_range

_MAX_PACKET = 96 * 1024
_MAX_DESCRIPTORS = 16
_CLOEXEC_FLAG = socket.MSG_CMSG_CLOEXEC
# An empty packet would look like the end of the connection, hence a leading byte.
_WHOLE, _IN_A_FILE = b"m", b"f"


class DescriptorsLostError(OSError):
    """A message came, but there was no room for its descriptors; `message` is what is known of it."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.message = message
        super().__init__(errno.EMFILE, shortage(f"process {os.getpid()}"))


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message. One too large for a packet, such as a long environment, travels in a memory file."""
    data = json.dumps(message).encode()
    if len(data) <= _MAX_PACKET:
        _send(connection, _WHOLE + data, descriptors)
        return
    # Whoever cannot take the file still learns which request it is that cannot be read.
    envelope = json.dumps({"id": message["id"]} if "id" in message else {}).encode()
    carrier = os.memfd_create("message")
    try:
        os.write(carrier, data)
        _send(connection, _IN_A_FILE + envelope, [*descriptors, carrier])
    finally:
        os.close(carrier)


def _send(connection: socket.socket, data: bytes, descriptors: Sequence[int]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    connection.sendmsg([data], rights)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors, which are the caller's to close; None when the other side is gone.

    Raises DescriptorsLostError when this process cannot have any more of them.
    """
    space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4)
    data, ancillary, flags, _ = connection.recvmsg(_MAX_PACKET + 1, space, _CLOEXEC_FLAG)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    if not data:
        return None
    message, found = json.loads(data[1:]), list(descriptors)
    if flags & socket.MSG_CTRUNC:
        for descriptor in found:
            os.close(descriptor)
        raise DescriptorsLostError(message)
    if data[:1] == _WHOLE:
        return message, found
    carrier = found.pop()
    try:
        return json.loads(os.pread(carrier, os.fstat(carrier).st_size, 0)), found
    finally:
        os.close(carrier)


# Requests, as types on both sides of the wire. Named tuples here and wherever the spawner looks: dataclasses would
# bring `inspect`, and with it memory that the kernel has to go through at every fork.

Mode = Literal["root", "userns", "user"]
"""`root`: the host's root inside; `userns`: root, shifted into a user namespace; `user`: an ordinary user."""

Request = TypeVar("Request")


class Box(NamedTuple):
    """A sandbox to make: where its files go and what its root is made of."""

    name: str
    state: str
    base: str
    layers: list[str]
    hostname: str
    workdir: str
    system_folders: list[str]
    disk: str | None  # "tmpfs:SIZE_MB" or "loop:IMAGE_PATH"


class CommandRequest(NamedTuple):
    """A command to run.

    Its standard descriptors travel beside it, then one of an archive to `unpack` there, then the two of a `watch`.
    """

    name: str
    token: str
    phase: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    user: str | int | None
    host_network: bool
    join: list[str]
    remember: bool
    unpack: str | None = None
    watch: bool = False


class Transfer(NamedTuple):
    """An archive to unpack or to fill; its descriptor travels beside it."""

    name: str
    phase: str
    path: str
    limit: int = 0
    manner: Literal["files", "layer"] = "files"


class Target(NamedTuple):
    """A sandbox by name, and whatever one more word an operation needs."""

    name: str = ""
    phase: str = "agent"
    port: int = 0
    path: str = ""
    system: str = "live"


def decode(kind: type[Request], message: dict[str, Any]) -> Request:
    """The typed request in a message; the fields of the envelope are left out."""
    return kind(**{key: value for key, value in message.items() if key not in ("id", "op")})


# What a forked child has inherited must be closed: any path that the agent turns into a link to /proc/self/fd/N would
# lead through it, out of the sandbox.


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor but the three standard ones and those in `keep`."""
    first = 3
    for descriptor in sorted(set(keep)):
        if descriptor >= first:
            if descriptor > first:
                close_range(first, descriptor - 1)
            first = descriptor + 1
    close_range(first, 2**32 - 1)
