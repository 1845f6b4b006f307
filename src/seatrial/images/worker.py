"""A child that handles layers with the right to: `python -m seatrial.images.worker CONTROL_FD`.

As an ordinary user it is root of a user namespace, so that files can have the owners they have in the image and be
removed again. It does what it is asked for once, answers and ends.
"""

import hashlib
import io
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, NoReturn, cast

import zstandard

from seatrial.errors import ImageError, SandboxError
from seatrial.images.layers import BROKEN, LayerBounds, LayerFormat, open_compressed, unpack_layer
from seatrial.sandbox.archives import write_tar
from seatrial.sandbox.embedded.files import removal
from seatrial.sandbox.embedded.protocol import receive, send
from seatrial.sandbox.layers import LayerWriter
from seatrial.sandbox.syscalls import PR_SET_PDEATHSIG, prctl

_MEMORY = 2 * 2**30
_CHUNK = 2**20
_TELL_EVERY = 4 * 2**20
_LEVEL = 1  # networks of clusters are fast: more would cost more than it saves


class _Source(io.RawIOBase):
    """A file that tells how far it has been read."""

    def __init__(self, descriptor: int, size: int | None, tell: Callable[[int], None]) -> None:
        self._descriptor = descriptor
        self._left = sys.maxsize if size is None else size
        self._tell = tell
        self._read = self._told = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = os.readv(self._descriptor, [memoryview(buffer)[: self._left]])
        self._left -= count
        self._read += count
        if self._read - self._told >= _TELL_EVERY or not count:
            self._told = self._read
            self._tell(self._read)
        return count


class _Hashing:
    """Hashes what passes, and stops what never ends."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = stream
        self._left = limit
        self._hash = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._stream.read(size)
        self._hash.update(chunk)
        self._left -= len(chunk)
        if self._left < 0:
            raise ImageError("the archive unpacks to more than any image has")
        return chunk

    def digest_of_all(self) -> str:
        """The digest, after whatever follows the end of the archive."""
        while self.read(_CHUNK):
            pass
        return f"sha256:{self._hash.hexdigest()}"


def _unpack(message: dict[str, Any], descriptors: list[int], tell: Callable[[int], None]) -> dict[str, Any]:
    source, target = descriptors
    bounds = LayerBounds(*message["bounds"])
    os.fchdir(target)
    os.chroot(".")
    os.close(target)
    try:
        stream = open_compressed(io.BufferedReader(_Source(source, message["size"], tell), 2**18))
        hashing = _Hashing(stream, 2 * bounds.max_bytes)
        unpacked = unpack_layer(hashing, LayerFormat(*message["manner"]), bounds)  # type: ignore[arg-type] # it only reads
        return {"diff_id": hashing.digest_of_all(), **unpacked._asdict()}
    except (OSError, ValueError, *BROKEN) as error:
        raise ImageError(f"the archive cannot be read: {error}") from error


class _HashingWriter:
    """Hashes what passes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def write(self, chunk: bytes, /) -> int:
        self._hash.update(chunk)
        return self._stream.write(chunk)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _pack(message: dict[str, Any], descriptors: list[int], _: Callable[[int], None]) -> dict[str, Any]:
    """Pack a layer as another store takes it. The archive is not the one that it once came in, nor is its digest."""
    source, target = descriptors
    os.fchdir(source)
    os.chroot(".")
    os.close(source)
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    with os.fdopen(target, "wb") as file, compressor.stream_writer(file, closefd=False) as writer:
        hashing = _HashingWriter(cast(IO[bytes], writer))
        with write_tar(cast(IO[bytes], hashing), "w|") as tar:
            layer = LayerWriter(tar)
            layer.add(".", "/", os.lstat("/"))
            if message["hides_below"]:
                layer.hide_below()
            layer.add_below("/")
    return {"digest": hashing.digest}


def _measure(_: dict[str, Any], descriptors: list[int], __: Callable[[int], None]) -> dict[str, Any]:
    size = entries = 0
    os.fchdir(descriptors[0])
    for folder, folders, files in os.walk("."):
        entries += len(folders) + len(files)
        size += sum(os.lstat(f"{folder}/{name}").st_size for name in files)
    return {"size": size, "entries": entries}


def _remove(message: dict[str, Any], _: list[int], __: Callable[[int], None]) -> NoReturn:
    command = removal(*message["paths"])
    os.execv(command[0], command)  # noqa: S606 - a program of the system


_WORK: dict[str, Callable[[dict[str, Any], list[int], Callable[[int], None]], dict[str, Any]]] = {
    "unpack": _unpack,
    "pack": _pack,
    "measure": _measure,
    "remove": _remove,
}


def _bound_memory() -> None:
    """The headers of an archive are read into memory, and it says how long they are."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY if hard == resource.RLIM_INFINITY else min(hard, _MEMORY), hard))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        if os.geteuid() != 0:
            from seatrial.sandbox.embedded.spawner import enter_user_namespace  # noqa: PLC0415 - slow to import

            enter_user_namespace(control)
        received = receive(control)
        if received is None:
            return
        message, descriptors = received
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # whoever tidies up behind a dead process must not meet us at work
        _bound_memory()
        send(control, _WORK[message["op"]](message, descriptors, lambda count: send(control, {"read": count})))
    except (ImageError, SandboxError, OSError, MemoryError) as error:
        with suppress(BrokenPipeError):  # nobody wants to know any more
            send(control, {"error": str(error) or type(error).__name__})
        sys.exit(1)


if __name__ == "__main__":
    main()
