"""EngineBackend: sandboxes that are containers of Docker or Podman, through the daemon's API."""

import asyncio
import itertools
import os
import shutil
import socket
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError, SeatrialError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Capabilities, Limit, NetworkMode, SandboxSpec
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.engine.change_finder import lists_everything
from seatrial.sandbox.engine.client import Endpoint, Engine, EngineClient, find_endpoint
from seatrial.sandbox.engine.container import (
    TOOLS,
    Container,
    Order,
    clear_folders,
    labels,
    mount,
    remove_container,
    remove_run,
    sweep,
)
from seatrial.sandbox.engine.entering import HelperContainer, listen_by_helper
from seatrial.sandbox.engine.files import Files
from seatrial.sandbox.engine.images import ImageFiles, Images, Known
from seatrial.sandbox.engine.sandbox import ContainerParts, EngineSandbox, ListenByHelper
from seatrial.sandbox.engine.survivors import programs
from seatrial.sandbox.runs import CONTAINERS, RunDirectory, state_root
from seatrial.sandbox.transfer import new_archive, pack_files

_INSTEAD = "use the embedded backend"
_MISSING = {
    "storage_mb": f"engines limit disks only on file systems with project quotas, and each its own way; {_INSTEAD}",
    "host": f"a container has one network for all its commands, and it is never the host's; {_INSTEAD}",
    "guarded_phases": f"all processes of a container see each other, so the agent's are ended first; {_INSTEAD}",
    "own_system": f"a container has one file system for all its processes; {_INSTEAD}",
}
_REMOTE = "the daemon is on another machine, and nothing can listen in its containers; use a local one"
_SWITCHES: dict[Limit, str] = {"memory_mb": "MemoryLimit", "cpus": "CpuCfsQuota", "pids": "PidsLimit"}


