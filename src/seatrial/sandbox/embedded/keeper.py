"""Keeping a spawner: one that has died is replaced, so that it takes along the trials it ran and no other.

Spawners that die one after the other without a single sandbox having come to its end are a broken machine, not bad
luck: then no more are started, and everybody who wants a sandbox is told why.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.embedded.home import SpawnerHome

MOST_DEATHS = 5


class SpawnerKeeper:
    """Has the home of a living spawner for whoever makes a sandbox. `open_home` opens a new one."""

    def __init__(self, home: SpawnerHome, open_home: Callable[[], Awaitable[SpawnerHome]]) -> None:
        self._open_home = open_home
        self._replacing = asyncio.Lock()
        self._deaths = 0
        self.home = home

    async def living(self) -> SpawnerHome:
        """The home of a spawner that serves, a new one if need be. Raises SandboxError when all of them die."""
        if self.home.alive:
            return self.home
        async with self._replacing:
            if not self.home.alive:
                self.home = await self._replacement()
            return self.home

    async def _replacement(self) -> SpawnerHome:
        self._deaths = 1 if self.home.proven else self._deaths + 1
        if self._deaths >= MOST_DEATHS:
            raise SandboxError(
                f"{MOST_DEATHS} sandbox spawners in a row ended before one sandbox was done with, so no more are "
                f"started; the last: {self.home.client.end}. Find out what kills them, then go on"
            )
        with suppress(SandboxError):  # what does not end now must not stop this run; the next one clears it away
            await self.home.give_up()
        try:
            return await self._open_home()
        except HostUnsupportedError as error:
            raise SandboxError(f"{self.home.client.end}; a new one cannot be started: {error}") from error
