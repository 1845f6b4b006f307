"""A connection that stops speaking HTTP and becomes the input and the two outputs of a process in a container."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from seatrial.concurrency import finish
from seatrial.sandbox.engine.endpoint import Endpoint

STDOUT, STDERR = 1, 2
_FRAME = struct.Struct(">BxxxL")
_CHUNK = 2**16
_UPGRADED = (101, 200)  # older engines just begin


class Stream:
    """What a process is given and what it says, until it is closed or nobody holds the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Give the process input; waits while it takes none. A process that is gone takes all of it."""
        with suppress(ConnectionError):
            for start in range(0, len(data), _CHUNK):
                self._writer.write(data[start : start + _CHUNK])
                await self._writer.drain()

    def end_input(self) -> None:
        """Let the process see the end of its input."""
        with suppress(OSError):
            self._writer.write_eof()

    async def outputs(self) -> AsyncIterator[tuple[int, bytes]]:
        """What comes out, as (which output, bytes), until it ends."""
        with suppress(EOFError, ConnectionError):
            while True:
                kind, size = _FRAME.unpack(await self._reader.readexactly(_FRAME.size))
                while size:
                    data = await self._reader.read(min(size, _CHUNK))
                    if not data:
                        return
                    size -= len(data)
                    yield kind, data

    async def close(self) -> None:
        """Hang up."""
        await _close(self._writer)


async def upgrade(endpoint: Endpoint, target: str, body: Any) -> tuple[Stream | None, int, bytes]:
    """Ask for a stream: the stream, or else the status and what was answered instead. Raises OSError, EOFError."""
    if endpoint.socket:
        reader, writer = await asyncio.open_unix_connection(endpoint.socket)
    else:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    try:
        content = b"" if body is None else json.dumps(body).encode()
        writer.write(_request(endpoint, target, content) + content)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        if status in _UPGRADED:
            return Stream(reader, writer), status, b""
        lengths = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
        answer = await reader.readexactly(int(lengths[0])) if lengths else b""
    except BaseException:
        await finish(_close(writer))
        raise
    await _close(writer)
    return None, status, answer


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()  # an orderly end would wait until all is sent, and whoever does not read never takes it
    with suppress(OSError):
        await writer.wait_closed()


def _request(endpoint: Endpoint, target: str, content: bytes) -> bytes:
    host = "localhost" if endpoint.socket else f"{endpoint.host}:{endpoint.port}"
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {host}",
        "Connection: Upgrade",
        "Upgrade: tcp",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
