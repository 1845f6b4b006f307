"""How many more processes can be started: by the kernel's own limits, by those of our user and of our control groups.

A sandbox's own limit is none of these: whoever runs into that has only himself to blame.
"""

import _thread
import os
import resource
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from seatrial.sandbox.control_group import read
from seatrial.sandbox.host.shortage import Resource, Shortage
from seatrial.sandbox.own_groups import OwnGroup, own_groups

_LEAST, _SHARE = 16, 16
_KERNEL_LIMITS = ("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max")


def _threads_of_all() -> int:
    """All threads of the machine, as the kernel counts them."""
    return int(read("/proc/loadavg").split()[3].partition("/")[2])


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
        total = _threads_of_all()
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
    return max(1, min(_LEAST, limit // _SHARE))


def _short(whose: str, current: int, limit: int | None, *, passed: bool = False) -> Shortage:
    count = f"{current:,} of {limit:,}" if limit else f"the limit is {current:,}"
    return Shortage("processes", whose, f"{whose} cannot have more processes ({count})", limit or current, passed)