class EngineBackend:
    """Sandboxes that are containers. The daemon is found as its own command line tool finds it, unless given."""

    def __init__(self, engine: Engine = "docker", endpoint: Endpoint | None = None, root: Path | None = None) -> None:
        self._engine = engine
        self._endpoint = endpoint
        self._root = root
        self._numbers = itertools.count(1)
        self._starts = asyncio.Semaphore(2 * (os.cpu_count() or 1))
        self._tools_lock = asyncio.Lock()
        self._tools_ready = False
        self._sandboxes: set[EngineSandbox] = set()
        self._with_shell: set[str] = set()
        self._files: dict[str, ImageFiles] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        """Meet the daemon, and remove what dead runs left with it. Raises HostUnsupportedError."""
        endpoint = self._endpoint or find_endpoint(self._engine)
        self._client = await EngineClient(endpoint).__aenter__()
        try:
            await self._meet(endpoint)
            self._run = RunDirectory(self._root or state_root(), CONTAINERS)
        except BaseException:
            await finish(self._client.__aexit__(None, None, None))
            raise
        self._images = Images(self._client)
        try:
            with suppress(SandboxError):  # what cannot be removed now must not stop this run
                await sweep(self._client)
            clear_folders(self._run.root)
        except BaseException:
            await finish(self._close())
            raise
        return self

    async def _meet(self, endpoint: Endpoint) -> None:
        info: dict[str, Any] = await self._client.ask("GET", "/info")
        name, _, version = self._client.server.partition(" ")[0].partition("/")
        self._podman = name == "Libpod"
        self._mode = f"{'Podman' if self._podman else name or 'Docker'} {version}".strip()
        self._lists_everything = lists_everything(info, podman=self._podman)
        machine = str(info.get("Architecture"))
        found = programs(machine)
        if found is None or info.get("OSType", "linux") != "linux":
            raise HostUnsupportedError(
                f"the {self._engine} daemon at {endpoint} runs {info.get('OSType')} on {machine}; containers are run "
                "on Linux with x86_64 or aarch64 only"
            )
        self._programs = found
        switched_off = {name for name, switch in _SWITCHES.items() if info.get(switch) is False}
        self._missing: dict[str, str] = dict(_MISSING)
        self._missing |= dict.fromkeys(switched_off, f"the daemon's kernel does not limit it; {_INSTEAD}")
        root = Path(str(info.get("DockerRootDir", "")))
        is_here = endpoint.socket is not None and root.is_absolute() and root.is_dir()  # noqa: ASYNC240 - one look
        self._state_folders = (root,) if is_here else ()
        if endpoint.socket is None:
            self._missing |= dict.fromkeys(("listen", "allowlist", "public"), _REMOTE)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove whatever is left, however often we are cancelled meanwhile."""
        self._closed = True
        await finish(self._close())

    async def _close(self) -> None:
        async with asyncio.TaskGroup() as group:
            for sandbox in list(self._sandboxes):
                group.create_task(_destroy_if_possible(sandbox))
        await self._images.close()
        with suppress(SandboxError):  # a daemon that has gone has taken its containers along
            await remove_run(self._client, self._run.name)
        await self._client.__aexit__(None, None, None)
        shutil.rmtree(self._run.path, ignore_errors=True)
        self._run.release()

    @property
    def client(self) -> EngineClient:
        return self._client

    @property
    def run_name(self) -> str:
        """What everything of this run is labelled with."""
        return self._run.name

    async def probe(self) -> Capabilities:
        """What can be done here, by what the daemon says of itself and by who we are."""
        networks: set[NetworkMode] = {"none", "allowlist", "public"}
        return Capabilities(
            backend=self._engine,
            isolation="namespaces",
            mode=self._mode,
            limits=frozenset(_SWITCHES) - self._missing.keys(),
            networks=frozenset(networks - self._missing.keys()),
            many_users=True,
            missing=self._missing,
            state_folders=self._state_folders,
        )

    async def create(self, spec: SandboxSpec) -> EngineSandbox:
        """A new container, no more than two per core at a time. Raises HostUnsupportedError or SandboxError."""
        return await self._create(spec)

    async def _create(self, spec: SandboxSpec, network_of: str | None = None) -> EngineSandbox:
        if self._closed:
            raise SandboxError(f"the {self._engine} backend is closed; create sandboxes inside its `async with` block")
        limits = self._enforceable(spec)
        known = await self._images.ensure(spec.image)
        name = f"seatrial-{self._run.name}-{next(self._numbers)}"
        order = Order(name, known.name, labels(self._run), self._volume, limits, self._podman, network_of)
        spec = replace(spec, env={**spec.image.config.env, **spec.env})
        async with self._starts:
            await self._bring_tools(known.name)
            building = asyncio.ensure_future(Container.make(self._client, order, spec))
            try:
                container = await asyncio.shield(building)
            except BaseException:
                await finish(_undo(building))
                raise

        def listen(container: str, port: int) -> Awaitable[socket.socket]:
            where = HelperContainer(container, known.name, self._run.path, labels(self._run))
            return listen_by_helper(self._client, where, port)

        await self._check_shell(known.name, container)
        sandbox = EngineSandbox(container, self._decide(spec, limits, known, listen))
        self._sandboxes.add(sandbox)
        if self._podman:
            await sandbox.forget_changes()  # Podman writes files of its own into every container
        return sandbox

    def _decide(self, spec: SandboxSpec, limits: LimitSpec, known: Known, listen: ListenByHelper) -> ContainerParts:
        files = self._files.get(known.name)
        if files is None:
            files = ImageFiles(self._client, known.name, self._volume, labels(self._run))
            self._files[known.name] = files
        return ContainerParts(
            spec, limits, known.user, self._missing, files, self._lists_everything, listen, self._forget, self._create
        )

    async def _check_shell(self, image: str, container: Container) -> None:
        """Every command is started by a shell of the image, so one without would look like an agent that fails."""
        if image in self._with_shell:
            return
        if await container.files.status("/bin/sh") is None:
            await finish(container.remove())
            raise HostUnsupportedError(f"the image {image} has no /bin/sh, which containers need; {_INSTEAD}")
        self._with_shell.add(image)

    async def _forget(self, sandbox: EngineSandbox) -> None:
        self._sandboxes.discard(sandbox)

    def _enforceable(self, spec: SandboxSpec) -> LimitSpec:
        """The limits that will hold; refuses the spec if that is not all of them and all are required."""
        missing = {
            name: self._missing[name] for name, value in spec.limits if value is not None and name in self._missing
        }
        if missing and spec.enforcement == "required":
            reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
            raise HostUnsupportedError(
                f"the {self._engine} backend cannot enforce {reasons}; or allow partial limits (--allow-partial-limits)"
            )
        return spec.limits.model_copy(update=dict.fromkeys(missing))

    @property
    def _volume(self) -> str:
        return f"seatrial-{self._run.name}"

    async def _bring_tools(self, image: str) -> None:
        """Fill the volume that every container of this run mounts, once, through a container that never runs."""
        async with self._tools_lock:
            if not self._tools_ready:
                await finish(self._fill_volume(image))
                self._tools_ready = True

    async def _fill_volume(self, image: str) -> None:
        marks = dict(labels(self._run))
        await self._client.ask("POST", "/volumes/create", {"Name": self._volume, "Labels": marks})
        name = f"{self._volume}-tools"
        host = {"NetworkMode": "none", "Mounts": [mount(self._volume, read_only=False)]}
        order = {"Image": image, "Entrypoint": [f"{TOOLS}/init"], "Labels": marks, "HostConfig": host}
        await self._client.ask("POST", "/containers/create", order, name=name)
        try:
            with new_archive() as archive:
                archive.write(pack_files(self._programs, mode=0o555))
                archive.seek(0)
                await Files(self._client, name).put(TOOLS, archive)
        finally:
            await remove_container(self._client, name)


async def _undo(building: "asyncio.Future[Container]") -> None:
    """Wait for a container that nobody wants any more, since nothing can stop its making half-way, and remove it."""
    with suppress(SandboxError):
        container = await building
        await container.remove()


async def _destroy_if_possible(sandbox: EngineSandbox) -> None:
    """Destroy a sandbox; one whose daemon is gone is gone already."""
    with suppress(SandboxError):
        await sandbox.destroy()


async def examine_engine(engine: Engine) -> HostFinding:
    """Whether a daemon answers and what it can do; nothing needs one where our own sandboxes work."""
    try:
        async with EngineBackend(engine) as backend:
            capabilities = await backend.probe()
    except (SeatrialError, OSError) as error:
        detail, _, fix = str(error).partition("; ")
        return HostFinding(
            engine, "missing", f"{detail} (optional)", fix or "nothing: our own sandboxes do not need it"
        )
    if reason := capabilities.missing.get("listen"):
        detail, _, fix = reason.partition("; ")
        return HostFinding(engine, "missing", f"{capabilities.mode} answers, but agents reach no model: {detail}", fix)
    return HostFinding(engine, "works", f"{capabilities.mode} answers (optional)")
