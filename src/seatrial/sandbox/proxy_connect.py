"""How a connection to an origin comes about: straight to an address, or through the proxy that this machine uses.

Through another proxy nobody here looks a name up, so what it stands for is checked by that proxy or by nobody; names
that NO_PROXY exempts, addresses, and this machine's own names go the straight way and its checks.
"""

import asyncio
import base64
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from seatrial.sandbox.hosts import Address
from seatrial.sandbox.proxy_http import MAX_HEAD, Refusal, RequestHead
from seatrial.sandbox.proxy_relay import Peer, reset

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
        """How to call it to people."""
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
