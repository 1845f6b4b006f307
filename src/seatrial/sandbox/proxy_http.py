"""HTTP/1.x as a forward proxy sees it: what a head means, and how it is passed on.

Parsing is strict on purpose. Whatever two parsers could read differently is refused, so that what was checked is what
the origin gets. Who may be reached is decided in `hosts.py`; connections are made and owned in `proxy.py`.
"""

import asyncio
import re
import socket
import struct
from base64 import b64decode
from contextlib import suppress
from http import HTTPStatus
from typing import Literal, NamedTuple

from seatrial.sandbox.hosts import Address, parse_authority

MAX_HEAD = 64 * 2**10
MAX_REASON = 2000

Headers = tuple[tuple[str, str], ...]
Framing = int | Literal["chunked", "until-close"]
"""Where a body ends: after so many bytes, after the last chunk, or with the connection."""

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = r"[\t -~\x80-\xff]*"
_REQUEST_LINE = re.compile(rf"({_NAME}) ([!-~]+) (HTTP/1\.[01])")
_STATUS_LINE = re.compile(rf"HTTP/1\.[01] ([1-9][0-9]{{2}})(?: {_VALUE})?")
_FIELD = re.compile(rf"({_NAME}):[\t ]*({_VALUE})")
_ABSOLUTE = re.compile(r"http://([^/?#]+)([^#]*)", re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,18}")

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "te", "upgrade"}) | frozenset(
    {"proxy-authenticate", "proxy-authentication-info", "proxy-authorization"}
)
# What says where a body ends must reach whoever reads that body, even if a Connection header names it.
_FRAMING_FIELDS = frozenset({"content-length", "transfer-encoding"})


class Refusal(Exception):
    """The answer a client gets instead of what it asked for: a status and one line that says why."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = HTTPStatus(status)
        self.reason = " ".join(reason.split())[:MAX_REASON]
        super().__init__(f"{status} {self.reason}")

    def render(self) -> bytes:
        """The whole response. The reason is in the status line too: many clients show nothing else of a tunnel."""
        body = f"{self.reason}\n".encode()
        phrase = self.reason.encode("ascii", "backslashreplace")
        challenge = b'Proxy-Authenticate: Basic realm="seatrial"\r\n' if self.status == 407 else b""
        return (
            b"HTTP/1.1 %d %s: %s\r\n%sContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n%s"
        ) % (self.status, self.status.phrase.encode(), phrase, challenge, len(body), body)


class RequestHead(NamedTuple):
    """What a client asks for; `target` is in origin-form and empty for CONNECT."""

    method: str
    host: Address | str
    port: int
    target: str
    version: str
    headers: Headers
    body: Framing

    @property
    def authority(self) -> str:
        """Host and port, as people write them."""
        return f"{f'[{self.host}]' if ':' in str(self.host) else self.host}:{self.port}"

    @property
    def credentials(self) -> tuple[str, str]:
        """User and password of the proxy's Basic authentication; both empty when there are none."""
        scheme, _, encoded = (_value(self.headers, "proxy-authorization") or "").partition(" ")
        if scheme.lower() != "basic":
            return "", ""
        try:
            user, _, password = b64decode(encoded.strip(), validate=True).decode("ascii").partition(":")
        except ValueError:
            return "", ""
        return user, password

    def render(self) -> bytes:
        """The head for the origin, whatever Host the client had claimed."""
        kept = tuple(field for field in end_to_end(self.headers) if field[0].lower() != "host")
        host = self.authority.removesuffix(":80")
        return _render(f"{self.method} {self.target} {self.version}", (("Host", host), *kept, ("Connection", "close")))


class ResponseHead(NamedTuple):
    """What an origin answers; below 200 another head follows."""

    status: int
    line: str
    headers: Headers
    body: Framing

    def render(self) -> bytes:
        closing = (("Connection", "close"),) if self.status >= 200 else ()
        return _render(self.line, (*end_to_end(self.headers), *closing))


def parse_request(head: bytes) -> RequestHead:
    """The request in a head that ends with its empty line. Raises Refusal (400)."""
    line, headers = _split(head)
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise Refusal(400, "the request line is malformed")
    method, target, version = match.groups()
    if method == "CONNECT":
        host, port = _authority(target, None)
        return RequestHead(method, host, port, "", version, headers, 0)
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise Refusal(400, "this is a forward proxy: ask for http://host/path, or CONNECT host:port for TLS")
    host, port = _authority(absolute[1], 80)
    path = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    return RequestHead(method, host, port, path, version, headers, _request_framing(version, headers))


def parse_response(head: bytes, method: str) -> ResponseHead:
    """The response to a request with this method. Raises Refusal, whose status means nothing here."""
    line, headers = _split(head)
    match = _STATUS_LINE.fullmatch(line)
    if match is None or match[1] == "101":
        raise Refusal(502, "the status line is malformed" if match is None else "nobody asked for another protocol")
    status = int(match[1])
    coding = _value(headers, "transfer-encoding")
    if coding is not None:
        headers = tuple(field for field in headers if field[0].lower() != "content-length")
    bodiless = method == "HEAD" or status < 200 or status in {204, 304}
    return ResponseHead(status, line, headers, 0 if bodiless else _response_framing(coding, headers))


def end_to_end(headers: Headers) -> Headers:
    """The headers without those meant for this hop, among them all that a Connection header names."""
    named = {token.strip().lower() for token in (_value(headers, "connection") or "").split(",")}
    dropped = _HOP_BY_HOP | (named - _FRAMING_FIELDS)
    return tuple(field for field in headers if field[0].lower() not in dropped)


def _split(head: bytes) -> tuple[str, Headers]:
    line, *fields = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    matches = [_FIELD.fullmatch(field) for field in fields]
    if not all(matches):
        raise Refusal(400, "a header line is malformed")
    return line, tuple((match[1], match[2].rstrip("\t ")) for match in matches if match)


def _render(line: str, headers: Headers) -> bytes:
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in headers), "", ""]).encode("latin-1")


def _value(headers: Headers, name: str) -> str | None:
    """The value of a header, or None; several are one list, which is no valid length, coding or credential."""
    values = [value for field, value in headers if field.lower() == name]
    return ", ".join(values) if values else None


def _authority(text: str, default_port: int | None) -> tuple[Address | str, int]:
    found = parse_authority(text, default_port)
    if found is None:
        raise Refusal(400, f"{text} is no host with a port")
    return found


def _request_framing(version: str, headers: Headers) -> Framing:
    coding = _value(headers, "transfer-encoding")
    if coding is None:
        return _length(headers, 0)
    if coding.lower() != "chunked" or version == "HTTP/1.0" or _value(headers, "content-length") is not None:
        raise Refusal(400, "a body has a Content-Length or is chunked; nothing else can be passed on")
    return "chunked"


def _response_framing(coding: str | None, headers: Headers) -> Framing:
    if coding is None:
        return _length(headers, "until-close")
    return "chunked" if coding.lower().rpartition(",")[2].strip() == "chunked" else "until-close"


def _length(headers: Headers, otherwise: Framing) -> Framing:
    text = _value(headers, "content-length")
    if text is None:
        return otherwise
    if not _LENGTH.fullmatch(text):
        raise Refusal(400, f"Content-Length {text[:40]!r} is no length")
    return int(text)


# Moving bytes: a request and its answer, or a tunnel. A stream that was cut off is reset, so that no part looks whole.

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
