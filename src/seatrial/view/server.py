"""The viewer as a server: it listens before any job is read, and ends as soon as it is told to."""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

from seatrial.view.app import make_app
from seatrial.view.settings import ViewSettings

_LOG = logging.getLogger(__name__)
_HTTP_LOG = logging.getLogger(f"{__name__}.http")
_FULL = (errno.EMFILE, errno.ENFILE)
_SILENCE_SEC = 60.0


@asynccontextmanager
async def serving(settings: ViewSettings, listener: socket.socket) -> AsyncIterator[None]:
    """Serve while the block lasts. Pages that listen for news are let go of at once when it ends."""
    _HTTP_LOG.addFilter(_is_ours)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(Troubles())
    runner = web.AppRunner(
        make_app(settings), access_log=None, handle_signals=False, shutdown_timeout=0.5, logger=_HTTP_LOG
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
        loop.set_exception_handler(None)


class Troubles:
    """Says what goes wrong between requests; that no more connections can be had, once a minute, not for each try."""

    def __init__(self) -> None:
        self._said: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Called by the loop."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _FULL:
            loop.default_exception_handler(context)
        elif self._said is None or loop.time() - self._said >= _SILENCE_SEC:
            self._said = loop.time()
            _LOG.error("too many connections at once, so that some have to wait (%s); close some pages", error.strerror)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether something is worth telling: not that a stranger sent what is no HTTP, and was told so."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
