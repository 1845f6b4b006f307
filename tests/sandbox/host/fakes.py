"""A gauge that says what a test wants, and sandboxes that have used so much."""

import asyncio
from pathlib import Path
from typing import Any

from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox.host import watch as watch_module
from seatrial.sandbox.host.disks import Gauge, Resource, Shortage
from seatrial.sandbox.host.watch import HostWatch

CAPACITY = 1000


def shortage(resource: Resource = "disk", *, place: str = "/full", passed: bool = False) -> Shortage:
    return Shortage(resource, place, f"the {resource} at {place} is short", CAPACITY, passed)


def found_by(gauge: Gauge) -> Shortage:
    """What a gauge finds short."""
    found = gauge.read()
    assert found is not None
    return found


class FakeGauge:
    """Short of something as long as `found` says so; one that has passed is told once."""

    def __init__(self, found: Shortage | None = None, place: str = "/full", left: int = CAPACITY) -> None:
        self.found = found
        self.place = place
        self._left = left
        self.closed = False

    def read(self) -> Shortage | None:
        found = self.found
        if found and found.passed:
            self.found = None
        return found

    def left(self) -> dict[Resource, int]:
        return {"disk": self._left, "memory": self._left, "processes": self._left, "inodes": self._left}

    def free(self, amount: int) -> None:
        self._left += amount

    def close(self) -> None:
        self.closed = True


class Hog:
    """A sandbox that has used so much, and whose agent was killed or not."""

    def __init__(self, used: int, **limits: int) -> None:
        self.limits_enforced = LimitSpec.model_validate(limits)
        self._used = used
        self.killed: list[str] = []

    async def usage(self) -> ResourceUse:
        return ResourceUse(disk_bytes=self._used, peak_memory_bytes=self._used)

    async def changes(self) -> FileChanges:
        return FileChanges(added=tuple(map(str, range(self._used))))

    async def processes(self) -> tuple[str, ...]:
        return ()

    async def kill_all(self, phase: str = "agent") -> None:
        self.killed.append(phase)


class FakeHost(HostWatch):
    """A machine with one file system, at /full, on which only sandboxes keep something."""

    def include(self, _: Path) -> str:
        return "/full"

    def place_of(self, _: Path) -> None:
        return None


def on_watch(gauge: FakeGauge) -> HostWatch:
    """The watch of this event loop, with that gauge instead of those of this machine."""
    watch = watch_module._watches[asyncio.get_running_loop()] = FakeHost([gauge])
    return watch


def furnished(attendance: Any, sandbox: Hog, place: str = "/full") -> Any:
    """An attendance whose agent is at work in a sandbox that keeps its files at a place."""
    attendance.sandbox, attendance.disk_place = sandbox, place
    attendance.agent_at_work = lambda: True
    return attendance


HERE = Path(__file__).parent
