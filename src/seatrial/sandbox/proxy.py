"""The forward proxy through which a sandbox reaches the network, as far as each command's policy lets it.

It accepts on sockets that listen inside sandboxes and connects out from here. A command identifies itself by the user
and password in its proxy URL. A name is looked up once, and the connection goes to an address that was checked.
"""

import asyncio
import base64
import secrets
import socket
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from types import TracebackType
from typing import NamedTuple, Protocol, Self
from urllib.parse import unquote, urlsplit

from seatrial.concurrency import finish
from seatrial.descriptors import share, taking_part
from seatrial.errors import SandboxError, UsageError
from seatrial.sandbox import hosts
from seatrial.sandbox.api import Network, ProxyUse
from seatrial.sandbox.hosts import Address, HostPolicy
from seatrial.sandbox.proxy_http import MAX_HEAD, Peer, Refusal, RequestHead, dismiss, read_head, relay, reset, tunnel

BACKLOG = 256  # asyncio calls listen() again, with its own figure unless it gets one
MAX_ATTEMPTS = 256
_NO_PROXY = "localhost,127.0.0.1,::1"


class Resolver(Protocol):
    """Where addresses come from."""

    async def addresses(self, name: str) -> Sequence[str]:
        """The addresses of a name, best first. Raises OSError when it has none."""
        ...


class SystemResolver:
    """The system's own lookup, in a few threads of its own: slow names must not hold up the rest of the program."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(4, "seatrial-lookup")

    async def addresses(self, name: str) -> Sequence[str]:
        lookup = partial(socket.getaddrinfo, name, None, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        return [str(entry[4][0]) for entry in found]

    def close(self) -> None:
        """Take no more lookups; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class ProxyOptions(NamedTuple):
    """Limits of a proxy; `max_unknown` counts, per listener, the connections that have not shown valid credentials."""

    connect_timeout_sec: float = 10.0
    head_timeout_sec: float = 30.0
    linger_sec: float = 2.0
    max_connections: int = 256
    max_unknown: int = 256
    allow_private: bool = False


class Attempt(NamedTuple):
    """What a command tried to reach; `refusal` is None when it got a connection."""

    host: str
    port: int
    refusal: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """The right of one command to use the proxy, and what came of it."""

    user: str
    password: str = field(repr=False)
    policy: HostPolicy
    proxy: ProxyUse = "direct"
    attempts: dict[Attempt, int] = field(default_factory=dict)
    """How often what was tried, first things first; beyond MAX_ATTEMPTS different ones the rest is left out."""
    connections: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def environment(self, port: int) -> dict[str, str]:
        """What the command needs in its environment when the proxy listens on this port."""
        url = f"http://{self.user}:{self.password}@127.0.0.1:{port}"
        variables = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": _NO_PROXY}
        return variables | {name.lower(): value for name, value in variables.items()}

    def note(self, attempt: Attempt) -> None:
        if attempt in self.attempts or len(self.attempts) < MAX_ATTEMPTS:
            self.attempts[attempt] = self.attempts.get(attempt, 0) + 1


