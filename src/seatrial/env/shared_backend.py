"""SharedBackend: one sandbox backend for all rollouts of an environment, open as long as somebody uses it.

An environment may be used from several event loops, one after the other or in threads; a backend belongs to one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from seatrial.concurrency import finish
from seatrial.jobs.admission import LimitedStarts, cores
from seatrial.jobs.backends import check_backend, make_backend
from seatrial.sandbox.api import SandboxBackend


@dataclass(eq=False, slots=True)
class _Opened:
    """A backend of ours in one event loop."""

    opening: "asyncio.Future[SandboxBackend]"
    users: int = 0


class SharedBackend:
    """A backend by name, opened for the first who uses it and closed after the last; or an open one of the caller's.

    Raises UsageError for a name that there is not.
    """

    def __init__(self, given: str | SandboxBackend) -> None:
        if isinstance(given, str):
            check_backend(given)
        self._given = given
        self._opened: dict[asyncio.AbstractEventLoop, _Opened] = {}

    @asynccontextmanager
    async def use(self) -> AsyncIterator[SandboxBackend]:
        """The backend, open at least as long as the block lasts. Raises HostUnsupportedError or SandboxError."""
        if not isinstance(self._given, str):
            yield self._given
            return
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            opened = self._opened[loop] = _Opened(asyncio.ensure_future(_open(self._given)))
        opened.users += 1
        try:
            yield await asyncio.shield(opened.opening)
        finally:
            opened.users -= 1
            if not opened.users:
                del self._opened[loop]
                await finish(_close(opened.opening))


async def _open(name: str) -> SandboxBackend:
    return await LimitedStarts(make_backend(name), 2 * cores()).__aenter__()


async def _close(opening: "asyncio.Future[SandboxBackend]") -> None:
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().__aexit__(None, None, None)
