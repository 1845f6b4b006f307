"""EmbeddedBackend: makes sandboxes on this very machine, with no daemon and no image tool, as root or as a user."""

import asyncio
import contextlib
import itertools
import os
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Capabilities, Limit, NetworkMode, SandboxSpec
from seatrial.sandbox.cgroups import Hierarchy
from seatrial.sandbox.control_group import ControlGroup
from seatrial.sandbox.embedded.client import find_missing_proc
from seatrial.sandbox.embedded.home import SpawnerHome, SpawnerKeeper
from seatrial.sandbox.embedded.protocol import Mode
from seatrial.sandbox.embedded.sandbox import ONE_USER, EmbeddedParts, EmbeddedSandbox
from seatrial.sandbox.runs import state_root
from seatrial.sandbox.syscalls import supported_machine

_NETWORKS: frozenset[NetworkMode] = frozenset(get_args(NetworkMode))


class EmbeddedBackend:
    """Sandboxes from namespaces, overlayfs and cgroups. `mode` is chosen by itself unless given."""

    def __init__(self, mode: Mode | Literal["auto"] = "auto", root: Path | None = None) -> None:
        self._wanted = mode
        self._root = root
        self._names = itertools.count(1)
        self._sandboxes: dict[str, EmbeddedSandbox] = {}
        self._missing: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Start the spawner and clear away what earlier runs left behind. Raises HostUnsupportedError."""
        if not supported_machine():
            raise HostUnsupportedError("the embedded sandbox knows x86_64 and aarch64 only; use the Docker backend")
        if hindrance := find_missing_proc():
            raise HostUnsupportedError(f"sandboxes cannot be made: {hindrance}")
        self._hierarchy = Hierarchy.here()
        home = await self._first_home()
        self._mode, self._many_users = home.mode, home.client.many_users
        self._keeper = SpawnerKeeper(home, lambda: self._open_home(home.mode))
        try:
            self._support = self._hierarchy.usable_limits()
            await home.settle()
        except BaseException:
            await finish(self._close())
            raise
        return self

    async def _first_home(self) -> SpawnerHome:
        for mode in self._modes():
            home = await self._start(mode)
            try:
                reason = await self._why_not(home)
            except BaseException:
                await finish(home.close())
                raise
            if reason is None or mode == self._wanted:
                return home
            self._missing["userns"] = reason
            await home.close()
        raise HostUnsupportedError("no way to run sandboxes was found; `seatrial doctor` shows what is missing")

    async def _open_home(self, mode: Mode) -> SpawnerHome:
        """A new spawner in place of one that died, and what that one left cleared away."""
        home = await self._start(mode)
        try:
            await home.settle()
        except BaseException:
            await finish(home.close())
            raise
        return home

    async def _start(self, mode: Mode) -> SpawnerHome:
        try:
            return await SpawnerHome.open(self._hierarchy, self._root or state_root(), mode)
        except SandboxError as error:
            raise HostUnsupportedError(f"{error}; use containers instead (-e docker, -e podman)") from None

    def _modes(self) -> tuple[Mode, ...]:
        if self._wanted != "auto":
            return (self._wanted,)
        return ("userns", "root") if os.geteuid() == 0 else ("user",)

    async def _why_not(self, home: SpawnerHome) -> str | None:
        """Whether file owners can be shifted where it matters, found out by doing it."""
        if home.mode != "userns":
            return None
        try:
            for path in ("/usr", str(home.run.path)):
                await home.client.call("check_shift", path=path)
        except SandboxError as error:
            return f"sandboxes run as the host's root, without a user namespace: {error}"
        return None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Destroy what is left and end the spawner, however often we are cancelled meanwhile."""
        await finish(self._close())

    async def _close(self) -> None:
        async with asyncio.TaskGroup() as group:
            for sandbox in list(self._sandboxes.values()):
                group.create_task(_destroy_if_possible(sandbox))
        await self._keeper.home.close()

    async def probe(self) -> Capabilities:
        storage: frozenset[Limit] = frozenset({"storage_mb"})
        one_user = {} if self._many_users else {"many_users": ONE_USER}
        return Capabilities(
            backend="embedded",
            isolation="namespaces",
            mode=self._mode,
            limits=self._support.usable | storage,
            networks=_NETWORKS,
            guarded_phases=True,
            own_system=True,
            private_loopback=True,
            many_users=self._many_users,
            missing={**self._missing, **dict(self._support.missing.items()), **one_user},
            state_folders=(self._keeper.home.run.path.parent,),
        )

    async def create(self, spec: SandboxSpec) -> EmbeddedSandbox:
        """A new sandbox, with a new spawner if the last one has died.

        Raises HostUnsupportedError for a limit that cannot be enforced, SandboxError otherwise.
        """
        _check_layers(spec.image.layers)
        limits = self._enforceable(spec)
        home = await self._keeper.living()
        name = f"{home.run.name}-{next(self._names)}"
        group = await home.build(name, spec, limits)
        made = EmbeddedParts(name, spec, limits, group, lambda: self._forget(home, name, group))
        sandbox = self._sandboxes[name] = EmbeddedSandbox(home.client, made)
        return sandbox

    async def _forget(self, home: SpawnerHome, name: str, group: ControlGroup) -> None:
        self._sandboxes.pop(name, None)
        await home.destroy(name, group)

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
