"""What this machine can run out of, as values: one shortage, and what a gauge is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Resource = Literal["disk", "inodes", "processes", "memory", "time"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Shortage:
    """This machine is out of a resource, or nearly so. `capacity` is what there is of it altogether.

    `place` names the file system, limit or control group. One that `passed` was an event of the kernel's, such as a
    process killed for want of memory: nobody has to wait for its end.
    """

    resource: Resource
    place: str
    message: str
    capacity: int
    passed: bool = False


class Gauge(Protocol):
    """Measures one thing, in microseconds: it is read several times a second while trials run.

    `place` tells it from all others.
    """

    place: str

    def read(self) -> Shortage | None:
        """What is short now, or was since it was last read."""
        ...

    def left(self) -> Mapping[Resource, int]:
        """How much was left when it was last read."""
        ...

    def close(self) -> None:
        """Let go of what it holds open."""
        ...


def in_bytes(count: int) -> str:
    """A number of bytes as people read it."""
    size = float(count)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes everything")
