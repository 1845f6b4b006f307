"""The web application: routes, and what all of its handlers share."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from aiohttp import web

from seatrial.view.guard import Guard, add_headers
from seatrial.view.hosts import host_names
from seatrial.view.late_pages import LatePages
from seatrial.view.links import Links
from seatrial.view.settings import ViewSettings
from seatrial.view.templating import prepare

if TYPE_CHECKING:
    from seatrial.view.library import Library
    from seatrial.view.live import Live


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


def make_app(settings: ViewSettings) -> web.Application:
    """The application that shows the jobs in the folders of the settings."""
    from seatrial.view import error_pages, login, static_files  # noqa: PLC0415 - pages need the keys above

    guard = Guard(settings, host_names(settings.host))
    app = web.Application(middlewares=[error_pages.errors_as_pages, guard.answer])
    app[VIEW], app[GUARD], app[CLOSING] = Viewer(settings), guard, asyncio.Event()
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_close)
    app.cleanup_ctx.append(_read_ahead)
    for pages in (static_files, login, app[VIEW].pages):
        app.router.add_routes(pages.routes())
    return app


async def _close(app: web.Application) -> None:
    """Let go of those who would listen for ever."""
    app[CLOSING].set()


async def _read_ahead(app: web.Application) -> AsyncIterator[None]:
    """Import the pages and read the jobs while nobody has asked for any yet, one after the other."""
    closing, view = app[CLOSING], app[VIEW]

    def read() -> None:
        view.pages.load("pages.jobs", "pages.job")
        prepare("jobs.html.jinja", "job.html.jinja", "overview.html.jinja")
        for _ in view.library.cards():
            if closing.is_set():
                return
        view.pages.load()

    # Not a thread of the loop's own: those are waited for at the end, and nobody who presses Ctrl-C wants to wait.
    threading.Thread(target=read, name="seatrial-read-ahead", daemon=True).start()
    yield


def html(text: str, status: int = 200) -> web.Response:
    """A page as a response."""
    return web.Response(text=text, status=status, content_type="text/html")
