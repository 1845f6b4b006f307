"""What a sandbox may use of the machine, enforced by control groups: version 1, version 2 and mixtures look alike here.

`Hierarchy` knows where groups can be made, `ControlGroup` is the group of one sandbox. A process joins by itself,
writing "0" into each of `join_files` before its exec, so that nothing it starts is ever outside.
A version 2 mount is joined even if it limits nothing: it kills, freezes and tells of emptiness where version 1 cannot.
"""

import errno
import os
import re
import select
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, Self

from seatrial.errors import HostUnsupportedError, SandboxError, UsageError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Limit

Version = Literal[1, 2]

BASE = "seatrial"  # a group is <parent>/seatrial/<run>/<name>
LEAF = "seatrial-self"  # where this process goes when it stands in the way of its own groups
PATIENCE_SEC = 20.0
CONTROLLERS: Mapping[Limit, str] = {"cpus": "cpu", "memory_mb": "memory", "pids": "pids"}
_LEAST: Mapping[Limit, float] = {"cpus": 0.01, "memory_mb": 1, "pids": 1}
_V1_EXTRAS = frozenset({"freezer", "cpuacct"})  # version 2 does without
_FREEZERS = {1: ("freezer.state", "FROZEN", "THAWED"), 2: ("cgroup.freeze", "1", "0")}
_CPU_PERIOD_US = 100_000
_PIDFDS_AT_ONCE = 128  # the usual limit is 1024 open files
_GLANCE_SEC = 0.1  # a pid namespace's init leaves its group before its pidfd says so: look again even without news
_SCOPE = "`systemd-run --user --scope -p Delegate=yes seatrial …` (as root without --user)"
_FIXES = {
    errno.EACCES: f"run as root, or in a group of your own: {_SCOPE}",
    errno.EPERM: f"run as root, or in a group of your own: {_SCOPE}",
    errno.EBUSY: f"our group holds other processes too and cannot be divided; start in a new one: {_SCOPE}",
    errno.EROFS: "mount the cgroup file system writable; in a container: --privileged",
    errno.EOPNOTSUPP: f"have the controller delegated: {_SCOPE}; or boot with cgroup_enable=memory",
}
_NO_MOUNT = "no hierarchy with that controller is mounted; as root: mount -t cgroup2 cgroup2 /sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """What a group has used so far; None where the host does not count it."""

    cpu_sec: float | None = None
    peak_memory_bytes: int | None = None
    oom_kills: int | None = None
    pids_refused: int | None = None


@dataclass(frozen=True, slots=True)
class LimitSupport:
    """Which limits can be enforced here; `missing` says of each other one why not, and how it could be."""

    usable: frozenset[Limit]
    missing: Mapping[Limit, str]


@dataclass(frozen=True, slots=True)
class GroupDirectory:
    """A group's directory in one hierarchy; `base` is the topmost directory that is ours."""

    path: Path
    base: Path
    version: Version
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One sandbox's group. Without directories it limits, counts and ends nothing."""

    directories: tuple[GroupDirectory, ...] = ()

    @property
    def join_files(self) -> tuple[str, ...]:
        """Where a process writes "0" to become a member, to be written in this order."""
        return tuple(str(directory.path / "cgroup.procs") for directory in self.directories)

    def usage(self) -> GroupUsage:
        """What all members together, the dead ones included, have used so far."""
        cpu_usec = self._count("cpu.stat", "usage_usec")
        cpu_nsec = self._count("cpuacct.usage") if cpu_usec is None else cpu_usec * 1000
        peak = self._count("memory.peak")
        oom_kills = self._count("memory.events", "oom_kill")
        return GroupUsage(
            cpu_sec=None if cpu_nsec is None else cpu_nsec / 1e9,
            peak_memory_bytes=self._count("memory.max_usage_in_bytes") if peak is None else peak,
            oom_kills=self._count("memory.oom_control", "oom_kill") if oom_kills is None else oom_kills,
            pids_refused=self._count("pids.events", "max"),
        )

    def freeze(self, patience: float = PATIENCE_SEC) -> None:
        """Stop every member where it stands; returns when all stand still. Raises HostUnsupportedError, SandboxError."""
        deadline = time.monotonic() + patience
        if not self._freezers():
            raise HostUnsupportedError("sandboxes cannot be frozen: no cgroup freezer here; " + _NO_MOUNT)
        for directory in self._freezers():
            file, frozen, _ = _FREEZERS[directory.version]
            _write(directory.path / file, frozen)
            if directory.version == 2:
                _await_event(directory.path, "frozen 1", deadline)
            while directory.version == 1 and (directory.path / file).read_text().strip() != frozen:
                _pause(deadline, f"{directory.path} does not freeze")
                _write(directory.path / file, frozen)  # what was forked meanwhile has to be told as well

    def thaw(self) -> None:
        """Let a frozen group go on; nothing happens to one that is not frozen."""
        for directory in self._freezers():
            file, _, thawed = _FREEZERS[directory.version]
            _write(directory.path / file, thawed)

    def kill(self, patience: float = PATIENCE_SEC) -> None:
        """End every member, frozen or not; returns when all have left. The group can be used again.

        Members that are children of the caller are zombies afterwards. Raises SandboxError when time runs out.
        """
        deadline = time.monotonic() + patience
        for directory in self.directories:
            if (kill := directory.path / "cgroup.kill").exists():  # version 2, Linux 5.14
                _write(kill, "1")
                _await_event(directory.path, "populated 0", deadline)
        while members := self._members():
            if time.monotonic() > deadline:
                raise SandboxError(f"{self.join_files[0]}: {len(members)} processes survive SIGKILL")
            self._signal(members)
            self._await_exits()
        self.thaw()

    def remove(self, patience: float = PATIENCE_SEC) -> None:
        """Remove the directories once the last member has left; SandboxError if that takes longer than `patience`."""
        deadline = time.monotonic() + patience
        for directory in self.directories:
            if directory.version == 2 and directory.path.exists():
                _await_event(directory.path, "populated 0", deadline)
            for path in _subtree(directory.path):
                self._remove(path, deadline)
            _tidy(directory.path, directory.base)

    def _count(self, file: str, key: str | None = None) -> int | None:
        for directory in self.directories:
            with suppress(OSError):
                words = (directory.path / file).read_text().split()
                if key is None or key in words:
                    return int(words[0 if key is None else words.index(key) + 1])
        return None

    def _freezers(self) -> list[GroupDirectory]:
        return [each for each in self.directories if each.version == 2 or "freezer" in each.controllers]

    def _members(self) -> set[int]:
        pids: set[int] = set()
        for directory in self.directories:
            for path in _subtree(directory.path):
                with suppress(OSError):
                    pids.update(map(int, (path / "cgroup.procs").read_text().split()))
        return pids - {0}  # 0 stands for a process outside our pid namespace, but kill(0) would be for ourselves

    def _signal(self, members: Collection[int]) -> None:
        """SIGKILL to all, frozen meanwhile where possible: a fork loop could outrun us."""
        for directory in self._freezers():
            _write(directory.path / _FREEZERS[directory.version][0], _FREEZERS[directory.version][1])
        pids = sorted(members)
        for start in range(0, len(pids), _PIDFDS_AT_ONCE):
            with _pidfds(pids[start : start + _PIDFDS_AT_ONCE]) as handles:
                # A number may have passed to a stranger before its pidfd was opened: only members now are members.
                for pid in handles.keys() & self._members():
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
        self.thaw()

    def _await_exits(self) -> None:
        """Wait for members to end, for a moment at most."""
        with _pidfds(sorted(self._members())[:_PIDFDS_AT_ONCE]) as handles:
            poller = select.poll()
            for handle in handles.values():
                poller.register(handle, select.POLLIN)
            deadline = time.monotonic() + _GLANCE_SEC
            waiting = len(handles)
            while waiting and (left := deadline - time.monotonic()) > 0:
                for handle, _ in poller.poll(left * 1000):
                    poller.unregister(handle)
                    waiting -= 1

    def _remove(self, path: Path, deadline: float) -> None:
        while True:
            try:
                return path.rmdir()
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise SandboxError(f"cannot remove the control group {path}: {error.strerror}") from error
            self._await_exits()
            _pause(deadline, f"{path} is still busy")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hierarchy; groups go below the first of `parents` that lets us: our own group, or the top."""

    version: Version
    controllers: frozenset[str]
    parents: tuple[Path, ...]

    def make(self, run: str, name: str, needed: frozenset[str]) -> GroupDirectory:
        """A new directory where the `needed` controllers work. Raises OSError of the place that was nearest."""
        problems: list[OSError] = []
        for parent in self.parents:
            path = parent / BASE / run / name
            try:
                self._make_below(parent, path, needed)
            except FileExistsError:
                raise
            except OSError as error:
                _tidy(path, parent / BASE)
                problems.append(error)
            else:
                working = (path / "cgroup.controllers").read_text().split() if self.version == 2 else self.controllers
                return GroupDirectory(path, parent / BASE, self.version, self.controllers.intersection(working))
        raise problems[0]
