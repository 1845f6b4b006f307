"""One container of an engine: made, attached to, measured, restarted and removed; also removing what dead runs left."""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import LimitSpec, ResourceUse
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.cgroups import Hierarchy
from seatrial.sandbox.control_group import ControlGroup, GroupDirectory
from seatrial.sandbox.engine.client import Engine, EngineClient, EngineError, Stream, find_endpoint
from seatrial.sandbox.engine.files import Files
from seatrial.sandbox.engine.survivors import FoundProcesses, row, sort_out
from seatrial.sandbox.runs import CONTAINERS, Cleared, RunDirectory, abandoned, state_root

TOOLS = "/.seatrial"
_PERIOD = 100_000
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Order:
    """What to make a container of, besides the spec."""

    name: str
    image: str
    labels: Mapping[str, str]
    volume: str
    limits: LimitSpec
    podman: bool
    network_of: str | None = None
    """The container whose network it shares; none for one of its own."""

    def request(self, spec: SandboxSpec) -> dict[str, Any]:
        # Whoever shares a network shares its host name, and engines refuse another one.
        hostname = {} if self.network_of else {"Hostname": spec.hostname}
        return {
            "Image": self.image,
            # Its name as an argument tells its first process from all others of this machine.
            "Entrypoint": [f"{TOOLS}/init"],
            "Cmd": [self.name],
            "User": "0:0",
            "WorkingDir": spec.workdir,
            **hostname,
            "Env": [f"{name}={value}" for name, value in spec.env.items()],
            "Labels": dict(self.labels),
            "Healthcheck": {"Test": ["NONE"]},
            # The first process ends with its input, and that ends when whoever holds it does.
            **dict.fromkeys(("OpenStdin", "StdinOnce", "AttachStdin"), True),
            "HostConfig": {
                "NetworkMode": f"container:{self.network_of}" if self.network_of else "none",
                "AutoRemove": not self.podman,  # Podman then removes what is only started anew
                "LogConfig": {"Type": "none"},
                "Mounts": [mount(self.volume, read_only=True)],
                **_limits(self.limits),
            },
        }


def mount(volume: str, *, read_only: bool) -> dict[str, Any]:
    """The volume with our programs, as an engine mounts it."""
    return {"Type": "volume", "Source": volume, "Target": TOOLS, "ReadOnly": read_only}


def _limits(limits: LimitSpec) -> dict[str, int]:
    found: dict[str, int] = {}
    if limits.memory_mb is not None:
        found |= dict.fromkeys(("Memory", "MemorySwap"), limits.memory_mb * _MIB)
    if limits.cpus is not None:
        found |= {"CpuPeriod": _PERIOD, "CpuQuota": int(limits.cpus * _PERIOD)}
    if limits.pids is not None:
        found["PidsLimit"] = limits.pids
    return found


