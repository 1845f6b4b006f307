"""What a spawner needs on this machine: a run directory, control groups, disks; and a new spawner when one has died.

When a spawner has died its home is given up as a whole: the lock on its directory is released, and the next home that
opens, in this process or in another, removes what is left like what a killed run left. What is said to a spawner is in
`client.py`. Disk images are made here because `mkfs` takes `subprocess`, which the spawner must not import: it brings
`threading`, whose bookkeeping then runs in every child.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal, Self

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.cgroups import Hierarchy
from seatrial.sandbox.control_group import ControlGroup
from seatrial.sandbox.embedded.client import SpawnerClient
from seatrial.sandbox.embedded.disk import LOOP_CONTROL
from seatrial.sandbox.embedded.protocol import Mode
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


# Replacing a spawner that has died, so that only the trials it ran are lost.

MOST_DEATHS = 5
"""As many in a row, without one sandbox that came to its end, are a broken machine: no more are started."""


class SpawnerKeeper:
    """Has the home of a living spawner for whoever makes a sandbox. `open_home` opens a new one."""

    def __init__(self, home: SpawnerHome, open_home: Callable[[], Awaitable[SpawnerHome]]) -> None:
        self._open_home = open_home
        self._replacing = asyncio.Lock()
        self._deaths = 0
        self.home = home

    async def living(self) -> SpawnerHome:
        """The home of a spawner that serves, a new one if need be. Raises SandboxError when all of them die."""
        if self.home.alive:
            return self.home
        async with self._replacing:
            if not self.home.alive:
                self.home = await self._replacement()
            return self.home

    async def _replacement(self) -> SpawnerHome:
        self._deaths = 1 if self.home.proven else self._deaths + 1
        if self._deaths >= MOST_DEATHS:
            raise SandboxError(
                f"{MOST_DEATHS} sandbox spawners in a row ended before one sandbox was done with, so no more are "
                f"started; the last: {self.home.client.end}. Find out what kills them, then go on"
            )
        with suppress(SandboxError):  # what does not end now must not stop this run; the next one clears it away
            await self.home.give_up()
        try:
            return await self._open_home()
        except HostUnsupportedError as error:
            raise SandboxError(f"{self.home.client.end}; a new one cannot be started: {error}") from error


# Disks with a size: a loop-mounted image, or memory. `disk.py` attaches the image inside.

MIB = 2**20
MKFS_TIMEOUT_SEC = 120

_BYTES_PER_INODE = 8192  # twice as many files as usual: package managers make small ones
_INODE_SIZE = 256


def choose(storage_mb: int, *, root: bool) -> Literal["loop", "tmpfs"]:
    """How to enforce a disk limit: `loop` wherever it can be had, for what is in a `tmpfs` counts as memory too.

    Raises HostUnsupportedError when a tmpfs is all there is and the machine has less memory than that.
    """
    if root and _mkfs() and Path(LOOP_CONTROL).exists():
        return "loop"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if storage_mb * MIB > memory:
        raise HostUnsupportedError(
            f"storage_mb = {storage_mb} is more than this machine's memory; on the disk it can be enforced only for "
            "root, with loop devices and mkfs.ext4 (Debian: apt-get install e2fsprogs)"
        )
    return "tmpfs"


def make_image(path: Path, storage_mb: int) -> None:
    """Make a sparse ext4 image in which at least `storage_mb` MiB can be stored.

    Raises HostUnsupportedError without mkfs.ext4, SandboxError when the image exists or cannot be made.
    """
    mkfs = _mkfs()
    if not mkfs:
        raise HostUnsupportedError("the disk cannot be limited: no mkfs.ext4; Debian: apt-get install e2fsprogs")
    features = "^has_journal,^resize_inode"  # it is thrown away: nobody will repair or grow it
    options = ["-q", "-F", "-m", "0", "-b", "4096", "-i", str(_BYTES_PER_INODE), "-I", str(_INODE_SIZE)]
    command = [mkfs, *options, "-O", features, "-E", "lazy_itable_init=1,nodiscard", str(path)]
    with ExitStack() as undo:
        try:
            with path.open("xb") as image:
                undo.callback(path.unlink)
                image.truncate(_image_bytes(storage_mb))
            subprocess.run(command, capture_output=True, check=True, timeout=MKFS_TIMEOUT_SEC)  # noqa: S603 - our words
        except (OSError, OverflowError, subprocess.SubprocessError) as error:
            output = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise SandboxError(f"cannot make the disk image {path}: {output or error}") from error
        undo.pop_all()


def _mkfs() -> str | None:
    return shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _image_bytes(storage_mb: int) -> int:
    """The size asked for and what ext4 keeps for itself: inode tables, a reserve of up to 16 MiB, bitmaps."""
    asked = storage_mb * MIB
    reserve = min(asked // 48, 17 * MIB)
    bitmaps = asked // 8192 + MIB
    return (asked + reserve + bitmaps) * (_BYTES_PER_INODE + _INODE_SIZE + 16) // _BYTES_PER_INODE
