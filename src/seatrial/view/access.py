"""What a viewer was asked to show, and who may ask it for what: a check of every request before any page is made.

A viewer is reached by every program of this machine and by every page that a browser has open. So a request must name
this machine as its host, must not come from a page of somebody else, and must bring the token that was printed. What
would write needs a header as well, which no form of a foreign page can send.
"""

import hmac
import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """Which folders are shown, and what may be done there."""

    folders: tuple[Path, ...]
    """Each is a job, or has jobs in it."""
    host: str = LOOPBACK
    port: int = 0
    access: Literal["review", "read"] = "review"
    """With `read`, nothing is ever written."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """Whoever knows it is let in."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# Host names. One that somebody else's DNS leads here is none of them.

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]\\]+)(?::[0-9]{1,5})?", re.ASCII)
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - only compared with
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names that may stand in a Host header. With `addresses` of `any`, so may every IP address, which is no name
    and so cannot be led anywhere by DNS.
    """

    shown: tuple[str, ...]
    addresses: str = "named"

    def has(self, header: str) -> bool:
        """Whether a Host header names us; the port does not matter, since it may be forwarded."""
        found = _HOST.fullmatch(header)
        if not found:
            return False
        name = found[1].lower()
        return name in self.shown or (self.addresses == "any" and _is_address(name))


def host_names(host: str) -> HostNames:
    if host in _EVERYWHERE:
        machine = socket.gethostname().lower()
        return HostNames((*_LOCAL, machine), "any")
    named = f"[{host}]" if ":" in host else host
    return HostNames(tuple(dict.fromkeys((*_LOCAL, named.lower()))))


def root_url(host: str, port: int) -> str:
    """Where a viewer is, as it is written into a browser."""
    if host in _EVERYWHERE:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


WRITE_HEADER = "X-Seatrial"
"""What our own scripts send with everything that writes, with any value."""

_PUBLIC = "/static/"
"""What is shown to anybody who may reach this machine: nothing of it is about a job."""

_READS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "seatrial",
}
_USUAL_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""What a response may say otherwise for itself, such as a page in a sandboxed frame, or a file of ours."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets requests through, or raises the HTTP error that says why not."""

    settings: ViewSettings
    names: HostNames

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._check_host(request)
        _check_sender(request)
        if request.method not in _READS:
            self._check_write(request)
        if "token" in request.query and request.method == "GET":
            return self._let_in(request)
        if not request.path.startswith(_PUBLIC) and not self.is_admitted(request):
            raise _refusal()
        return await handler(request)

    def is_admitted(self, request: web.Request) -> bool:
        """Whether a request brings the token, as our cookie or as a bearer's."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        brought = [request.cookies.get(cookie_name(request), ""), bearer if scheme.lower() == "bearer" else ""]
        return any(_is_same(each, self.settings.token) for each in brought)

    def _check_host(self, request: web.Request) -> None:
        named = request.headers.getall("Host", [])
        if len(named) != 1 or not self.names.has(named[0]):
            raise web.HTTPForbidden(
                text=f"The viewer answers to {', '.join(self.names.shown)}, not to {', '.join(named) or 'no host'}. "
                "A page elsewhere may be trying to read it; use the address that was printed at its start."
            )

    def _check_write(self, request: web.Request) -> None:
        if not _is_from_own_page(request):
            raise web.HTTPForbidden(text="Only pages of this viewer may write; this came from somewhere else.")
        if WRITE_HEADER not in request.headers:
            raise web.HTTPForbidden(text=f"A request that writes needs the header {WRITE_HEADER}, and has none.")
        if self.settings.access == "read":
            raise web.HTTPForbidden(
                text="This viewer was started with --read-only, so nothing is written. Start it without, to review."
            )

    def _let_in(self, request: web.Request) -> web.Response:
        """Keep the token as a cookie, and take it out of the address, which is seen and kept in more places."""
        if not _is_same(request.query["token"], self.settings.token):
            raise _refusal()
        query = {name: value for name, value in request.query.items() if name != "token"}
        # Never "//host/": that would be another machine.
        path = "/" + request.raw_path.partition("?")[0].lstrip("/\\")
        target = f"{path}?{urlencode(query)}" if query else path
        # A browser that was sent here by somebody else would not bring a strict cookie along a redirect.
        strangers = request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES
        headers = {"Refresh": f"0; url={target}"} if strangers else {"Location": target}
        response = web.Response(status=200 if strangers else 303, headers=headers, text="One moment …")
        response.set_cookie(cookie_name(request), self.settings.token, httponly=True, samesite="Strict", path="/")
        return response


def _refusal() -> web.HTTPForbidden:
    return web.HTTPForbidden(
        text="This needs the address with a token that `seatrial view` printed when it was started. "
        "Look for it in the terminal in which the viewer runs, and open it once in this browser."
    )


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """What every response says to a browser about what it may do with it."""
    response.headers.update(_HEADERS)
    for name, value in _USUAL_HEADERS.items():
        response.headers.setdefault(name, value)


def _is_same(one: str, other: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def cookie_name(request: web.Request) -> str:
    """The name of our cookie. Cookies are shared between the ports of a host, so that it has the port in it."""
    transport = request.transport
    port = transport.get_extra_info("sockname")[1] if transport else 0
    return f"seatrial-{port}"


def _check_sender(request: web.Request) -> None:
    """Refuse what a page of somebody else asks for, unless it is only that somebody followed a link there."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    foreign = site not in _OWN_SITES or (origin is not None and not _is_from_own_page(request))
    if foreign and not _is_navigation(request):
        raise web.HTTPForbidden(text="A page of another origin asked for this, and gets nothing from this viewer.")


def _is_from_own_page(request: web.Request) -> bool:
    """Whether a page of ours sent this. Forms of pages without a referrer say `null`; browsers then say it by a header
    that no page can set.
    """
    origin = request.headers.get("Origin")
    if origin is None or origin == "null":
        return request.headers.get("Sec-Fetch-Site") == "same-origin"
    return origin.lower() == f"http://{request.headers['Host']}".lower()


def _is_navigation(request: web.Request) -> bool:
    asked = {name: request.headers.get(f"Sec-Fetch-{name}") for name in ("Mode", "Dest")}
    is_page = asked == {"Mode": "navigate", "Dest": "document"}
    return is_page and request.method == "GET" and "Origin" not in request.headers
