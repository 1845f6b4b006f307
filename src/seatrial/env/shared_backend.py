"""SharedBackend: one sandbox backend with its images for all rollouts of an environment, open as long as it is used.

To open one takes longer than a small rollout, so it stays open for a moment, in case somebody comes back. An
environment may be used from several event loops, one after the other or in threads; a backend belongs to one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seatrial.backends.named import check_backend
from seatrial.concurrency import finish
from seatrial.sandbox.api import SandboxBackend

if TYPE_CHECKING:
    from seatrial.trial.machinery import Machinery

_LINGER_SEC = 2.0

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Kept:
    """What is open in one event loop, and how many use it."""

    ready: "asyncio.Future[Machinery]"
    users: int = 0
    closing: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self, users: int) -> None:
        self.users += users
        self.changed.set()

    async def until_unwanted(self) -> None:
        """Wait until nobody has used it for a moment, or nobody does and it is to be closed."""
        while self.users or not self.closing:
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), None if self.users else _LINGER_SEC)
            except TimeoutError:
                self.closing = True
            except asyncio.CancelledError:  # the event loop ends; those who still use it are ending too
                self.closing = True
                await finish(self.until_unwanted())
                raise


class SharedBackend:
    """A backend by name, opened for the first who uses it and closed after the last; or an open one of the caller's.

    What is worth telling of its images is logged. Raises UsageError for a name that there is not.
    """

    def __init__(self, given: str | SandboxBackend) -> None:
        if isinstance(given, str):
            check_backend(given)
        self._given = given
        self._kept: dict[asyncio.AbstractEventLoop, _Kept] = {}
        self._keepers: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self) -> AsyncIterator["Machinery"]:
        """The backend, open at least as long as the block lasts. Raises HostUnsupportedError or SandboxError."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None:
            kept = self._kept[loop] = _Kept(loop.create_future())
            # It outlives whoever was the last to use it; the end of the event loop ends it too.
            keeper = asyncio.create_task(self._keep(kept))
            self._keepers.add(keeper)
            keeper.add_done_callback(self._keepers.discard)
        kept.change(+1)
        try:
            yield await asyncio.shield(kept.ready)
        finally:
            kept.change(-1)

    async def close(self) -> None:
        """Close the backend of this event loop as soon as nobody uses it; waits for that unless somebody does."""
        kept = self._kept.get(asyncio.get_running_loop())
        if kept is not None:
            kept.closing = True
            kept.change(0)
            if not kept.users:
                await asyncio.wait([keeper for keeper in self._keepers if keeper.get_loop() is kept.ready.get_loop()])

    async def _keep(self, kept: _Kept) -> None:
        try:
            async with AsyncExitStack() as stack:
                kept.ready.set_result(await self._open(stack))
                try:
                    await kept.until_unwanted()
                finally:
                    self._forget(kept)  # before it closes: whoever comes now opens another one
        except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
            self._forget(kept)
            if kept.ready.done():
                _log.exception("the backend %s did not close as it should", self._given)
            else:
                kept.ready.set_exception(error)
                kept.ready.exception()  # seen: there may be nobody left to raise it

    async def _open(self, stack: AsyncExitStack) -> "Machinery":
        from seatrial.jobs.machinery import open_machinery  # noqa: PLC0415 - much, and only needed to run something

        opening = open_machinery(self._given, say=lambda line: _log.warning("%s", line))
        return await stack.enter_async_context(opening)

    def _forget(self, kept: _Kept) -> None:
        if self._kept.get(kept.ready.get_loop()) is kept:
            del self._kept[kept.ready.get_loop()]
