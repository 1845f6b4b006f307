"""The viewer as a server: it listens before any job is read, and ends as soon as it is told to."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

from seatrial.errors import UsageError
from seatrial.view.access import ViewSettings
from seatrial.view.app import make_app

_LOG = logging.getLogger(__name__)
_HTTP_LOG = logging.getLogger(f"{__name__}.http")
_FULL = (errno.EMFILE, errno.ENFILE)
_SILENCE_SEC = 60.0


@asynccontextmanager
async def serving(settings: ViewSettings, listener: socket.socket) -> AsyncIterator[None]:
    """Serve while the block lasts. Pages that listen for news are let go of at once when it ends."""
    _HTTP_LOG.addFilter(_is_ours)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(ErrorLog())
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


class ErrorLog:
    """Logs what goes wrong between requests; that no more connections can be had, once a minute, not for each try."""

    def __init__(self) -> None:
        self._said: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _FULL:
            loop.default_exception_handler(context)
        elif self._said is None or loop.time() - self._said >= _SILENCE_SEC:
            self._said = loop.time()
            _LOG.error("too many connections at once, so that some have to wait (%s); close some pages", error.strerror)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether something is worth telling: not that a stranger sent what is no HTTP, and was told so."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


# The port

USUAL_PORT = 8765
_LISTENING = "0A"


def listen(host: str, port: int | None) -> socket.socket:
    """A socket to serve at. Without a port it is the usual one, or any other that is free.

    Raises UsageError that says why a port cannot be had, and by whom it is taken as far as that is known.
    """
    if port is None:
        try:
            return _bound(host, USUAL_PORT)
        except OSError:
            return listen(host, 0)
    try:
        return _bound(host, port)
    except OSError as error:
        why = _why(host, port, error)
        raise UsageError(f"{why}; choose another with --port, or a free one with --port 0") from None


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    listener.setblocking(False)
    return listener


def _why(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        owner = owner_of(port)
        return f"port {port} is in use" + (f" by {owner}" if owner else "")
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} is not for this user"
    return f"{host} port {port}: nobody can listen there ({error.strerror or error})"


def owner_of(port: int) -> str | None:
    """The process that listens at a port, by its number and name; None where that cannot be seen."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            owns = wanted and any(str(each.readlink()) in wanted for each in folder.iterdir())
        except OSError:
            continue
        if owns:
            pid = int(folder.parent.name)
            ours = " (this viewer)" if pid == os.getpid() else ""
            return f"process {pid}, {(folder.parent / 'comm').read_text().strip()}{ours}"
    return None


def _inodes(port: int) -> list[str]:
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        rows = (line.split() for line in lines)
        found += [row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port]
    return found
