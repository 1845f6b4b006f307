"""The web application: routes, and what all of its handlers share."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web

from seatrial.view.guard import Guard, add_headers
from seatrial.view.hosts import host_names
from seatrial.view.library import Library
from seatrial.view.links import Links
from seatrial.view.live import Live
from seatrial.view.settings import ViewSettings


@dataclass(eq=False, slots=True)
class Viewer:
    """What a page is made from."""

    settings: ViewSettings
    library: Library
    links: Links


VIEW = web.AppKey("view", Viewer)
GUARD = web.AppKey("guard", Guard)
LIVE = web.AppKey("live", Live)
CLOSING = web.AppKey("closing", asyncio.Event)
"""Set when the viewer ends."""


def make_app(settings: ViewSettings) -> web.Application:
    """The application that shows the jobs in the folders of the settings."""
    from seatrial.view import error_pages, events, login, static_files  # noqa: PLC0415 - pages need the keys above
    from seatrial.view.pages import compare, files, job, jobs, review, trial  # noqa: PLC0415

    guard = Guard(settings, host_names(settings.host))
    app = web.Application(middlewares=[error_pages.errors_as_pages, guard.answer])
    app[VIEW], app[GUARD] = Viewer(settings, Library(settings.folders), Links()), guard
    app.on_response_prepare.append(add_headers)
    app[LIVE], app[CLOSING] = Live(app[VIEW].library), asyncio.Event()
    app.on_shutdown.append(_close)
    app.cleanup_ctx.append(_read_ahead)
    for pages in (static_files, login, events, jobs, job, compare, files, trial, review):
        app.router.add_routes(pages.routes())
    return app


async def _close(app: web.Application) -> None:
    """Let go of those who would listen for ever."""
    app[CLOSING].set()


async def _read_ahead(app: web.Application) -> AsyncIterator[None]:
    """Read the jobs while nobody has asked for any yet, one after the other."""
    closing, library = app[CLOSING], app[VIEW].library

    def read() -> None:
        for _ in library.cards():
            if closing.is_set():
                return

    # Not a thread of the loop's own: those are waited for at the end, and nobody who presses Ctrl-C wants to wait.
    threading.Thread(target=read, name="seatrial-read-ahead", daemon=True).start()
    yield


def html(text: str, status: int = 200) -> web.Response:
    """A page as a response."""
    return web.Response(text=text, status=status, content_type="text/html")
