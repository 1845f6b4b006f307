"""Moving bytes between a client of the proxy and an origin: one request and its answer, or a tunnel.

What a stream was cut off from is reset, so that a part never looks like the whole.
"""

import asyncio
import re
import socket
import struct
from contextlib import suppress
from typing import NamedTuple

from seatrial.sandbox.proxy_http import (
    MAX_HEAD,
    Framing,
    Refusal,
    RequestHead,
    ResponseHead,
    parse_request,
    parse_response,
)

PIECE = 64 * 2**10
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[\t ]*(?:;[^\r\n]*)?\r\n")
_CHUNK_END = re.compile(rb"\r\n")
_TRAILER = re.compile(rb"[^\r\n]*\r\n")


class Peer(NamedTuple):
    """The two directions of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def read_head(reader: asyncio.StreamReader) -> RequestHead | None:
    """The next request, or None when the client left without a word. Raises Refusal (400, 431)."""
    try:
        return parse_request(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        raise Refusal(431, f"the head of a request may have {MAX_HEAD} bytes") from None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise Refusal(400, "the connection ended within the head of the request") from None
        return None


async def relay(client: Peer, origin: Peer, head: RequestHead) -> None:
    """Pass one request on and its response back. Raises Refusal (502), or OSError when it breaks off midway."""
    origin.writer.write(head.render())
    try:
        async with asyncio.TaskGroup() as group:
            upload = group.create_task(_upload(client, origin, head.body))
            await _pass_response(origin, client, head)
            # An origin may answer before it has read everything; the rest is of no use to it.
            upload.cancel()
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    origin.writer.transport.abort()


async def tunnel(client: Peer, origin: Peer) -> None:
    """Say that the way is open, and pass bytes both ways until both sides have ended theirs. Raises OSError."""
    client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(client.reader, origin.writer))
            group.create_task(_pump(origin.reader, client.writer))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    await close(origin.writer)


async def dismiss(client: Peer, seconds: float) -> None:
    """Close after an answer, without haste: unread bytes would turn the close into a reset that destroys the answer."""
    with suppress(OSError):
        client.writer.write_eof()
        async with asyncio.timeout(seconds):
            while await client.reader.read(PIECE):
                pass
    await close(client.writer)


async def close(writer: asyncio.StreamWriter) -> None:
    """Send what is still to be sent, then close."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close at once and visibly: the peer must not take what it has got for all there was. Closed stays closed."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _upload(client: Peer, origin: Peer, body: Framing) -> None:
    try:
        await _copy_body(client.reader, origin.writer, body)
    except OSError:
        # When it is the origin that no longer listens, its answer (or its lack of one) decides.
        if not origin.writer.is_closing():
            raise


async def _pass_response(origin: Peer, client: Peer, head: RequestHead) -> None:
    response = await _read_response(origin.reader, head)
    while response.status < 200:
        client.writer.write(response.render())
        await client.writer.drain()
        response = await _read_response(origin.reader, head)
    client.writer.write(response.render())
    await _copy_body(origin.reader, client.writer, response.body)


async def _read_response(reader: asyncio.StreamReader, head: RequestHead) -> ResponseHead:
    try:
        return parse_response(await reader.readuntil(b"\r\n\r\n"), head.method)
    except (Refusal, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        reason = error.reason if isinstance(error, Refusal) else "the connection ended, or its head was too large"
        raise Refusal(502, f"{head.authority} gave no usable answer: {reason}") from None


async def _copy_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: Framing) -> None:
    if body == "until-close":
        await _pump(reader, writer)
    elif body == "chunked":
        await _copy_chunks(reader, writer)
    else:
        await _copy_bytes(reader, writer, body)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(PIECE):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _copy_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    while count:
        data = await reader.read(min(count, PIECE))
        if not data:
            raise ConnectionAbortedError("a body ended early")
        writer.write(data)
        await writer.drain()
        count -= len(data)


async def _copy_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while size := int((await _read_line(reader, _CHUNK_SIZE))[1], 16):
        writer.write(b"%x\r\n" % size)
        await _copy_bytes(reader, writer, size)
        writer.write((await _read_line(reader, _CHUNK_END))[0])
    # Whoever passes a body on may drop its trailers, as it has dropped extensions of chunks.
    while (await _read_line(reader, _TRAILER))[0] != b"\r\n":
        pass
    writer.write(b"0\r\n\r\n")


async def _read_line(reader: asyncio.StreamReader, expected: re.Pattern[bytes]) -> re.Match[bytes]:
    try:
        match = expected.fullmatch(await reader.readuntil(b"\r\n"))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        match = None
    if match is None:
        raise ConnectionAbortedError("a chunked body is malformed")
    return match
