"""A spawner and what lives and dies with it: its run directory, its control groups, what its sandboxes share.

When a spawner has died its home is given up as a whole: the lock on its directory is released, and whoever opens the
next home, in this process or in another, removes what is left of it like what a killed run left behind.
"""

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Self

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.cgroups import Hierarchy
from seatrial.sandbox.control_group import ControlGroup
from seatrial.sandbox.embedded.client import SpawnerClient
from seatrial.sandbox.embedded.disk_image import choose, make_image
from seatrial.sandbox.embedded.requests import Mode
from seatrial.sandbox.runs import RunDirectory


class SpawnerHome:
    """A home that is open: sandboxes are built in it and cleared away again."""

    def __init__(self, hierarchy: Hierarchy, run: RunDirectory, client: SpawnerClient, mode: Mode) -> None:
        self._hierarchy = hierarchy
        self.run = run
        self.client = client
        self.mode = mode
        self.proven = False
        """Whether a sandbox has come to its end here as it should."""
        self._host_image_ready = False
        self._host_image_lock = asyncio.Lock()

    @classmethod
    async def open(cls, hierarchy: Hierarchy, root: Path, mode: Mode) -> Self:
        """Start a spawner in a directory of its own. Raises SandboxError when it cannot run."""
        run = RunDirectory(root)
        client = SpawnerClient(mode, run.path)
        try:
            await client.start()
        except BaseException:
            _remove(run)
            raise
        return cls(hierarchy, run, client, mode)

    @property
    def alive(self) -> bool:
        """Whether its spawner serves."""
        return self.client.end is None

    async def settle(self) -> None:
        """Make the group that holds all others of this run, and clear away what runs that are no more have left."""
        # While it is there, the groups above those of the sandboxes need not be made and removed with each of them.
        self._hierarchy.create(self.run.name, "anchor", LimitSpec())
        for path in self.run.abandoned():
            with suppress(SandboxError):  # what cannot be removed now must not stop this run
                await asyncio.to_thread(self._hierarchy.sweep, path.name)
                await self.client.call("remove", path=str(path))

    async def build(self, name: str, spec: SandboxSpec, limits: LimitSpec) -> ControlGroup:
        """A new sandbox; returns its control group. Raises SandboxError, and then nothing of it is left."""
        group = self._hierarchy.create(self.run.name, name, limits.model_copy(update={"storage_mb": None}))
        building = asyncio.ensure_future(self._build(name, spec, limits))
        try:
            await asyncio.shield(building)
        except BaseException:
            await finish(self._undo(building, name, group))
            raise
        return group

    async def _build(self, name: str, spec: SandboxSpec, limits: LimitSpec) -> None:
        if spec.image.base == "host":
            await self._prepare_host_image()
        disk = await self._make_disk(limits, name)
        state = self.run.path / name
        state.mkdir(mode=0o755)
        await self.client.call(
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
        with suppress(SandboxError, OSError):
            await building
            await self.client.call("destroy", name=name)
        with suppress(SandboxError):
            await self._clear(name, group)

    async def _prepare_host_image(self) -> None:
        """Make the parts all sandboxes of the host image share, once."""
        async with self._host_image_lock:
            if not self._host_image_ready:
                await self.client.call("prepare")
                self._host_image_ready = True

    async def _make_disk(self, limits: LimitSpec, name: str) -> str | None:
        if limits.storage_mb is None:
            return None
        if choose(limits.storage_mb, root=self.mode != "user") == "tmpfs":
            return f"tmpfs:{limits.storage_mb}"
        image = self.run.path / f"{name}.img"
        await asyncio.to_thread(make_image, image, limits.storage_mb)
        return f"loop:{image}"

    async def destroy(self, name: str, group: ControlGroup) -> None:
        """End a sandbox and remove what was made for it. Raises SandboxError."""
        await self.client.call("destroy", name=name)
        await self._clear(name, group)
        self.proven = True

    async def _clear(self, name: str, group: ControlGroup) -> None:
        """Remove what was made around a sandbox."""
        if not group.remove_at_once():
            await asyncio.to_thread(group.remove)
        state = self.run.path / name
        if state.exists():
            await self.client.call("remove", path=str(state))
        (self.run.path / f"{name}.img").unlink(missing_ok=True)

    async def give_up(self) -> None:
        """End the spawner and all it runs; what is left of its files the next home removes. Raises SandboxError."""
        try:
            await self._end()
        finally:
            self.run.release()

    async def close(self) -> None:
        """End the spawner and remove everything. Raises SandboxError when something does not end."""
        try:
            await self._end()
        finally:
            await asyncio.to_thread(_remove, self.run)

    async def _end(self) -> None:
        await self.client.close()
        await asyncio.to_thread(self._hierarchy.sweep, self.run.name)


def _remove(run: RunDirectory) -> None:
    with suppress(RecursionError):  # the next run removes what is nested too deeply
        shutil.rmtree(run.path, ignore_errors=True)
    run.release()
