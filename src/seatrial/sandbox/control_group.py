"""The control group of one sandbox: who joins it, what it has used, and how all of its members are stopped and ended.

Where a group comes from, and which limits hold in it, is in `cgroups.py`.
"""

import errno
import os
import select
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from seatrial.errors import HostUnsupportedError, SandboxError

Version = Literal[1, 2]

TIMEOUT_SEC = 20.0
MOUNT_FIX = "as root: mount -t cgroup2 cgroup2 /sys/fs/cgroup"
_PIDFDS_AT_ONCE = 128  # the usual limit is 1024 open files
_GLANCE_SEC = 0.1  # a pid namespace's init leaves its group before its pidfd says so: look again even without news


class GroupUsage(NamedTuple):
    """What a group has used so far; None where the host does not count it."""

    cpu_sec: float | None = None
    peak_memory_bytes: int | None = None
    oom_kills: int | None = None
    pids_refused: int | None = None


class GroupDirectory(NamedTuple):
    """A group's directory in one hierarchy; `base` is the topmost directory that is ours."""

    path: Path
    base: Path
    version: Version
    controllers: frozenset[str]

    @property
    def freezer(self) -> tuple[Path, str, str] | None:
        """The file that freezes the group, and what to write into it to freeze and to thaw."""
        if self.version == 2:
            return self.path / "cgroup.freeze", "1", "0"
        return (self.path / "freezer.state", "FROZEN", "THAWED") if "freezer" in self.controllers else None


class ControlGroup(NamedTuple):
    """One sandbox's group. Without directories it limits, counts and ends nothing."""

    directories: tuple[GroupDirectory, ...] = ()

    @property
    def join_files(self) -> tuple[str, ...]:
        """Where a process of one thread writes "0" to become a member, in this order.

        A thread may move itself at once; for a process the kernel first stops the whole machine's forks, some 15 ms.
        Version 2 moves no single threads, but a process can be born there instead: see `Forks.start`.
        """
        return tuple(f"{each.path}/{'cgroup.procs' if each.version == 2 else 'tasks'}" for each in self.directories)

    def usage(self) -> GroupUsage:
        """What all members together, the dead ones included, have used so far."""
        peak = self._count(2, "memory", "memory.peak")
        oom_kills = self._count(2, "memory", "memory.events", "oom_kill")
        refused = self._count(2, "pids", "pids.events", "max")
        return GroupUsage(
            cpu_sec=self._cpu_sec(),
            peak_memory_bytes=self._count(1, "memory", "memory.max_usage_in_bytes") if peak is None else peak,
            oom_kills=self._count(1, "memory", "memory.oom_control", "oom_kill") if oom_kills is None else oom_kills,
            pids_refused=self._count(1, "pids", "pids.events", "max") if refused is None else refused,
        )

    def _cpu_sec(self) -> float | None:
        cpu_usec = self._count(2, None, "cpu.stat", "usage_usec")
        cpu_nsec = self._count(1, "cpuacct", "cpuacct.usage") if cpu_usec is None else cpu_usec * 1000
        return None if cpu_nsec is None else cpu_nsec / 1e9

    def processor_times(self) -> tuple[float | None, float | None]:
        """For how many seconds members have run, and in how many one of them at least waited for a processor.

        The latter is counted by version 2, if the kernel keeps pressure figures. It is rather too little on machines of
        many processors, since the kernel takes a mean of those on which members were.
        """
        waited_usec = self._count(2, None, "cpu.pressure", "total")
        return self._cpu_sec(), None if waited_usec is None else waited_usec / 1e6

    def freeze(self, timeout_sec: float = TIMEOUT_SEC) -> None:
        """Stop all members; returns when they stand still.

        Raises HostUnsupportedError where nothing can freeze, SandboxError when they do not stop in time.
        """
        deadline = time.monotonic() + timeout_sec
        with ExitStack() as undo:
            undo.callback(self.thaw)
            if not (freezers := self._set_freezers("freeze")):
                raise HostUnsupportedError(f"a sandbox cannot be frozen here: no freezer; {MOUNT_FIX}")
            for each in freezers:
                if each.version == 2:
                    _await_event(each.path, "frozen 1", deadline)
                    continue
                while (each.path / "freezer.state").read_text() != "FROZEN\n":
                    _pause(deadline, f"{each.path} does not freeze")
                    self._set_freezers("freeze")  # what was forked meanwhile has to be told as well
            undo.pop_all()

    def thaw(self) -> None:
        self._set_freezers("thaw")

    def kill(self, timeout_sec: float = TIMEOUT_SEC) -> None:
        """End all members, frozen or not; returns when they have left, though some may still be zombies.

        The group is thawed and can be joined again. Raises SandboxError when members survive for `timeout_sec` seconds.
        Blocks, so do not call it in the process that has to reap what it forked into a member's pid namespace.
        """
        deadline = time.monotonic() + timeout_sec
        told = self._kill_at_once()
        while members := self.members():
            if time.monotonic() > deadline:
                raise SandboxError(f"{len(members)} processes of {self.directories[0].path} survive SIGKILL")
            if not told:
                self._set_freezers("freeze")  # a fork loop could outrun us
                self._signal(sorted(members))
                self._set_freezers("thaw")
            told = False
            self._await_exits()  # sooner than cgroup.events, which the kernel updates every 10 ms at most
        self.thaw()

    def remove_at_once(self) -> bool:
        """Remove the directories if nobody is in them any more, and nothing below them; False when some are left."""
        gone = [_removed(each.path) for each in self.directories]
        for each in self.directories:
            tidy(each.path, each.base)
        return all(gone)

    def remove(self, timeout_sec: float = TIMEOUT_SEC) -> None:
        """Remove the directories when the last member has left; SandboxError if that takes over `timeout_sec`."""
        deadline = time.monotonic() + timeout_sec
        for each in self.directories:
            for path in _subtree(each.path):
                self._remove_when_empty(path, each.version, deadline)
            tidy(each.path, each.base)

    def _remove_when_empty(self, path: Path, version: Version, deadline: float) -> None:
        while not _removed(path):
            if version == 2:
                with suppress(FileNotFoundError):
                    _await_event(path, "populated 0", deadline)
            else:
                self._await_exits()
                _pause(deadline, f"{path} is still busy")

    def _count(self, version: Version, controller: str | None, file: str, key: str | None = None) -> int | None:
        """A number from a file of the group that a controller of this version keeps, None where there is none."""
        for each in self.directories:
            if each.version == version and (controller is None or controller in each.controllers):
                with suppress(OSError):
                    words = read(f"{each.path}/{file}").replace("=", " ").split()
                    if key is None or key in words:
                        return int(words[0 if key is None else words.index(key) + 1])
        return None

    def _kill_at_once(self) -> bool:
        """Version 2 since Linux 5.14: one write for all members, those being forked included."""
        told = False
        for each in self.directories:
            with suppress(FileNotFoundError):
                write(each.path / "cgroup.kill", "1")
                told = True
        return told

    def _set_freezers(self, state: Literal["freeze", "thaw"]) -> list[GroupDirectory]:
        told = []
        for each in self.directories:
            if freezer := each.freezer:
                file, freeze, thaw = freezer
                with suppress(FileNotFoundError):
                    write(file, freeze if state == "freeze" else thaw)
                    told.append(each)
        return told

    @property
    def empty(self) -> bool:
        """Whether it is certain that nobody is in it. A version 2 group has every member and says so itself."""
        try:
            for each in (each for each in self.directories if each.version == 2):
                return "populated 0" in read(f"{each.path}/cgroup.events")
            files = [f"{path}/cgroup.procs" for each in self.directories for path in _subtree(each.path)]
            return bool(files) and not any(read(file).strip() for file in files)
        except OSError:
            return False

    def members(self) -> set[int]:
        """The processes in the group, by the numbers they have for us."""
        pids: set[int] = set()
        for each in self.directories:
            for path in _subtree(each.path):
                with suppress(OSError):
                    pids.update(map(int, read(f"{path}/cgroup.procs").split()))
        return pids - {0}  # a process outside our pid namespace is listed as 0, but kill(0) would be for ourselves

    def _signal(self, pids: list[int]) -> None:
        for start in range(0, len(pids), _PIDFDS_AT_ONCE):
            with _pidfds(pids[start : start + _PIDFDS_AT_ONCE]) as handles:
                # A number may have passed on to a stranger before its pidfd was opened: look who is a member now.
                for pid in handles.keys() & self.members():
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handles[pid], signal.SIGKILL)

    def _await_exits(self) -> None:
        """Wait for the members to end, for a moment at most."""
        with _pidfds(sorted(self.members())[:_PIDFDS_AT_ONCE]) as handles:
            poller = select.poll()
            for handle in handles.values():
                poller.register(handle, select.POLLIN)
            running, deadline = len(handles), time.monotonic() + _GLANCE_SEC
            while running and (left := deadline - time.monotonic()) > 0:
                for handle, _ in poller.poll(left * 1000):
                    poller.unregister(handle)
                    running -= 1


