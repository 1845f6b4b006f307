"""What a sandbox may use of the machine, enforced by control groups: version 1, version 2 and mixtures look alike here.

`Hierarchy` knows where groups can be made; `control_group.py` has the group of one sandbox. A process joins by itself,
writing "0" into each of `join_files` before its exec, so that nothing it starts is ever outside.
A version 2 mount is joined even if it limits nothing: it kills, freezes and tells of emptiness where version 1 cannot.
"""

import errno
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, Self

from seatrial.errors import HostUnsupportedError, SandboxError, UsageError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Limit
from seatrial.sandbox.control_group import MOUNT_FIX, ControlGroup, GroupDirectory, Version, tidy, write

BASE = "seatrial"  # a group is <parent>/seatrial/<run>/<name>
LEAF = "seatrial-self"  # where this process and its children go when they stand in the way of its own groups
CONTROLLERS: Mapping[Limit, str] = {"cpus": "cpu", "memory_mb": "memory", "pids": "pids"}
LEAST: Mapping[Limit, float] = {"cpus": 0.01, "memory_mb": 1, "pids": 1}
CPU_PERIOD_US = 100_000

_V1_EXTRAS = frozenset({"freezer", "cpuacct"})  # version 2 does the same without a controller
_OPTIONAL = frozenset({"memory.swap.max", "memory.memsw.limit_in_bytes"})  # absent where swap is not counted
_RACES = 100
_SCOPE = "`systemd-run --user --scope -p Delegate=yes seatrial …` (as root without --user)"
_FIXES = {
    errno.EACCES: f"run as root, or in a group of your own: {_SCOPE}",
    errno.EBUSY: f"our group holds other processes too and cannot be divided; start in a new one: {_SCOPE}",
    errno.EROFS: "mount the cgroup file system writable; in a container: --privileged",
    errno.EOPNOTSUPP: f"have the controller delegated: {_SCOPE}; or boot with cgroup_enable=memory",
    errno.ENODEV: MOUNT_FIX,
}


class LimitSupport(NamedTuple):
    """Which limits can be enforced here; `missing` says of each other one why not, and how it could be."""

    usable: frozenset[Limit]
    missing: Mapping[Limit, str]


class Mount(NamedTuple):
    """A mounted hierarchy; groups go below the first of `parents` that lets us: our own group, else the top."""

    version: Version
    controllers: frozenset[str]
    parents: tuple[Path, ...]


class Hierarchy(NamedTuple):
    """The hierarchies groups are made in, version 2 first: that one then holds every member of the others."""

    mounts: tuple[Mount, ...] = ()

    @classmethod
    def here(cls) -> Self:
        """The hierarchies of this machine as this process sees them."""
        return cls.detect(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())

    @classmethod
    def detect(cls, mountinfo: str, own_cgroup: str, root: str = "/") -> Self:
        """Read the texts of /proc/self/mountinfo and /proc/self/cgroup; mount points are taken to be below `root`."""
        lines = (line.split(":", 2) for line in own_cgroup.splitlines() if line.count(":") >= 2)
        own = {name: path for _, names, path in lines for name in names.split(",")}
        found = [mount for line in mountinfo.splitlines() if (mount := _parse_mount(line, own, root))]
        first = {(mount.version, mount.controllers): mount for mount in reversed(found)}
        return cls(tuple(sorted(first.values(), key=lambda mount: (-mount.version, sorted(mount.controllers)))))

    def usable_limits(self) -> LimitSupport:
        """Which limits can be enforced, found out by making and removing a group with each."""
        missing: dict[Limit, str] = {}
        for limit in CONTROLLERS:
            name = f"{limit}-{os.getpid()}-{time.monotonic_ns()}"
            try:
                self.create("probe", name, LimitSpec.model_validate({limit: LEAST[limit]})).remove()
            except (HostUnsupportedError, SandboxError) as error:
                missing[limit] = str(error)
        return LimitSupport(frozenset(CONTROLLERS).difference(missing), missing)

    def create(self, run: str, name: str, limits: LimitSpec) -> ControlGroup:
        """A new group in which `limits` hold (`storage_mb` is not ours); without limits, as much of one as can be had.

        Raises HostUnsupportedError for a limit this machine cannot enforce, UsageError for one that makes no sense or
        an unusable name, SandboxError if the group exists or the kernel refuses a value.
        """
        _check_names(run, name)
        needed = _needed_controllers(limits)
        made: list[GroupDirectory] = []
        with ExitStack() as undo:
            undo.callback(lambda: ControlGroup(tuple(made)).remove())
            for mount in self.mounts:
                if made and made[0].version == 2 and mount.controllers <= _V1_EXTRAS:
                    continue
                try:
                    made.append(_make(mount, run, name, needed & mount.controllers))
                except FileExistsError as error:
                    raise SandboxError(f"the control group {error.filename} exists already") from error
                except OSError as error:
                    if needed & mount.controllers:
                        raise _unsupported(needed & mount.controllers, error) from error
            if absent := needed.difference(*(each.controllers for each in made)):
                raise _unsupported(absent, OSError(errno.ENODEV, "no such hierarchy is mounted"))
            for each in made:
                _apply(each, limits)
            undo.pop_all()
        return ControlGroup(tuple(made))

    def sweep(self, run: str) -> None:
        """Kill and remove all groups of a run that was killed; it may have started in another group than ours."""
        _check_names(run)
        left = ControlGroup(
            tuple(
                GroupDirectory(Path(top, run), Path(top), mount.version, mount.controllers)
                for mount in self.mounts
                for top, children, _ in os.walk(mount.parents[-1])
                if Path(top).name == BASE and run in children
            )
        )
        left.kill()
        left.remove()


