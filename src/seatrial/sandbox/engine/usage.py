"""What a container has consumed: by its engine's count, and by the kernel's where it runs on this machine."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from seatrial.model.record import ResourceUse
from seatrial.sandbox.cgroups import Hierarchy
from seatrial.sandbox.control_group import ControlGroup, GroupDirectory
from seatrial.sandbox.engine.client import EngineClient

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