def read(path: str) -> str:
    """What a control file says; these are read so often that a file object would be the larger part of it."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(handle, 65536):
            pieces.append(piece)
        return b"".join(pieces).decode()
    finally:
        os.close(handle)


def write(path: Path | str, value: str) -> None:
    """Write into a control file that exists; the OSError names it."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # not open(): O_CREAT turns "no such file" into "permission"
    try:
        os.write(handle, value.encode())
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(handle)


def _subtree(path: Path) -> list[Path]:
    """The group and all below it, deepest first."""
    return [Path(top) for top, _, _ in os.walk(path, topdown=False)]


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise SandboxError(f"cannot remove the control group {path}: {error.strerror}") from error
        return False
    return True


def tidy(path: Path, base: Path) -> None:
    """Remove what is above a removed group, as far as it is ours and nobody else's group is in it."""
    while path != base:
        path = path.parent
        try:
            path.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return


def _await_event(path: Path, line: str, deadline: float) -> None:
    """Wait until cgroup.events says so; the kernel tells of each change."""
    handle = os.open(path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLPRI)
        while line not in os.pread(handle, 4096, 0).decode().splitlines():
            if (left := deadline - time.monotonic()) <= 0:
                raise SandboxError(f"{path} did not become {line!r} in time")
            poller.poll(left * 1000)
    finally:
        os.close(handle)


def _pause(deadline: float, problem: str) -> None:
    """A millisecond: version 1 has no event for what the caller waits for."""
    if time.monotonic() > deadline:
        raise SandboxError(f"{problem}: time is over")
    time.sleep(0.001)


@contextmanager
def _pidfds(pids: Collection[int]) -> Iterator[dict[int, int]]:
    with ExitStack() as stack:
        handles = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                handles[pid] = os.pidfd_open(pid)
                stack.callback(os.close, handles[pid])
        yield handles