@dataclass(slots=True)
class Container:
    """A container by its name. While `hold` is open its first process lives on."""

    client: EngineClient
    name: str
    podman: bool
    files: Files = field(init=False)
    hold: Stream | None = None
    pid: int = 0

    def __post_init__(self) -> None:
        self.files = Files(self.client, self.name)

    @classmethod
    async def make(cls, client: EngineClient, order: Order, spec: SandboxSpec) -> Self:
        """Make it and start it. Raises SandboxError; then nothing is left of it."""
        container = cls(client, order.name, order.podman)
        try:
            await client.ask("POST", "/containers/create", order.request(spec), name=order.name)
            await container._attach()
            await client.ask("POST", f"/containers/{order.name}/start")
            await container._look()
        except BaseException:
            await finish(container.remove())
            raise
        return container

    async def _attach(self) -> None:
        self.hold = await self.client.stream(f"/containers/{self.name}/attach", stream="1", stdin="1")

    async def _look(self) -> None:
        state: dict[str, Any] = (await self.client.ask("GET", f"/containers/{self.name}/json"))["State"]
        self.pid = int(state["Pid"])
        if not state["Running"]:
            raise SandboxError(f"the container ended at once, with code {state['ExitCode']}: {state.get('Error')}")

    def local_pid(self) -> int | None:
        """The first process, if it runs on this machine and in sight: its name is its argument."""
        try:
            arguments = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return None
        return self.pid if self.name.encode() in arguments else None

    async def limit_processes(self, count: int) -> None:
        """Let it have so many processes from now on. Raises SandboxError."""
        await self.client.ask("POST", f"/containers/{self.name}/update", {"PidsLimit": count})

    async def restart(self) -> None:
        """End all of it and start it anew: files and limits stay, everything else is lost."""
        await self.client.ask("POST", f"/containers/{self.name}/restart", t="0")
        await self._let_go()  # not before: it would end by itself
        await self._attach()
        await self._look()

    async def _let_go(self) -> None:
        if self.hold is not None:
            await self.hold.close()
            self.hold = None

    async def remove(self) -> None:
        try:
            await remove_container(self.client, self.name)
        finally:
            await self._let_go()

    async def processes(self) -> FoundProcesses:
        """Who lives in it besides its first process."""
        columns = "pid,ppid,state,comm" if self.podman else "-eo pid,ppid,stat,comm"
        # Podman says nothing at all when those it was about to list are gone; by the kernel's count they are found.
        found: dict[str, Any] = await self.client.ask("GET", f"/containers/{self.name}/top", ps_args=columns) or {}
        rows = [row(columns) for columns in found.get("Processes") or ()]
        return sort_out(rows, 1 if self.podman else self.pid)

    async def has_more_than_its_first_process(self) -> bool:
        """By the kernel's count, which nobody outruns; False too where none is kept."""
        pid = self.local_pid()
        count = None if pid is None else thread_count(pid)
        return (await self._ask_count() if count is None else count) > 1

    async def _ask_count(self) -> int:
        """The engine's word for it, 0 where it has none. Docker takes a second over all but the first such question."""
        query = {"stream": "false", "one-shot": "true"}
        try:
            stats: dict[str, Any] = await self.client.ask("GET", f"/containers/{self.name}/stats", **query)
        except EngineError:  # such as of a rootless Podman with control groups of version 1
            return 0
        return int((stats.get("pids_stats") or {}).get("current") or 0)


# Usage: by the engine's count, and by the kernel's where the container runs on this machine

_GROUPS = Path("/sys/fs/cgroup")


async def measure(client: EngineClient, container: str, pid: int | None) -> ResourceUse:
    """Processor time, the most memory, the disk, and kills for want of memory; `pid` is a process on this machine."""
    query = {"stream": "false", "one-shot": "true"}
    stats: dict[str, Any] = await client.ask("GET", f"/containers/{container}/stats", **query)
    found: dict[str, Any] = await client.ask("GET", f"/containers/{container}/json", size="1")
    processor = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    peak, kills = _memory(pid) if pid else (None, None)
    size = found.get("SizeRw")
    return ResourceUse(
        cpu_sec=processor.get("total_usage", 0) / 1e9,
        peak_memory_bytes=peak or (stats.get("memory_stats") or {}).get("max_usage") or None,
        disk_bytes=None if size is None else max(0, int(size)),
        oom_kills=await _oom_events(client, found["Id"]) if kills is None else kills,
    )


def _memory(pid: int) -> tuple[int | None, int | None]:
    """The most memory that was ever in use, and how often somebody was killed for want of it; None where not kept."""
    for line in _read(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds == "memory":
            group = _GROUPS / "memory" / path.lstrip("/")
            peak = _read(group / "memory.max_usage_in_bytes")
            return _number(peak), _entry(_read(group / "memory.oom_control"))
        if not kinds and (events := _read(_GROUPS / path.lstrip("/") / "memory.events")):
            return _number(_read(_GROUPS / path.lstrip("/") / "memory.peak")), _entry(events)
    return None, None


def group_of(pid: int | None) -> ControlGroup:
    """The control group of a process on this machine, to count what is in it; one without directories where unknown."""
    lines = _read(Path(f"/proc/{pid}/cgroup")) if pid else ""
    mounts = Hierarchy.detect(_read(Path("/proc/self/mountinfo")), lines).mounts
    # The topmost group has everything of this machine in it.
    own = [mount for mount in mounts if lines and len(mount.parents) > 1]
    return ControlGroup(
        tuple(GroupDirectory(each.parents[0], each.parents[-1], each.version, each.controllers) for each in own)
    )


def thread_count(pid: int) -> int | None:
    """How many threads there are in the control group of a process on this machine; None where nobody counts them."""
    for line in _read(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, kinds, path = line.split(":", 2)
        group = _GROUPS / kinds / path.lstrip("/")
        if kinds in ("pids", "") and (count := _number(_read(group / "pids.current"))) is not None:
            return count
    return None


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _entry(text: str) -> int | None:
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), None)