def limit_values(limits: LimitSpec, version: Version) -> dict[str, str]:
    """What to write into which control file. Swap is none, or counts as memory: else a limit would only slow down."""
    values: dict[str, str] = {}
    if limits.cpus is not None:
        quota = round(limits.cpus * CPU_PERIOD_US)
        v1 = {"cpu.cfs_period_us": str(CPU_PERIOD_US), "cpu.cfs_quota_us": str(quota)}
        values |= v1 if version == 1 else {"cpu.max": f"{quota} {CPU_PERIOD_US}"}
    if limits.memory_mb is not None:
        size = str(limits.memory_mb * 2**20)
        v1 = {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}
        values |= v1 if version == 1 else {"memory.max": size, "memory.swap.max": "0"}
    if limits.pids is not None:
        values["pids.max"] = str(limits.pids)
    return values


def _apply(directory: GroupDirectory, limits: LimitSpec) -> None:
    for file, value in limit_values(limits, directory.version).items():
        if file.partition(".")[0] in directory.controllers:
            try:
                write(f"{directory.path}/{file}", value)
            except OSError as error:
                # Version 1 refuses a quota that limits nothing: our own group has less, or no machine has more.
                vacuous = file == "cpu.cfs_quota_us" and error.errno == errno.EINVAL
                if file not in _OPTIONAL and not vacuous:
                    raise SandboxError(f"{directory.path / file} refuses {value}: {error.strerror}") from error


def _check_names(*names: str) -> None:
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):  # with a dot it could be the name of a control file
            raise UsageError(f"{name!r} cannot name a control group: use up to 100 of A-Z, a-z, 0-9, _ and -")


def _needed_controllers(limits: LimitSpec) -> frozenset[str]:
    asked = {limit: value for limit in CONTROLLERS if (value := getattr(limits, limit)) is not None}
    for limit, value in asked.items():
        if value < LEAST[limit]:
            raise UsageError(f"{limit} = {value} leaves nothing to run with; the least is {LEAST[limit]}")
    return frozenset(CONTROLLERS[limit] for limit in asked)


def _unsupported(controllers: Collection[str], error: OSError) -> HostUnsupportedError:
    limits = ", ".join(limit for limit, controller in CONTROLLERS.items() if controller in controllers)
    place = f"{error.filename}: " if error.filename else ""
    fix = _FIXES.get(error.errno or 0, _FIXES[errno.EACCES])
    return HostUnsupportedError(f"{limits} cannot be limited: {place}{error.strerror}; {fix}")


