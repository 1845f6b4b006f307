"""The viewer as a server: it listens before any job is read, and ends as soon as it is told to."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from seatrial.view.app import make_app
from seatrial.view.settings import ViewSettings


@asynccontextmanager
async def serving(settings: ViewSettings, listener: socket.socket) -> AsyncIterator[None]:
    """Serve while the block lasts. Pages that listen for news are let go of at once when it ends."""
    runner = web.AppRunner(make_app(settings), access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