class ForwardProxy:
    """Serves on listening sockets, which it takes over and closes, for the length of an `async with` block.

    Nothing outlives the block. Should serving a connection fail in an unforeseen way, the block is cancelled and
    the failure raised at its end.
    """

    def __init__(
        self, listeners: Sequence[socket.socket], options: ProxyOptions | None = None, resolver: Resolver | None = None
    ) -> None:
        self._listeners = tuple(listeners)
        self._options = options or ProxyOptions()
        self._system_resolver = SystemResolver()
        self._resolver = resolver or self._system_resolver
        self._grants: dict[str, Grant] = {}
        self._stack = AsyncExitStack()
        self._group = asyncio.TaskGroup()
        self._connections: dict[Peer, asyncio.Task[None]] = {}
        self._serving = True

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(self._system_resolver.close)
            stack.enter_context(taking_part())
            await stack.enter_async_context(self._group)
            # Leaving the group waits for the connections, so they must be told to end before.
            stack.callback(self._end_connections)
            for listener in self._listeners:
                stack.callback(listener.close)
            for listener in self._listeners:
                accept = partial(self._accept, set())
                server = await asyncio.start_server(accept, sock=listener, limit=MAX_HEAD, backlog=BACKLOG)
                stack.callback(server.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to serve; returns when every connection is closed."""
        # The group does not get to see the block's own exception: it would wrap it.
        await self._stack.aclose()

    def grant(self, network: Network) -> Grant:
        """New credentials for a command. Raises UsageError for a mode that needs no proxy and for invalid patterns."""
        match network.mode:
            case "allowlist" | "public" as mode:
                policy = HostPolicy(mode, hosts.parse_patterns(network.hosts), self._options.allow_private)
            case "none" | "host" as mode:
                raise UsageError(f'network mode "{mode}" has no use for a proxy; "allowlist" and "public" have')
        grant = Grant(secrets.token_hex(8), secrets.token_hex(16), policy, network.proxy)
        self._grants[grant.user] = grant
        return grant

    async def revoke(self, grant: Grant) -> None:
        """End a grant and its connections; returns when they are closed. Its attempts can still be read."""
        self._grants.pop(grant.user, None)
        for task in grant.connections:
            task.cancel()
        if grant.connections:
            await asyncio.wait(grant.connections)

    def _end_connections(self) -> None:
        self._serving = False
        for task in self._connections.values():
            task.cancel()

    def _accept(self, unknown: set[Peer], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Peer(reader, writer)
        most = share(self._options.max_connections + self._options.max_unknown, 2)  # with that to the origin
        if not self._serving or len(unknown) >= self._options.max_unknown or len(self._connections) >= most:
            reset(writer)
            return
        unknown.add(client)
        self._connections[client] = task = self._group.create_task(self._serve(client, unknown))
        task.add_done_callback(lambda _: self._forget(client, unknown))

    def _forget(self, client: Peer, unknown: set[Peer]) -> None:
        unknown.discard(client)
        del self._connections[client]
        # A task that was cancelled before its first step has closed nothing.
        reset(client.writer)

    async def _serve(self, client: Peer, unknown: set[Peer]) -> None:
        try:
            with suppress(OSError):
                try:
                    await self._handle(client, unknown)
                except Refusal as refusal:
                    client.writer.write(refusal.render())
                await dismiss(client, self._options.linger_sec)
        finally:
            reset(client.writer)

    async def _handle(self, client: Peer, unknown: set[Peer]) -> None:
        head = await self._read_head(client)
        if head is None:
            return
        grant = self._identify(head)
        attempt = partial(Attempt, str(head.host), head.port)
        try:
            self._admit(client, grant)
            unknown.discard(client)
            origin = await self._reach(head, grant)
        except Refusal as refusal:
            grant.note(attempt(refusal.reason))
            raise
        grant.note(attempt())
        try:
            await (tunnel(client, origin) if head.method == "CONNECT" else relay(client, origin, head))
        finally:
            reset(origin.writer)

    async def _read_head(self, client: Peer) -> RequestHead | None:
        try:
            async with asyncio.timeout(self._options.head_timeout_sec):
                return await read_head(client.reader)
        except TimeoutError:
            raise Refusal(408, "the head of the request took too long") from None

    def _identify(self, head: RequestHead) -> Grant:
        user, password = head.credentials
        grant = self._grants.get(user)
        if grant is None or not secrets.compare_digest(password, grant.password):
            raise Refusal(407, "the user and password of this command's HTTP_PROXY are needed")
        return grant

    def _admit(self, client: Peer, grant: Grant) -> None:
        if len(grant.connections) >= self._options.max_connections:
            raise Refusal(503, f"{self._options.max_connections} connections are open already")
        task = self._connections[client]
        grant.connections.add(task)
        task.add_done_callback(grant.connections.discard)

    async def _reach(self, head: RequestHead, grant: Grant) -> Peer:
        """A connection to an address of the host that was checked. Raises Refusal (403, 502, 504)."""
        policy = grant.policy
        if policy.mode == "allowlist" and not hosts.is_allowed(str(head.host), head.port, policy.patterns):
            listed = ", ".join(pattern.text for pattern in policy.patterns) or "nothing"
            raise Refusal(403, f"{head.authority} is not allowed; allowed: {listed}")
        deadline = asyncio.get_running_loop().time() + self._options.connect_timeout_sec
        if grant.proxy == "host" and (parent := ParentProxy.for_host(head.host)):
            return await connect_through(parent, head, deadline)
        refusals = {address: _refusal_of(address, head.port, policy) for address in await self._look_up(head, deadline)}
        reachable = [address for address, refusal in refusals.items() if refusal is None]
        if not reachable:
            reasons = "; ".join(refusal for refusal in refusals.values() if refusal)
            raise Refusal(403, f"{head.authority} is not allowed: {reasons}")
        return await connect(reachable, head, deadline)

    async def _look_up(self, head: RequestHead, deadline: float) -> list[Address]:
        if not isinstance(head.host, str):
            return [head.host]
        try:
            async with asyncio.timeout_at(deadline):
                texts = await self._resolver.addresses(head.host)
        except TimeoutError:
            raise Refusal(504, f"looking up {head.host} took too long") from None
        except OSError as error:
            raise Refusal(502, f"{head.host} cannot be resolved: {error.strerror or error}") from None
        if not texts:
            raise Refusal(502, f"{head.host} cannot be resolved: it has no address")
        return [hosts.normalise(ip_address(text)) for text in texts]


def is_own_address(address: Address) -> bool:
    """Whether this machine has the address, on whatever device, or it cannot be told. Sends nothing.

    Towards itself a machine speaks with the very address it speaks to.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            no_route = probe.connect_ex((str(address), 9))
            return not no_route and ip_address(probe.getsockname()[0]) == address
    except OSError:
        return True


def _refusal_of(address: Address, port: int, policy: HostPolicy) -> str | None:
    if refusal := hosts.address_refusal(address, port, policy):
        return refusal
    # Services of the host listen on its other addresses too; a range that happens to contain one does not mean them.
    if not address.is_loopback and is_own_address(address) and not hosts.is_listed(address, port, policy.patterns):
        return f"{address} is an address of the machine that runs the sandbox"
    return None


class EgressProxy:
    """The proxy of one sandbox, started with the first command that may use it.

    It lends commands access to the network, each by its own policy and only while it runs.
    """

    def __init__(self, listen: Callable[[], Awaitable[socket.socket]]) -> None:
        self._listen = listen
        self._lock = asyncio.Lock()
        self._started = asyncio.Event()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._proxy: ForwardProxy | None = None
        self._port = 0

    @asynccontextmanager
    async def access(self, network: Network) -> AsyncIterator[dict[str, str]]:
        """The environment that lets one command out, until the block is left."""
        if network.mode in ("none", "host"):
            yield {}
            return
        proxy = await self._running_proxy()
        grant = proxy.grant(network)
        try:
            yield grant.environment(self._port)
        finally:
            await finish(proxy.revoke(grant))

    async def _running_proxy(self) -> ForwardProxy:
        async with self._lock:
            if self._task is None:
                listener = await self._listen()
                self._port = listener.getsockname()[1]
                # A task of its own, because commands come and go in tasks of others; `close` waits for it.
                self._task = asyncio.create_task(self._serve(listener))
            await self._started.wait()
            if self._proxy is None or self._task.done():
                raise SandboxError("the sandbox's proxy has failed")
            return self._proxy

    async def _serve(self, listener: socket.socket) -> None:
        try:
            async with ForwardProxy([listener]) as self._proxy:
                self._started.set()
                await self._stop.wait()
        finally:
            self._started.set()

    async def close(self) -> None:
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])


