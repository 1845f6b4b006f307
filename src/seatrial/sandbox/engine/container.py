"""One container of an engine: made, attached to, asked about, started anew and removed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.engine.client import EngineClient, EngineError
from seatrial.sandbox.engine.files import Files
from seatrial.sandbox.engine.leftovers import remove_container
from seatrial.sandbox.engine.streams import Stream
from seatrial.sandbox.engine.survivors import FoundProcesses, row, sort_out
from seatrial.sandbox.engine.usage import thread_count

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
        """The engine's own way to say it."""
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
        """Kill and remove it."""
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
