"""A job on a machine that has no room: it waits, and says for what; after a long time it gives up."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from seatrial.errors import HostExhaustedError, StoreFullError
from seatrial.sandbox.host.watch import host_watch
from seatrial.trial.events import Notice, Observer

T = TypeVar("T")

_PAUSE_SEC = 1.0  # a quota may refuse us although the file system has room: nothing tells when it no longer does


@dataclass(frozen=True, slots=True)
class Room:
    """Waits `longest_sec` at most, then says how to `go_on`. Whoever watches the job is told what it waits for."""

    go_on: str
    longest_sec: float
    observe: Observer

    async def wait(self) -> None:
        """Return when this machine has what trials need. Raises HostExhaustedError when it lacks it for too long."""
        watch = host_watch()
        if (shortage := watch.shortage) is None:
            return
        self.observe(Notice(f"waiting: {shortage}; trials go on when there is room again"))
        try:
            await watch.wait_for_room(self.longest_sec)
        except HostExhaustedError as error:
            raise HostExhaustedError(f"{error}. Make room, then go on with {self.go_on}") from None

    async def use(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write something to the job's folder, as soon as there is room. Raises StoreFullError if there never is."""
        deadline = time.monotonic() + self.longest_sec
        while True:
            try:
                return await write()
            except StoreFullError:
                if time.monotonic() > deadline:
                    raise
            await self.wait()
            await asyncio.sleep(_PAUSE_SEC)
