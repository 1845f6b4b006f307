"""The wire between our process and the spawner: one JSON object per packet, with file descriptors beside it."""

import array
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

_MAX_PACKET = 96 * 1024
_MAX_DESCRIPTORS = 16
_CLOEXEC_FLAG = socket.MSG_CMSG_CLOEXEC


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message. One too large for a packet, such as a long environment, travels in a memory file."""
    data = json.dumps(message).encode()
    if len(data) <= _MAX_PACKET:
        _send(connection, data, descriptors)
        return
    carrier = os.memfd_create("message")
    try:
        os.write(carrier, data)
        _send(connection, b"", [*descriptors, carrier])
    finally:
        os.close(carrier)


def _send(connection: socket.socket, data: bytes, descriptors: Sequence[int]) -> None:
    # An empty packet would look like the end of the connection, hence the leading byte.
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    connection.sendmsg([b"m" + data], rights)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors, which are the caller's to close; None when the other side is gone."""
    space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4)
    data, ancillary, _, _ = connection.recvmsg(_MAX_PACKET + 1, space, _CLOEXEC_FLAG)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    if not data:
        return None
    found = list(descriptors)
    if len(data) > 1:
        return json.loads(data[1:]), found
    carrier = found.pop()
    try:
        return json.loads(os.pread(carrier, os.fstat(carrier).st_size, 0)), found
    finally:
        os.close(carrier)
