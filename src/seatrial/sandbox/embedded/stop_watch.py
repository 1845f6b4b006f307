"""Watching a process that we wait for and that nobody else would notice to be stopped."""

import asyncio
from collections.abc import Callable

from seatrial.sandbox.embedded.watch import LOOK_SEC, Watch, look_at


class StopWatch:
    """Kills a process that is stopped and does not go on, for the length of a block; it may be silent and idle."""

    def __init__(self, pid: int, kill: Callable[[], None]) -> None:
        self._pid = pid
        self._kill = kill
        self._watch = Watch()
        self._next: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._look_later()

    def __exit__(self, *_: object) -> None:
        if self._next:
            self._next.cancel()

    def _look_later(self) -> None:
        self._next = asyncio.get_running_loop().call_later(LOOK_SEC, self._look)

    def _look(self) -> None:
        self._watch.heard()
        if self._watch.note(look_at(self._pid)):
            self._kill()
        else:
            self._look_later()
