"""Whether the memory of this machine, or of the control groups we are in, ran out.

The kernel counts the processes it killed for want of memory, but in one number for all reasons: a sandbox that used up
its own limit is among them, and so is a stranger's container. Only when the machine itself is short do allocations
stall (`allocstall`), and only then is a kill the machine's.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seatrial.sandbox.host.shortage import Resource, Shortage, in_bytes
from seatrial.sandbox.own_groups import OwnGroup, own_groups

_LEAST_BYTES, _SHARE = 64 * 2**20, 64
_UNLIMITED = 2**60  # version 1 says so with a number about as large as there are
_EVENTS = re.compile(rb"\n(allocstall\w*|oom_kill) (\d+)")
_SIZES = re.compile(rb"(MemTotal|MemAvailable|SwapFree): +(\d+) kB")


class _Counts(NamedTuple):
    kills: int
    stalls: int
    groups: tuple[int, ...]


class Memory:
    """The memory of this machine; `proc` is where the kernel tells about it."""

    place = "memory"

    def __init__(self, groups: Sequence[OwnGroup] | None = None, proc: str = "/proc") -> None:
        found = own_groups("memory") if groups is None else groups
        self._groups = [group for group in found if _limit(group) is not None]
        self._proc = proc
        self._total = self._available = 0
        self._counts = self._count()

    def read(self) -> Shortage | None:
        """Whether hardly any memory is left, or somebody was killed for want of it since it was last read."""
        before, self._counts = self._counts, self._count()
        self._measure()
        if self._available < min(_LEAST_BYTES, self._total // _SHARE):
            left = f"{in_bytes(self._available)} left of {in_bytes(self._total)}"
            return Shortage("memory", self.place, f"this machine is out of memory ({left})", self._total)
        killed = self._counts.kills > before.kills
        if killed and self._counts.stalls > before.stalls:
            message = f"this machine ran out of memory ({in_bytes(self._total)}), and its kernel killed processes"
            return Shortage("memory", self.place, message, self._total, passed=True)
        for group, then, now in zip(self._groups, before.groups, self._counts.groups, strict=True):
            if now > then and (killed or group.version == 2):
                limit = _limit(group) or 0
                message = f"the control group {group.path} ran out of memory (its limit is {in_bytes(limit)})"
                return Shortage("memory", str(group.path), message, limit, passed=True)
        return None

    def _count(self) -> _Counts:
        events = _EVENTS.findall(_read(f"{self._proc}/vmstat"))
        kills = sum(int(count) for name, count in events if name == b"oom_kill")
        stalls = sum(int(count) for name, count in events if name != b"oom_kill")
        return _Counts(kills, stalls, tuple(map(_times_short, self._groups)))

    def _measure(self) -> None:
        found = {name: int(kibibytes) * 1024 for name, kibibytes in _SIZES.findall(_read(f"{self._proc}/meminfo"))}
        self._total = found.get(b"MemTotal", 0)
        self._available = found.get(b"MemAvailable", 0) + found.get(b"SwapFree", 0)

    def left(self) -> Mapping[Resource, int]:
        """How much memory is free, or can be made so."""
        return {"memory": self._available}

    def close(self) -> None:
        """Nothing is held open."""


def _limit(group: OwnGroup) -> int | None:
    found = group.number("memory.max" if group.version == 2 else "memory.limit_in_bytes")
    return None if found is None or found >= _UNLIMITED else found


def _times_short(group: OwnGroup) -> int:
    """How often the limit of the group itself was in the way; limits below it do not count.

    Version 1 also counts what could be helped by forgetting cached files, so a kill has to come with it.
    """
    if group.version == 2:
        return group.number("memory.events.local", "oom") or 0
    return group.number("memory.failcnt") or 0


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 65536)
    finally:
        os.close(handle)
