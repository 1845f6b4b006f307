"""Who may ask for what: a check of every request before any page is made.

A viewer is reached by every program of this machine and by every page that a browser has open. So a request must name
this machine as its host, must not come from a page of somebody else, and must bring the token that was printed. What
would write needs a header as well, which no form of a foreign page can send.
"""

import hmac
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler

from seatrial.view.hosts import HostNames
from seatrial.view.settings import ViewSettings

WRITE_HEADER = "X-Seatrial"
"""What our own scripts send with everything that writes, with any value."""

LOGIN = "/login"
_PUBLIC = ("/static/", LOGIN)
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
        """Answer a request if it may be answered."""
        self._check_host(request)
        _check_sender(request)
        if request.method not in _READS:
            self._check_write(request)
        if "token" in request.query and request.method == "GET" and self.settings.password is None:
            return self._let_in(request)
        if not request.path.startswith(_PUBLIC) and not self.is_admitted(request):
            raise self._refusal(request)
        return await handler(request)

    def is_admitted(self, request: web.Request) -> bool:
        """Whether a request brings the token, as our cookie or as a bearer's."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        brought = [request.cookies.get(cookie_name(request), ""), bearer if scheme.lower() == "bearer" else ""]
        return any(is_same(each, self.settings.token) for each in brought)

    def admit(self, request: web.Request, response: web.StreamResponse) -> None:
        """Give a browser the cookie by which it is known from now on."""
        response.set_cookie(cookie_name(request), self.settings.token, httponly=True, samesite="Strict", path="/")

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
        if request.path == LOGIN:
            return
        if WRITE_HEADER not in request.headers:
            raise web.HTTPForbidden(text=f"A request that writes needs the header {WRITE_HEADER}, and has none.")
        if self.settings.access == "read":
            raise web.HTTPForbidden(
                text="This viewer was started with --read-only, so nothing is written. Start it without, to review."
            )

    def _let_in(self, request: web.Request) -> web.Response:
        """Keep the token as a cookie, and take it out of the address, which is seen and kept in more places."""
        if not is_same(request.query["token"], self.settings.token):
            raise self._refusal(request)
        query = {name: value for name, value in request.query.items() if name != "token"}
        # Never "//host/": that would be another machine.
        path = "/" + request.raw_path.partition("?")[0].lstrip("/\\")
        target = f"{path}?{urlencode(query)}" if query else path
        # A browser that was sent here by somebody else would not bring a strict cookie along a redirect.
        strangers = request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES
        headers = {"Refresh": f"0; url={target}"} if strangers else {"Location": target}
        response = web.Response(status=200 if strangers else 303, headers=headers, text="One moment …")
        self.admit(request, response)
        return response

    def _refusal(self, request: web.Request) -> web.HTTPException:
        if self.settings.password is not None and request.method == "GET" and not request.path.startswith("/api/"):
            return web.HTTPSeeOther(f"{LOGIN}?{urlencode({'next': request.path_qs})}")
        return web.HTTPForbidden(
            text="This needs the address with a token that `seatrial view` printed when it was started. "
            "Look for it in the terminal in which the viewer runs, and open it once in this browser."
        )


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """What every response says to a browser about what it may do with it."""
    response.headers.update(_HEADERS)
    for name, value in _USUAL_HEADERS.items():
        response.headers.setdefault(name, value)


def is_same(one: str, other: str) -> bool:
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