def _parse_mount(line: str, own: Mapping[str, str], root: str) -> Mount | None:
    match = re.match(r"\S+ \S+ \S+ (/\S*) (/\S*) (?:\S+ )+?- (cgroup2?) \S+ (\S+)", line)
    if not match:
        return None
    top, point, kind, options = map(_unescape, match.groups())
    version: Version = 2 if kind == "cgroup2" else 1
    known = frozenset(CONTROLLERS.values())
    # Version 2 names its controllers only in a file, but a controller is in one hierarchy at a time.
    controllers = known.difference(own) if version == 2 else (known | _V1_EXTRAS).intersection(options.split(","))
    if version == 1 and not controllers:
        return None
    mounted = Path(root, point.lstrip("/"))
    path = own.get("" if version == 2 else min(controllers), "").removesuffix(f"/{LEAF}") or "/"
    if ".." in Path(path).parts or not Path(path).is_relative_to(top):  # not visible through this mount
        return Mount(version, controllers, (mounted,))
    return Mount(version, controllers, tuple(dict.fromkeys((mounted / Path(path).relative_to(top), mounted))))


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _make(mount: Mount, run: str, name: str, needed: frozenset[str]) -> GroupDirectory:
    """A new directory where the needed controllers work. Raises the OSError of the first place that was tried."""
    problems: list[OSError] = []
    for parent in mount.parents:
        path = Path(f"{parent}/{BASE}/{run}/{name}")
        try:
            return _make_below(mount, parent, path, needed)
        except FileExistsError:
            raise
        except OSError as error:
            with suppress(OSError):
                path.rmdir()
            tidy(path, parent / BASE)
            problems.append(error)
    raise problems[0]


def _make_below(mount: Mount, parent: Path, path: Path, needed: frozenset[str]) -> GroupDirectory:
    base = Path(f"{parent}/{BASE}")
    for attempt in range(_RACES):
        try:
            if attempt:  # only the first group of a run has to make those above it
                _make_levels(mount, (parent, base, path.parent), needed)
            path.mkdir()
            break
        except OSError as error:
            # A neighbour that has just removed its last group tidied a directory away under our feet: once more.
            if error.errno not in {errno.ENOENT, errno.ENODEV} or attempt == _RACES - 1:
                raise
    if not (path / "cgroup.procs").exists():
        raise OSError(errno.ENODEV, "another file system is mounted over the hierarchy", str(parent))
    working = mount.controllers & _working(path) if mount.version == 2 and mount.controllers else mount.controllers
    if not needed <= working:
        _make_levels(mount, (parent, base, path.parent), needed)  # says why, if it still cannot be had
        working = mount.controllers & _working(path)
    return GroupDirectory(path, base, mount.version, working)


def _make_levels(mount: Mount, levels: Sequence[Path], needed: frozenset[str]) -> None:
    """Make the groups above a sandbox's own, the first of which is there already, and let controllers through."""
    for level in levels:
        if level != levels[0]:
            with suppress(FileExistsError):  # exist_ok would look again, and raise if it is gone by then
                level.mkdir()
        if mount.version == 2:
            _delegate(level, mount.controllers, needed)


def _working(path: Path) -> frozenset[str]:
    return frozenset((path / "cgroup.controllers").read_text().split())


def _delegate(level: Path, controllers: Collection[str], needed: Collection[str]) -> None:
    """Let the children of a version 2 group use controllers: the needed ones, and the others if they can be had."""
    for controller in sorted(set(controllers).difference((level / "cgroup.subtree_control").read_text().split())):
        try:
            _enable(level, controller)
        except OSError:
            if controller in needed:
                raise


def _enable(level: Path, controller: str) -> None:
    if controller not in (level / "cgroup.controllers").read_text().split():
        raise OSError(errno.EOPNOTSUPP, f"no {controller} controller", str(level))
    try:
        write(level / "cgroup.subtree_control", f"+{controller}")
    except OSError as error:
        # A group that gives controllers to its children may hold no process; other people's we do not move.
        members = (level / "cgroup.procs").read_text().split()
        if error.errno != errno.EBUSY or not members or not all(_is_ours(int(pid)) for pid in members):
            raise
        (level / LEAF).mkdir(exist_ok=True)
        for pid in members:
            with suppress(ProcessLookupError):
                write(level / LEAF / "cgroup.procs", pid)
        write(level / "cgroup.subtree_control", f"+{controller}")


def _is_ours(pid: int) -> bool:
    """Whether it is this process or one that it started."""
    while pid not in {0, os.getpid()}:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid != 0
