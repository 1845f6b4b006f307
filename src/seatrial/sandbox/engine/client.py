"""The API of a container engine: where its daemon listens, requests that end in time, and streams."""

import asyncio
import errno
import hashlib
import json
import os
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self
from urllib.parse import urlencode

import aiohttp

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError

# Endpoints: where a daemon listens, found as its own command line tool would

Engine = Literal["docker", "podman"]

_START = {
    "docker": "start it (systemctl start docker), or name its socket in DOCKER_HOST",
    "podman": "start it (systemctl start podman.socket, as a user with --user), or name its socket in CONTAINER_HOST",
}
_RIGHTS = {
    "docker": "add yourself to the docker group (usermod -aG docker USER, then log in again), or use sudo",
    "podman": "use the socket of your own service (systemctl --user start podman.socket), or sudo",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A daemon's address: a unix socket, or else a host and port."""

    engine: Engine
    socket: str | None
    host: str = "localhost"
    port: int = 0

    def __str__(self) -> str:
        return f"unix://{self.socket}" if self.socket else f"tcp://{self.host}:{self.port}"

    def explain(self, error: BaseException) -> str:
        causes = list(_causes(error))
        numbers = {each.errno for each in causes if isinstance(each, OSError)}
        if numbers & {errno.EACCES, errno.EPERM}:
            return f"{self}: permission denied; {_RIGHTS[self.engine]}"
        if numbers & {errno.ENOENT, errno.ECONNREFUSED}:
            return f"no {self.engine} daemon at {self}; {_START[self.engine]}"
        if any(isinstance(each, TimeoutError) for each in causes):
            return f"the {self.engine} daemon at {self} does not answer; look at its log, or restart it"
        return f"the {self.engine} daemon at {self} failed: {str(causes[-1]) or type(causes[-1]).__name__}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def find_endpoint(engine: Engine, environ: Mapping[str, str] = os.environ) -> Endpoint:
    """The daemon to use: what the environment names, then Docker's chosen context, then the usual socket.

    Raises HostUnsupportedError for an address of a kind we do not speak.
    """
    if engine == "podman":
        named = environ.get("CONTAINER_HOST")
        return parse_address(engine, named) if named else Endpoint(engine, _usual(engine, environ))
    named = environ.get("DOCKER_HOST") or _context_address(environ)
    return parse_address(engine, named) if named else Endpoint(engine, _usual(engine, environ))


def parse_address(engine: Engine, address: str) -> Endpoint:
    """An endpoint from a URL such as unix:///path or tcp://host:port. Raises HostUnsupportedError for others."""
    scheme, _, rest = address.partition("://")
    if scheme == "unix" and rest:
        return Endpoint(engine, rest)
    if scheme in ("tcp", "http") and "DOCKER_TLS_VERIFY" not in os.environ:
        host, _, port = rest.rstrip("/").rpartition(":")
        if host and port.isdigit():
            return Endpoint(engine, None, host, int(port))
    raise HostUnsupportedError(
        f"the {engine} daemon at {address!r} cannot be used: only unix:///path and tcp://host:port without TLS are "
        "spoken here; forward its socket, e.g. ssh -L /tmp/engine.sock:/var/run/docker.sock HOST, and name that"
    )


def _usual(engine: Engine, environ: Mapping[str, str]) -> str:
    """The socket of the system's daemon, or of the user's own where only that exists."""
    name = "docker.sock" if engine == "docker" else "podman/podman.sock"
    system = f"/var/run/{name}" if engine == "docker" else f"/run/{name}"
    own = f"{environ.get('XDG_RUNTIME_DIR') or f'/run/user/{os.getuid()}'}/{name}"
    prefer_own = engine == "podman" and os.getuid() != 0
    return own if Path(own).exists() and (prefer_own or not Path(system).exists()) else system


def _context_address(environ: Mapping[str, str]) -> str | None:
    """What Docker's command line tool was told to use, with `docker context use`; None for its default."""
    folder = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    name = environ.get("DOCKER_CONTEXT") or _read(folder / "config.json").get("currentContext") or "default"
    if name == "default":
        return None
    digest = hashlib.sha256(str(name).encode()).hexdigest()
    meta = _read(folder / "contexts" / "meta" / digest / "meta.json")
    address = meta.get("Endpoints", {}).get("docker", {}).get("Host")
    return str(address) if address else None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# Streams: a connection that stops speaking HTTP and carries the input and outputs of a process in a container

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


_CONNECT_SEC = 10.0
_ANSWER_SEC = 120.0
_STREAM_CHUNK = 2**18
_FAILED = 400


class EngineError(SandboxError):
    """The engine refused a request; `status` is what HTTP says of it."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class EngineClient:
    """A connection pool to one daemon, for the length of an `async with` block."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.server = ""
        """How the daemon calls itself, such as `Docker/28.2.2 (linux)`."""

    async def __aenter__(self) -> Self:
        """Raises HostUnsupportedError when no daemon answers."""
        path, timeout = self.endpoint.socket, aiohttp.ClientTimeout(total=_ANSWER_SEC, sock_connect=_CONNECT_SEC)
        # As many connections as there are requests: the daemon does them all at once, and some take long.
        connector = aiohttp.UnixConnector(path, limit=0) if path else aiohttp.TCPConnector(limit=0)
        base = f"http://{self.endpoint.host}:{self.endpoint.port or 80}"
        # Left to itself, Docker compresses the archives of a container, which takes six times as long as packing them.
        headers = {"Accept-Encoding": "identity"}
        self._session = aiohttp.ClientSession(base, connector=connector, timeout=timeout, headers=headers)
        try:
            async with asyncio.timeout(_CONNECT_SEC), self.open("GET", "/_ping") as response:
                self.server = response.headers.get("Server", "")
        except (SandboxError, TimeoutError) as error:
            await self._session.close()
            raise HostUnsupportedError(self.endpoint.explain(error)) from error
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: Any = None, /, **query: str) -> Any:
        """One request and its answer, None unless it is JSON. Raises EngineError, or SandboxError when none comes."""
        async with self.open(method, path, body, query) as response:
            content = (await response.read()).strip()
            return json.loads(content) if content.startswith((b"{", b"[")) else None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        *,
        timeout_sec: float = 0,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer to be read piece by piece. A body is sent as JSON, or as an archive when it is a file.

        `timeout_sec` is how long it may take, in seconds, when it is not the usual. Raises like `ask`.
        """
        content: dict[str, Any] = {}
        if hasattr(body, "read"):
            content = {"data": _pieces(body), "headers": {"Content-Type": "application/x-tar"}}
        elif body is not None:
            content = {"json": body}
        if timeout_sec:
            content["timeout"] = aiohttp.ClientTimeout(total=timeout_sec, sock_connect=_CONNECT_SEC)
        try:
            async with self._session.request(method, path, params=query, **content) as response:
                if response.status >= _FAILED:
                    raise EngineError(_message(await response.read(), response), response.status)
                yield response
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise SandboxError(self.endpoint.explain(error)) from error

    async def stream(self, path: str, body: Any = None, /, **query: str) -> Stream:
        """A connection that belongs to a process from now on. Raises like `ask`."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            async with asyncio.timeout(_ANSWER_SEC):
                stream, status, content = await upgrade(self.endpoint, target, body)
        except (OSError, EOFError) as error:
            raise SandboxError(self.endpoint.explain(error)) from error
        if stream is None:
            raise EngineError(_said(content) or f"HTTP status {status}", status)
        return stream


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, _STREAM_CHUNK):
        yield piece


def _message(content: bytes, response: aiohttp.ClientResponse) -> str:
    return _said(content) or f"HTTP status {response.status}: {response.reason}"


def _said(content: bytes) -> str:
    try:
        found = json.loads(content)
    except ValueError:
        return content.decode(errors="replace").strip()[:500]
    if isinstance(found, dict):
        return str(found.get("message") or found.get("cause") or "")
    return str(found)
