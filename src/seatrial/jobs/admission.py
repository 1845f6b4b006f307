"""Who may start, and when: so many trials at once, so much declared memory, so many sandboxes being made.

And what this machine has: processors and memory.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from seatrial.sandbox.api import Capabilities, Sandbox, SandboxBackend, SandboxSpec

T = TypeVar("T")

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def cores() -> int:
    return len(os.sched_getaffinity(0))


def usual_slots() -> int:
    """How many trials run at once where nobody says so: they wait for models and clocks more than they compute."""
    return max(4, cores())


def machine_memory_mb() -> int:
    """The memory of this machine, or of the container we are in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # not there, or the word "max"
            total = min(total, int(path.read_text()))
    return total // 2**20


class Admission:
    """Lets in who comes first, at most `concurrent` at once, their declared memory together within `memory_mb`.

    Nobody overtakes: one that needs much waits at the head until there is room, so it gets its turn. One that
    needs more than there is runs alone.
    """

    def __init__(self, concurrent: int, memory_mb: int) -> None:
        self._places = concurrent
        self._memory = self._total = memory_mb
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, memory_mb: int | None, granted: T) -> AsyncIterator[T]:
        """A place for the length of a block, which gets what is `granted`; no declared memory counts as none."""
        need = min(memory_mb or 0, self._total)
        await self._enter(need)
        try:
            yield granted
        finally:
            self._leave(need)

    async def _enter(self, need: int) -> None:
        if not self._waiting and self._fits(need):
            self._take(need)
            return
        turn = asyncio.get_running_loop().create_future()
        waiter = (need, turn)
        self._waiting.append(waiter)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(need)  # let in and cancelled at the same moment
            else:
                with suppress(ValueError):  # it was passed over
                    self._waiting.remove(waiter)
                self._let_in()
            raise

    def _leave(self, need: int) -> None:
        self._places += 1
        self._memory += need
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            need, turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled, and has not had its turn to go
                self._take(need)
                turn.set_result(None)

    def _fits(self, need: int) -> bool:
        return self._places > 0 and need <= self._memory

    def _take(self, need: int) -> None:
        self._places -= 1
        self._memory -= need


class LimitedStarts:
    """A backend that makes at most `starting` sandboxes at the same time; more would only slow each other down."""

    def __init__(self, backend: SandboxBackend, starting: int) -> None:
        self._backend = backend
        self._turns = asyncio.Semaphore(starting)

    async def __aenter__(self) -> Self:
        await self._backend.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._backend.__aexit__(kind, error, trace)

    async def probe(self) -> Capabilities:
        return await self._backend.probe()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox, when it is its turn."""
        async with self._turns:
            return await self._backend.create(spec)