# Connections to an origin: straight to an address, or through the proxy that this machine uses. That one looks names
# up, so what a name stands for is checked by it or not at all; names that NO_PROXY exempts, addresses, and this
# machine's own names go the straight way and its checks.

_PROXY_PORT = 80


@dataclass(frozen=True, slots=True)
class ParentProxy:
    """A proxy of this machine's network. Its password is in no message."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def for_host(cls, host: str | Address) -> Self | None:
        """The proxy that our environment names for a host; None when it is to be reached without one."""
        if not isinstance(host, str) or f".{host}".endswith(".localhost") or urllib.request.proxy_bypass(host):
            return None
        named = urllib.request.getproxies()
        url = named.get("https") or named.get("http")
        return cls.parse(url) if url else None

    @classmethod
    def parse(cls, url: str) -> Self:
        """The proxy that a URL names. Raises Refusal for one that is spoken to by anything but HTTP."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            raise Refusal(502, f"the proxy of this machine is no http:// address but {parts.scheme}://…")
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
        authorization = f"Basic {base64.b64encode(login).decode()}" if parts.username else None
        return cls(parts.hostname, parts.port or _PROXY_PORT, authorization)

    def __str__(self) -> str:
        return f"the proxy {self.host}:{self.port}"


async def connect_through(parent: ParentProxy, head: RequestHead, deadline: float) -> Peer:
    """A connection to an origin that another proxy makes. Raises Refusal (502, 504)."""
    try:
        async with asyncio.timeout_at(deadline):
            peer = Peer(*await asyncio.open_connection(parent.host, parent.port, limit=MAX_HEAD))
            try:
                return await _tunnelled(peer, parent, head)
            except BaseException:
                reset(peer.writer)
                raise
    except TimeoutError:
        raise Refusal(504, f"{head.authority} cannot be reached: {parent} took too long") from None
    except (OSError, EOFError, asyncio.LimitOverrunError) as error:
        raise Refusal(502, f"{head.authority} cannot be reached: {parent}: {error}") from None


async def _tunnelled(peer: Peer, parent: ParentProxy, head: RequestHead) -> Peer:
    login = f"Proxy-Authorization: {parent.authorization}\r\n" if parent.authorization else ""
    target = f"{head.host}:{head.port}"
    peer.writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode("ascii"))
    answer = await peer.reader.readuntil(b"\r\n\r\n")
    status = answer.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(status) < 2 or not status[1].startswith(b"2"):
        said = b" ".join(status[1:]).decode("ascii", "replace")
        raise Refusal(502, f"{head.authority} cannot be reached: {parent} answered {said}")
    return peer


async def connect(addresses: Sequence[Address], head: RequestHead, deadline: float) -> Peer:
    """The first connection that comes about; each address gets its share of the time that is left."""
    loop = asyncio.get_running_loop()
    status, failures = 502, []
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            async with asyncio.timeout((deadline - loop.time()) / left):
                return Peer(*await asyncio.open_connection(str(address), head.port, limit=MAX_HEAD))
        except TimeoutError:
            status = 504
            failures.append(f"{address} took too long")
        except OSError as error:
            failures.append(f"{address}: {error.strerror or error}")
    raise Refusal(status, f"{head.authority} cannot be reached: {'; '.join(failures)}")
