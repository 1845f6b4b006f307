"""Gauges of memory, of processes, and of time that passed while this process was stopped.

The kernel counts the processes it killed for want of memory, but in one number for all reasons: a sandbox that used up
its own limit is among them, and so is a stranger's container. Only when the machine itself is short do allocations
stall (`allocstall`), and only then is a kill the machine's. Disks are in `disks.py`, and `watch.py` reads them all.
"""

import _thread
import os
import re
import resource
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, process_time
from typing import NamedTuple

from seatrial.sandbox.control_group import read
from seatrial.sandbox.host.disks import Resource, Shortage, in_bytes
from seatrial.sandbox.processor import OwnGroup, own_groups

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


# Processes: limits of the kernel, of our user and of our control groups. A sandbox that hits its own limit is to blame.

_LEAST, _SHARE_OF_PROCESSES = 16, 16
_KERNEL_LIMITS = ("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max")


def _user_limit() -> int | None:
    """How many processes our user may have; root may have any number."""
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return None if os.geteuid() == 0 or soft == resource.RLIM_INFINITY else soft


def can_start(count: int) -> bool:
    """Whether so many more threads can be started right now: the only exact answer to what a user's limit leaves.

    The kernel counts processes of our sandboxes with ours, and tells nobody how many there are.
    """
    hold, ended = threading.Lock(), threading.Semaphore(0)

    def wait() -> None:
        with hold:
            ended.release()

    started = 0
    with hold:
        try:
            for _ in range(count):
                _thread.start_new_thread(wait, ())  # a Thread would be waited for, ten times as long
                started += 1
        except RuntimeError:
            pass
    for _ in range(started):
        ended.acquire()
    return started == count


class HostProcesses:
    """The room for processes of this machine, of our user and of our own control groups."""

    place = "processes"

    def __init__(
        self,
        groups: Sequence[OwnGroup] | None = None,
        user_limit: int | None = None,
        try_to_start: Callable[[int], bool] = can_start,
    ) -> None:
        self._groups = own_groups("pids") if groups is None else groups
        self._user_limit = _user_limit() if user_limit is None else user_limit
        self._try_to_start = try_to_start
        self._kernel_limit = min(int(Path(limit).read_text()) for limit in _KERNEL_LIMITS)
        self._refused = self._refusals()
        self._left = self._kernel_limit

    def read(self) -> Shortage | None:
        """Whether hardly any process can be started any more, or one of our control groups refused one since."""
        total = int(read("/proc/loadavg").split()[3].partition("/")[2])  # all threads of this machine
        self._left = self._kernel_limit - total
        if self._left < _margin(self._kernel_limit):
            return _short("this machine", total, self._kernel_limit)
        if self._user_limit is not None and self._user_is_short(self._user_limit, total):
            return _short("this user (`ulimit -u`)", self._user_limit, self._user_limit)
        return self._group_shortage()

    def _user_is_short(self, limit: int, total: int) -> bool:
        """While the whole machine has fewer processes than the user may have, there is no need to try."""
        return total >= limit - _margin(limit) and not self._try_to_start(_margin(limit))

    def _group_shortage(self) -> Shortage | None:
        before, self._refused = self._refused, self._refusals()
        for group in self._groups:
            limit, current = group.number("pids.max"), group.number("pids.current")
            if limit is not None and current is not None and current >= limit - _margin(limit):
                return _short(f"the control group {group.path}", current, limit)
        for group, refused in self._refused.items():
            if refused > before.get(group, 0):
                return _short(f"the control group {group.path}", group.number("pids.max") or 0, None, passed=True)
        return None

    def _refusals(self) -> dict[OwnGroup, int]:
        """How often the limit of each group itself was hit; without `.local` the limits below it would count too."""
        counted = {group: group.number("pids.events.local", "max") for group in self._groups}
        return {group: count for group, count in counted.items() if count is not None}

    def left(self) -> Mapping[Resource, int]:
        """How many processes the kernel has left."""
        return {"processes": self._left}

    def close(self) -> None:
        """Nothing is held open."""


def _margin(limit: int) -> int:
    return max(1, min(_LEAST, limit // _SHARE_OF_PROCESSES))


def _short(whose: str, current: int, limit: int | None, *, passed: bool = False) -> Shortage:
    count = f"{current:,} of {limit:,}" if limit else f"the limit is {current:,}"
    return Shortage("processes", whose, f"{whose} cannot have more processes ({count})", limit or current, passed)


# Pauses, by Ctrl-Z, a batch system or a debugger. Clocks run on, and agents with them or without: a time-out that ends
# afterwards means nothing, nor does what nobody was there to answer. Waiting for a processor is not a pause: the kernel
# counts how long that was, and an agent that keeps all processors busy gains nothing by it.

_LEAST_SEC = 5.0


def waited_sec() -> float:
    """How long this thread has waited for a processor so far; 0 where the kernel does not tell."""
    try:
        return int(read("/proc/thread-self/schedstat").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Pauses:
    """Time that passed without us, between one look and the next. Looks come several times a second."""

    place = "this process"

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        worked: Callable[[], float] = process_time,
        waited: Callable[[], float] = waited_sec,
    ) -> None:
        self._clock, self._worked, self._waited = clock, worked, waited
        self._last = self._now()

    def read(self) -> Shortage | None:
        """Whether so much time has passed since the last look that we cannot have been running."""
        before, self._last = self._last, self._now()
        passed = self._last[0] - before[0]
        if passed < _LEAST_SEC:
            return None
        lost = passed - (self._last[1] - before[1]) - (self._last[2] - before[2])
        if lost < _LEAST_SEC:
            return None
        message = f"this process was stopped for {lost:.0f} s (Ctrl-Z, SIGSTOP or a debugger)"
        return Shortage("time", self.place, message, 0, passed=True)

    def left(self) -> Mapping[Resource, int]:
        """Nobody knows."""
        return {}

    def close(self) -> None:
        """Nothing is held open."""

    def _now(self) -> tuple[float, float, float]:
        return self._clock(), self._worked(), self._waited()
