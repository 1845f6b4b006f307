"""A forward proxy in a test: names it can look up, origins behind it, and clients in front of it."""

import asyncio
import gc
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from seatrial.sandbox.api import Network
from seatrial.sandbox.proxy import ForwardProxy, Grant, ProxyOptions

T = TypeVar("T")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HERE = ["127.0.0.1"]
LISTED = Network("allowlist", ("origin.test", "127.0.0.0/8"))
BYTES = Random(7).randbytes(20 * 2**20)
pieces = st.sampled_from(
    [
        *(b"CONNECT ", b"GET ", b"http://", b"127.0.0.1", b"origin.test", b":", b"443", b"/", b" HTTP/1.1", b"\r\n"),
        *(b"Proxy-Authorization: Basic ", b"TOKEN", b"Transfer-Encoding: chunked", b"Content-Length: 9", b"\r\n\r\n"),
    ]
)


class ScriptedResolver:
    """Answers a name with its next line, the last one again and again; an error is raised, None never comes."""

    def __init__(self, **answers: list[Sequence[str] | OSError | None]) -> None:
        self.answers = {name.replace("_", "."): lines for name, lines in answers.items()}
        self.asked: list[str] = []

    async def addresses(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        lines = self.answers[name]
        line = lines.pop(0) if len(lines) > 1 else lines[0]
        if isinstance(line, OSError):
            raise line
        while line is None:
            await asyncio.Event().wait()
        return line


def run(main: Coroutine[None, None, T]) -> T:
    """Run to the end, in bounded time; whatever was left unhandled, open or running fails the test."""
    unhandled: list[dict[str, object]] = []

    async def guarded() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with asyncio.timeout(30):
            return await main

    result = asyncio.run(guarded())
    gc.collect()
    assert unhandled == []
    return result


@asynccontextmanager
async def serving(
    resolver: ScriptedResolver | None = None, options: ProxyOptions | None = None
) -> AsyncIterator[tuple[ForwardProxy, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    resolver = resolver or ScriptedResolver(origin_test=[HERE])
    async with ForwardProxy([listener], options or ProxyOptions(), resolver) as proxy:
        yield proxy, listener.getsockname()[1]


@asynccontextmanager
async def origin(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that ends when its last connection has ended."""
    async with asyncio.TaskGroup() as group:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                await handler(reader, writer)
            writer.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            group.create_task(serve(reader, writer))

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
        yield server.sockets[0].getsockname()[1]
        server.close()


async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a request with the very head and body it got."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = b""
    if b"\r\nContent-Length: " in head:
        body = await reader.readexactly(int(head.partition(b"\r\nContent-Length: ")[2].split(b"\r\n")[0]))
    elif b"chunked" in head:
        body = await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head + body) + head + body)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends back what comes, until it has all come."""
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()


def authorization(grant: Grant) -> dict[str, str]:
    return {"Proxy-Authorization": f"Basic {b64encode(f'{grant.user}:{grant.password}'.encode()).decode()}"}


def request(line: str, grant: Grant | None = None) -> bytes:
    fields = authorization(grant).items() if grant else ()
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in fields), "", ""]).encode()


async def ask(port: int, data: bytes, *, end: bool = False) -> bytes:
    """Send bytes and return all that comes back; nothing when the connection is reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def connect(port: int, grant: Grant, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A tunnel that is known to be open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(f"CONNECT {target} HTTP/1.1", grant))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    return reader, writer


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


@contextmanager
def silent(host: str, port: int) -> Iterator[None]:
    """An address where nobody answers: its queue of waiting connections is full."""
    with socket.create_server((host, port), backlog=0) as full, socket.socket() as first, socket.socket() as second:
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield
