"""What this machine can run out of, and the gauge of disks: how many bytes and inodes a file system has left.

The kernel has no event for a full file system, so it is looked at. Other gauges are in `gauges.py`.
"""

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

Resource = Literal["disk", "inodes", "processes", "memory", "time"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Shortage(NamedTuple):
    """This machine is out of a resource, or nearly so."""

    resource: Resource
    place: str
    """The file system, limit or control group."""
    message: str
    capacity: int
    """How much there is of it altogether."""
    passed: bool = False
    """It was an event of the kernel's, such as a process killed for want of memory: nobody waits for its end."""


class Gauge(Protocol):
    """Measures one thing, in microseconds: it is read several times a second while trials run."""

    place: str
    """Tells it from all others."""

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
    size = float(count)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes everything")


_BYTES_PER_SEC = 2 * 2**30
"""The fastest that anybody fills a file system; one in memory takes about that."""

_INODES_PER_SEC = 200_000
_LEAST_BYTES, _LEAST_INODES = 64 * 2**20, 1000
_SHARE = 16  # on small file systems a sixteenth is the least

FULL = (errno.ENOSPC, errno.EDQUOT)


def raise_if_full(error: Exception) -> None:
    """Raise it once more if it says that a disk of this machine is full: nobody may take that for something else."""
    if isinstance(error, OSError) and error.errno in FULL:
        raise error


def spare_bytes(folder: Path) -> int:
    """How much may be put on the file system of a folder without making room scarce there; the folder may come yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    found = os.statvfs(existing)
    size = found.f_blocks * found.f_frsize
    return max(0, found.f_bavail * found.f_frsize - 2 * min(_LEAST_BYTES, size // _SHARE))


class Disk:
    """The file system that a folder is on. It is held open: folders of runs and trials come and go.

    Raises OSError when the folder is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.device = os.fstat(self._handle).st_dev
        self.place = str(mount_point(folder))
        self._free = self._inodes = 0
        self._counts_inodes = False
        self._lacking: Resource | None = None

    def read(self) -> Shortage | None:
        """Whether less than the least is free for those who are not root."""
        found = os.fstatvfs(self._handle)
        self._free, self._inodes = found.f_bavail * found.f_frsize, found.f_favail
        self._counts_inodes = found.f_files > 0  # some file systems make them as they are needed
        size = found.f_blocks * found.f_frsize
        if size and self._free < self._least("disk", size):
            return self._short("disk", f"{in_bytes(self._free)} free of {in_bytes(size)}", size)
        if self._counts_inodes and self._inodes < self._least("inodes", found.f_files):
            left = f"{self._inodes:,} inodes free of {found.f_files:,}, so no more files can be made"
            return self._short("inodes", left, found.f_files)
        self._lacking = None
        return None

    def _least(self, resource: Resource, capacity: int) -> int:
        """What must be free; once it was short, twice as much, so that trials do not start only to be void again."""
        least = _LEAST_BYTES if resource == "disk" else _LEAST_INODES
        return min(least, capacity // _SHARE) * (2 if self._lacking == resource else 1)

    def _short(self, resource: Resource, left: str, capacity: int) -> Shortage:
        self._lacking = resource
        return Shortage(resource, self.place, f"the file system at {self.place} is full ({left})", capacity)

    def left(self) -> Mapping[Resource, int]:
        return {"disk": self._free, "inodes": self._inodes}

    def lasts_sec(self) -> float:
        """How long what is free lasts even if it is filled as fast as can be."""
        inodes = self._inodes / _INODES_PER_SEC if self._counts_inodes else float("inf")
        return min(self._free / _BYTES_PER_SEC, inodes)

    def close(self) -> None:
        os.close(self._handle)


def mount_point(folder: Path) -> Path:
    """Where the file system of a folder is mounted, by the kernel's own list."""
    real = folder.resolve()
    points = [_unescape(line.split(" ")[4]) for line in _mounts()]
    on_the_way = [Path(point) for point in points if real.is_relative_to(point)]
    return max(on_the_way, key=lambda point: len(point.parts), default=Path("/"))


def _mounts() -> list[str]:
    try:
        return Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
