"""The wire between our process and the spawner: one JSON object per packet, with file descriptors beside it."""

import array
import errno
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

from seatrial.descriptors import shortage

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
