"""EmbeddedBackend: makes sandboxes on this very machine, with no daemon and no image tool, as root or as a user."""

import asyncio
import contextlib
import itertools
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Capabilities, Limit, NetworkMode, SandboxSpec
from seatrial.sandbox.embedded.cgroups import Hierarchy
from seatrial.sandbox.embedded.client import SpawnerClient
from seatrial.sandbox.embedded.control_group import ControlGroup
from seatrial.sandbox.embedded.disk_image import choose, make_image
from seatrial.sandbox.embedded.requests import Mode
from seatrial.sandbox.embedded.runs import RunDirectory, state_root
from seatrial.sandbox.embedded.sandbox import ONE_USER, EmbeddedSandbox, Made
from seatrial.sandbox.embedded.syscalls import supported_machine

_NETWORKS: frozenset[NetworkMode] = frozenset(get_args(NetworkMode))


class EmbeddedBackend:
    """Sandboxes from namespaces, overlayfs and cgroups. `mode` is chosen by itself unless given."""

    def __init__(self, mode: Mode | Literal["auto"] = "auto", root: Path | None = None) -> None:
        self._wanted = mode
        self._root = root
        self._names = itertools.count(1)
        self._host_image_ready = False
        self._host_image_lock = asyncio.Lock()
        self._sandboxes: dict[str, EmbeddedSandbox] = {}
        self._missing: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Start the spawner and clear away what earlier runs left behind. Raises HostUnsupportedError."""
        if not supported_machine():
            raise HostUnsupportedError("the embedded sandbox knows x86_64 and aarch64 only; use the Docker backend")
        self._hierarchy = Hierarchy.here()
        self._run = RunDirectory(self._root or state_root())
        try:
            self._client, self._mode = await self._start()
        except BaseException:
            self._remove_run()
            raise
        try:
            self._support = self._hierarchy.usable_limits()
            # While it is there, the groups above those of the sandboxes need not be made and removed with each of them.
            self._hierarchy.create(self._run.name, "anchor", LimitSpec())
            await self._clear_leftovers()
        except BaseException:
            await finish(self._close())
            raise
        return self

    async def _start(self) -> tuple[SpawnerClient, Mode]:
        for mode in self._modes():
            client = SpawnerClient(mode, self._run.path)
            try:
                await client.start()
            except SandboxError as error:
                raise HostUnsupportedError(f"{error}; `seatrial doctor` shows what is missing") from None
            try:
                reason = await self._why_not(client, mode)
            except BaseException:
                await finish(client.close())
                raise
            if reason is None or mode == self._wanted:
                return client, mode
            self._missing["userns"] = reason
            await client.close()
        raise HostUnsupportedError("no way to run sandboxes was found; `seatrial doctor` shows what is missing")

    def _modes(self) -> tuple[Mode, ...]:
        if self._wanted != "auto":
            return (self._wanted,)
        return ("userns", "root") if os.geteuid() == 0 else ("user",)

    async def _why_not(self, client: SpawnerClient, mode: Mode) -> str | None:
        """Whether file owners can be shifted where it matters, found out by doing it."""
        if mode != "userns":
            return None
        try:
            for path in ("/usr", str(self._run.path)):
                await client.call("check_shift", path=path)
        except SandboxError as error:
            return f"sandboxes run as the host's root, without a user namespace: {error}"
        return None

    async def _clear_leftovers(self) -> None:
        for path in self._run.abandoned():
            with contextlib.suppress(SandboxError):  # what cannot be removed now must not stop this run
                await asyncio.to_thread(self._hierarchy.sweep, path.name)
                await self._client.call("remove", path=str(path))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Destroy what is left and end the spawner, however often we are cancelled meanwhile."""
        await finish(self._close())

    async def _close(self) -> None:
        async with asyncio.TaskGroup() as group:
            for sandbox in list(self._sandboxes.values()):
                group.create_task(_destroy_if_possible(sandbox))
        await self._client.close()
        await asyncio.to_thread(self._hierarchy.sweep, self._run.name)
        self._remove_run()

    def _remove_run(self) -> None:
        with contextlib.suppress(RecursionError):  # the next run removes what is nested too deeply
            shutil.rmtree(self._run.path, ignore_errors=True)
        self._run.release()

    async def probe(self) -> Capabilities:
        """What can be done here."""
        storage: frozenset[Limit] = frozenset({"storage_mb"})
        one_user = {} if self._client.many_users else {"many_users": ONE_USER}
        return Capabilities(
            backend="embedded",
            isolation="namespaces",
            mode=self._mode,
            limits=self._support.usable | storage,
            networks=_NETWORKS,
            guarded_phases=True,
            own_system=True,
            private_loopback=True,
            many_users=self._client.many_users,
            missing={**self._missing, **dict(self._support.missing.items()), **one_user},
        )

    async def create(self, spec: SandboxSpec) -> EmbeddedSandbox:
        """A new sandbox. Raises HostUnsupportedError for a limit that cannot be enforced, SandboxError otherwise."""
        _check_layers(spec.image.layers)
        limits = self._enforceable(spec)
        name = f"{self._run.name}-{next(self._names)}"
        group = self._hierarchy.create(self._run.name, name, limits.model_copy(update={"storage_mb": None}))
        building = asyncio.ensure_future(self._build(spec, limits, name))
        try:
            await asyncio.shield(building)
        except BaseException:
            await finish(self._undo(building, name, group))
            raise
        sandbox = EmbeddedSandbox(self._client, Made(name, spec, limits, group, lambda: self._forget(name, group)))
        self._sandboxes[name] = sandbox
        return sandbox

    async def _build(self, spec: SandboxSpec, limits: LimitSpec, name: str) -> None:
        if spec.image.base == "host":
            await self._prepare_host_image()
        disk = await self._make_disk(limits, name)
        state = self._run.path / name
        state.mkdir(mode=0o755)
        await self._client.call(
            "create",
            name=name,
            state=str(state),
            base=spec.image.base,
            layers=[os.path.abspath(layer) for layer in spec.image.layers],  # noqa: ASYNC240 - no look at the disk
            hostname=spec.hostname,
            workdir=spec.workdir,
            system_folders=list(spec.system_folders),
            disk=disk,
        )

    async def _undo(self, building: "asyncio.Future[None]", name: str, group: ControlGroup) -> None:
        """Wait for a sandbox that nobody wants any more, since nothing can stop its making half-way, and remove it."""
        with contextlib.suppress(SandboxError, OSError):
            await building
            await self._client.call("destroy", name=name)
        with contextlib.suppress(SandboxError):
            await self._abandon(name, group)

    def _enforceable(self, spec: SandboxSpec) -> LimitSpec:
        """The limits that will hold; refuses the spec if that is not all of them and all are required."""
        asked = {name for name, value in spec.limits.model_dump().items() if value is not None}
        missing = {name: reason for name, reason in self._support.missing.items() if name in asked}
        if missing and spec.enforcement == "required":
            reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
            raise HostUnsupportedError(
                f"this machine cannot enforce {reasons}; or allow partial limits (--allow-partial-limits)"
            )
        return spec.limits.model_copy(update=dict.fromkeys(missing))

    async def _prepare_host_image(self) -> None:
        """Make the parts all sandboxes of the host image share, once."""
        async with self._host_image_lock:
            if not self._host_image_ready:
                await self._client.call("prepare")
                self._host_image_ready = True

    async def _make_disk(self, limits: LimitSpec, name: str) -> str | None:
        if limits.storage_mb is None:
            return None
        if choose(limits.storage_mb, root=self._mode != "user") == "tmpfs":
            return f"tmpfs:{limits.storage_mb}"
        image = self._run.path / f"{name}.img"
        await asyncio.to_thread(make_image, image, limits.storage_mb)
        return f"loop:{image}"

    async def _forget(self, name: str, group: ControlGroup) -> None:
        self._sandboxes.pop(name, None)
        await self._client.call("destroy", name=name)
        await self._abandon(name, group)

    async def _abandon(self, name: str, group: ControlGroup) -> None:
        """Remove what was made around a sandbox."""
        if not group.remove_at_once():
            await asyncio.to_thread(group.remove)
        state = self._run.path / name
        if state.exists():
            await self._client.call("remove", path=str(state))
        (self._run.path / f"{name}.img").unlink(missing_ok=True)


async def _destroy_if_possible(sandbox: EmbeddedSandbox) -> None:
    """Destroy a sandbox; one whose spawner is gone is gone already."""
    with contextlib.suppress(SandboxError):
        await sandbox.destroy()


def _check_layers(layers: tuple[Path, ...]) -> None:
    for layer in layers:
        if not layer.is_dir():
            raise SandboxError(f"layer {layer}: expected a directory with the files of an image layer")
        if any(character in str(layer) for character in ":,\\"):
            raise SandboxError(
                f"layer {layer}: overlay mounts cannot take a colon, comma or backslash in a path; move it"
            )