async def _oom_events(client: EngineClient, number: str) -> int:
    """How often an engine noticed that memory ran out; Podman does not."""
    filters = json.dumps({"container": [number], "event": ["oom"]})
    query = {"since": "0", "until": f"{time.time():.6f}", "filters": filters}
    async with client.open("GET", "/events", None, query) as response:
        return sum(1 for line in (await response.read()).splitlines() if line.strip())


# Owners: labels name the run of a container or volume; what dead runs left is removed

RUN = "org.seatrial.run"
_OWNER = "org.seatrial.owner"


def labels(run: RunDirectory) -> Mapping[str, str]:
    """What tells everybody whose it is, and whether its owner is still there."""
    owner = {"host": socket.gethostname(), "boot": _boot(), "folder": str(run.path)}
    return {RUN: run.name, _OWNER: json.dumps(owner)}


def _boot() -> str:
    """What is another with every start of this machine."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _is_dead(found: Mapping[str, str] | None) -> bool:
    try:
        owner = json.loads((found or {})[_OWNER])
        if owner["host"] != socket.gethostname():
            return False
        return bool(owner["boot"] != _boot() or _is_abandoned(Path(owner["folder"])))
    except (KeyError, ValueError, TypeError):
        return False


def _is_abandoned(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


async def sweep(client: EngineClient) -> list[str]:
    """Remove what runs of this machine left behind that have died; returns what has gone, in words."""
    return await _remove(client, RUN, _is_dead)


async def clear_engine(engine: Engine) -> Cleared:
    """Remove containers and volumes of dead runs, if the daemon answers, and then the directories of those runs."""
    removed: list[str] = []
    with suppress(HostUnsupportedError, SandboxError):  # no such daemon here
        async with EngineClient(find_endpoint(engine)) as client:
            removed += [f"{engine} {thing}" for thing in await sweep(client)]
    return Cleared((*removed, *map(str, clear_folders(state_root()))))


async def remove_run(client: EngineClient, run: str) -> None:
    await _remove(client, f"{RUN}={run}", lambda _: True)


def clear_folders(root: Path) -> list[Path]:
    """Remove the directories that dead runs left on this machine; returns which."""
    found = list(abandoned(root, CONTAINERS))
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return [path for path in found if not path.exists()]


async def _remove(client: EngineClient, label: str, chosen: Callable[[Mapping[str, str] | None], bool]) -> list[str]:
    removed: list[str] = []
    filters = json.dumps({"label": [label]})
    found = await client.ask("GET", "/containers/json", all="1", filters=filters) or ()
    due = [container for container in found if chosen(container.get("Labels"))]
    while due:  # again, for Podman removes no container before the copies that share its network
        refused: list[tuple[Any, EngineError]] = []
        for container in due:
            try:
                await remove_container(client, container["Id"])
            except EngineError as error:
                refused.append((container, error))
            else:
                removed.append(f"container {(container.get('Names') or [container['Id'][:12]])[0].lstrip('/')}")
        if len(refused) == len(due):
            raise refused[0][1]
        due = [container for container, _ in refused]
    volumes: dict[str, Any] = await client.ask("GET", "/volumes", filters=filters) or {}
    for volume in volumes.get("Volumes") or ():
        if chosen(volume.get("Labels")):
            with suppress(EngineError):  # somebody else is at it, or it is still in use
                await client.ask("DELETE", f"/volumes/{volume['Name']}", force="1")
                removed.append(f"volume {volume['Name']}")
    return removed


async def remove_container(client: EngineClient, container: str) -> None:
    """Kill and remove a container; one that is gone, or going, is waited for."""
    try:
        await client.ask("DELETE", f"/containers/{container}", force="1", v="1")
    except EngineError as error:
        if error.status == 409:
            with suppress(EngineError):
                await client.ask("POST", f"/containers/{container}/wait", condition="removed")
        elif error.status != 404:
            raise
