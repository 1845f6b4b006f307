"""Pages that are imported when they are first asked for: together they take as long as all else before a first answer.

What is where is written here once more, because a server must know its addresses before it starts.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from importlib import import_module

from aiohttp import web
from aiohttp.typedefs import Handler

_TRIAL = "/jobs/{job}/trials/{trial}"
_DESK = "/api/desk/{desk}/"
_ITEM = f"{_DESK}items/{{item}}"
_NUMBER = "{number:[0-9]{1,6}}"

PAGES: Mapping[str, tuple[str, ...]] = {
    "events": ("GET /api/jobs/{job}/events", "GET /api/events"),
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
        """Where all pages are."""
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
