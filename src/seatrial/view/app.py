"""The web application: the addresses of all pages, what their handlers share, and errors as pages.

Pages themselves are in `pages`, `live` and `review`; this module must start fast and imports none of them.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Handler

from seatrial.errors import JobError, SeatrialError, UsageError
from seatrial.view.access import Guard, ViewSettings, add_headers, host_names
from seatrial.view.links import Links
from seatrial.view.templating import prepare, render

if TYPE_CHECKING:
    from seatrial.view.library import Library
    from seatrial.view.live import Live

# Pages are imported when they are first asked for: together they take as long as all else before a first answer. Their
# addresses are written here too, because a server must know them before it starts.

_TRIAL = "/jobs/{job}/trials/{trial}"
_DESK = "/api/desk/{desk}/"
_ITEM = f"{_DESK}items/{{item}}"
_NUMBER = "{number:[0-9]{1,6}}"

PAGES: Mapping[str, tuple[str, ...]] = {
    "live": ("GET /api/jobs/{job}/events", "GET /api/events"),
    "pages.jobs": ("GET /",),
    "pages.job": ("GET /jobs/{job}/", "GET /api/jobs/{job}/trials"),
    "pages.compare": ("GET /compare",),
    "pages.files": (f"GET {_TRIAL}/files/{{path:.+}}", f"GET {_TRIAL}/raw/{{path:.+}}"),
    "pages.trial": (
        f"GET {_TRIAL}/",
        f"GET {_TRIAL}/conversation",
        f"GET {_TRIAL}/change",
        f"GET /api{_TRIAL}/turns",
    ),
    "pages.review": (
        "GET /review/{job}/",
        "GET /settle/{job}/",
        "GET /desk/{desk}/",
        "GET /desk/{desk}/settle/",
        f"GET {_DESK}queue",
        f"GET {_DESK}categories",
        f"GET {_DESK}adjudication",
        f"GET {_DESK}settlement",
        f"GET {_ITEM}",
        f"GET {_ITEM}/files/{_NUMBER}",
        f"GET {_ITEM}/raw/{_NUMBER}",
        f"GET {_ITEM}/difference",
        f"POST {_ITEM}/verdict",
        f"POST {_ITEM}/adjudication",
        f"POST {_ITEM}/undo",
    ),
}
"""The modules of this package that have pages, with the method and the address of each."""

_ROUTES: Mapping[str, Callable[[str, Handler], web.RouteDef]] = {"GET": web.get, "POST": web.post}


def place_of(route: web.RouteDef) -> str:
    """The method and the address of a route, as they are in PAGES."""
    return f"{route.method} {route.path}"


class LatePages:
    """The pages of one viewer. Each module is asked for its handlers once."""

    def __init__(self) -> None:
        self._handlers: dict[str, dict[str, Handler]] = {}
        self._loading = threading.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [self._route(module, place) for module, places in PAGES.items() for place in places]

    def load(self, *modules: str) -> None:
        """Import those of some modules, or all of them, so that nobody has to wait for it."""
        for module in modules or PAGES:
            self._load(module)

    def _route(self, module: str, place: str) -> web.RouteDef:
        async def answer(request: web.Request) -> web.StreamResponse:
            if module not in self._handlers:
                await asyncio.to_thread(self._load, module)
            return await self._handlers[module][place](request)

        method, _, address = place.partition(" ")
        return _ROUTES[method](address, answer)

    def _load(self, module: str) -> None:
        with self._loading:
            if module not in self._handlers:
                routes: list[web.RouteDef] = import_module(f"seatrial.view.{module}").routes()
                self._handlers[module] = {place_of(route): route.handler for route in routes}


@dataclass(eq=False)
class Viewer:
    """What a page is made from. Jobs are read by what is slow to import, so that is done when one is asked for."""

    settings: ViewSettings
    links: Links = field(default_factory=Links)
    pages: LatePages = field(default_factory=LatePages)
    _making: threading.Lock = field(default_factory=threading.Lock)
    _library: "Library | None" = None

    @property
    def library(self) -> "Library":
        """The jobs that are shown; any number of threads may ask."""
        with self._making:
            if self._library is None:
                from seatrial.view.library import Library  # noqa: PLC0415 - slow to import

                self._library = Library(self.settings.folders)
            return self._library

    @cached_property
    def live(self) -> "Live":
        """The jobs that pages watch; for the thread of the server alone."""
        from seatrial.view.live import Live  # noqa: PLC0415 - slow to import

        return Live(self.library)


VIEW = web.AppKey("view", Viewer)
GUARD = web.AppKey("guard", Guard)
CLOSING = web.AppKey("closing", asyncio.Event)
"""Set when the viewer ends."""

_FIRST_ANSWER_SEC = 2.0


def make_app(settings: ViewSettings) -> web.Application:
    """The application that shows the jobs in the folders of the settings."""
    from seatrial.view import static_files  # noqa: PLC0415 - help needs no files

    guard = Guard(settings, host_names(settings.host))
    app = web.Application(middlewares=[errors_as_pages, guard.answer])
    app[VIEW], app[GUARD], app[CLOSING] = Viewer(settings), guard, asyncio.Event()
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_close)
    app.cleanup_ctx.append(_read_ahead)
    for pages in (static_files, app[VIEW].pages):
        app.router.add_routes(pages.routes())
    return app


async def _close(app: web.Application) -> None:
    """Let go of those who would listen for ever."""
    app[CLOSING].set()


async def _read_ahead(app: web.Application) -> AsyncIterator[None]:
    """Import the pages and read the jobs while nobody has asked for any yet, one after the other.

    What most people look at first comes first, and the rest after a while: it must not slow down the first answer.
    """
    ended, view = threading.Event(), app[VIEW]

    def read() -> None:
        view.pages.load("pages.jobs", "pages.job")
        prepare("jobs.html.jinja", "job.html.jinja", "overview.html.jinja")
        for _ in view.library.cards():
            if ended.is_set():
                return
        if not ended.wait(_FIRST_ANSWER_SEC):
            view.pages.load()

    # Not a thread of the loop's own: those are waited for at the end, and nobody who presses Ctrl-C wants to wait.
    threading.Thread(target=read, name="seatrial-read-ahead", daemon=True).start()
    yield
    ended.set()


def html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")


# Errors as a page or as JSON: our own say what to do, all others only that they are in the log.

_LOG = logging.getLogger(__name__)
_TITLES = {400: "That cannot be shown", 403: "Not allowed", 404: "Not found"}
_FOUND_NOTHING = "There is no page at this address."


@web.middleware
async def errors_as_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with what a handler raises."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        response = _error(request, error.status, _error_text(error))
        response.headers.update(
            {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
        )
        return response
    except SeatrialError as error:
        return _error(request, _status_of(error), str(error))
    except ConnectionError:
        raise  # whoever asked is gone
    except Exception:  # noqa: BLE001 - whatever it is, others are still to be answered
        _LOG.exception("%s %s", request.method, request.path)
        return _error(request, 500, "The viewer failed at this. What happened is in the terminal in which it runs.")


def _error_text(error: web.HTTPException) -> str:
    """What a handler said, or what there is to say where it said nothing."""
    if error.text and error.text != f"{error.status}: {error.reason}":
        return error.text
    return _FOUND_NOTHING if error.status == 404 else f"{error.reason}."


def _status_of(error: SeatrialError) -> int:
    if isinstance(error, JobError):
        return 404
    return 400 if isinstance(error, UsageError) else 500


def _error(request: web.Request, status: int, text: str) -> web.Response:
    if request.path.startswith("/api/"):
        return web.json_response({"error": text}, status=status)
    title = _TITLES.get(status, "Something went wrong")
    page = render("error.html.jinja", Links(), title=title, text=text)
    return web.Response(text=page, status=status, content_type="text/html")
