"""EngineSandbox: one container, as the Sandbox Protocol describes it.

It puts together what others do: commands (`command.py`), files, changes, layers, processes and listeners.
"""

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox import api
from seatrial.sandbox.api import Curate, ExecResult, ExecSpec, Phase, SandboxSpec
from seatrial.sandbox.archives import closing, folder_member
from seatrial.sandbox.division import VERIFIER_TMP, divide
from seatrial.sandbox.engine import entering, files, survivors
from seatrial.sandbox.engine.change_finder import ChangeFinder
from seatrial.sandbox.engine.changes import Seen
from seatrial.sandbox.engine.command import ContainerCommand, run_tool
from seatrial.sandbox.engine.container import TOOLS, Container, group_of, measure
from seatrial.sandbox.engine.images import ImageFiles
from seatrial.sandbox.engine.layers import lay_out_by_commands, pack_container, save
from seatrial.sandbox.engine.survivors import EVERYBODY_GONE
from seatrial.sandbox.opens import Opens, opened, place_watches, reading_opens
from seatrial.sandbox.processor import Meter, deadline, processor_use
from seatrial.sandbox.proxy import EgressProxy
from seatrial.sandbox.transfer import put_packed

_KILL_SEC = 20.0
_COPY_SEC = 300.0
_ROOM = 10_000  # more processes than anybody can start before all are ended
# Whoever the verifier runs as has to write there.
_VERIFIERS = {"tests": 0o755, "logs/verifier": 0o777, VERIFIER_TMP.strip("/"): 0o1777}

ListenByHelper = Callable[[str, int], Awaitable[socket.socket]]


@dataclass(frozen=True, slots=True)
class ContainerParts:
    """What the backend decided about a sandbox."""

    spec: SandboxSpec
    limits: LimitSpec
    user: str | None
    refused: dict[str, str]
    image: ImageFiles
    trusted: bool
    """Whether the engine lists everything that differs from an image."""
    listen_by_helper: ListenByHelper
    forget: Callable[["EngineSandbox"], Awaitable[None]]
    create: Callable[[SandboxSpec, str | None], Awaitable["EngineSandbox"]]


class EngineSandbox:
    """A container that is up. Agent and verifier share all of it; nothing tells their processes apart."""

    def __init__(self, container: Container, made: ContainerParts) -> None:
        self._container = container
        self._made = made
        self._commands: list[ContainerCommand] = []
        self._proxy = EgressProxy(lambda: self.listen(0))
        self._finder = ChangeFinder(container, made.image, made.trusted)
        self._before = Seen()
        self._copies: list[EngineSandbox] = []
        self._verifier_was_here = self._verifiers_folders_are_there = False
        self._destroyed = False
        self._teardown: asyncio.Future[None] | None = None

    @property
    def limits_enforced(self) -> LimitSpec:
        return self._made.limits

    def _check(self) -> None:
        if self._destroyed:
            raise SandboxError("the sandbox has been destroyed")

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Run a command; at the end of its time, everything in the container is killed with it.

        Exit codes from 129 to 192 count as signals, since a shell stands in between.
        """
        self._check()
        if reason := self._made.refused.get(spec.network.mode):
            raise HostUnsupportedError(f"network {spec.network.mode!r} cannot be had: {reason}")
        if spec.phase == "agent" and self._verifier_was_here:
            await self._clear_after_verifier()
        if spec.files:
            await put_packed(self, *spec.files, phase=spec.phase)
        if spec.changes_from_here:
            await self.forget_changes()
        self._verifier_was_here |= spec.phase == "verifier"
        async with self._proxy.access(spec.network) as network_env:
            return await self._run(spec, network_env)

    async def _run(self, spec: ExecSpec, network_env: dict[str, str]) -> ExecResult:
        command = ContainerCommand(self._container.client, self._container.name, spec)
        self._commands = [earlier for earlier in self._commands if earlier.open] + [command]
        started = time.monotonic()
        meter = None if spec.patience_sec is None else Meter(group_of(self._container.local_pid()))
        try:
            with reading_opens(spec.watched, asyncio.get_running_loop()) as opens:
                await self._watch(opens)
                code = await self._until_its_end(command, spec, network_env, meter)
                found = opened(spec.watched, opens)
        except BaseException:
            command.finish()
            raise
        stdout, stderr, truncated = command.finish()
        return ExecResult(code, time.monotonic() - started, stdout, stderr, truncated, *processor_use(meter), found)

    async def _watch(self, opens: Opens | None) -> None:
        """Place watches in the container's files, if it runs on this machine and we may look into it."""
        pid = self._container.local_pid() if opens else None
        if opens and pid is not None:
            with suppress(OSError):
                root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                with closing(root):
                    await asyncio.to_thread(place_watches, *opens.descriptors, root)

    async def _until_its_end(
        self, command: ContainerCommand, spec: ExecSpec, network_env: dict[str, str], meter: Meter | None
    ) -> int | None:
        has_own = spec.phase == "verifier" and self._verifiers_folders_are_there
        own = {"TMPDIR": VERIFIER_TMP} if has_own and "TMPDIR" not in self._made.spec.image.config.env else {}
        env = {**own, **self._made.spec.env, **network_env, **spec.env}
        user = str(spec.user if spec.user is not None else self._made.user or 0)
        try:
            async with deadline(spec.timeout_sec, spec.patience_sec, meter):
                await command.start(env, spec.cwd or self._made.spec.workdir, user)
                return await command.wait()
        except TimeoutError:
            await finish(self._end(command))
            return None
        except asyncio.CancelledError:
            with suppress(SandboxError):  # destroyed meanwhile: then it has ended too
                await finish(self._end(command))
            raise

    async def _end(self, command: ContainerCommand) -> None:
        if not self._destroyed:
            await self.kill_all()
            await command.drain()

    async def put(self, directory: str, archive: BinaryIO, *, phase: Phase = "agent") -> None:
        self._check()
        self._verifier_was_here |= phase == "verifier"
        await self._container.files.put(directory, archive)

    async def get(
        self, path: str, archive: BinaryIO, *, phase: Phase = "agent", limit: int = api.MAX_ARCHIVE_BYTES
    ) -> None:
        self._check()
        await self._container.files.get(path, archive, limit)

    async def listen(self, port: int) -> socket.socket:
        self._check()
        if reason := self._made.refused.get("listen"):
            raise HostUnsupportedError(f"nothing can listen inside the container: {reason}")
        pid = self._container.local_pid()
        if pid is not None and entering.may_enter():
            return await entering.listen(pid, port)
        return await self._made.listen_by_helper(self._container.name, port)

    async def kill_all(self, phase: Phase = "agent") -> None:
        """End every process, whosever it is; returns when they are gone. The first one outlives it and reaps."""
        self._check()
        if not await self._end_everybody() and not await self._end_everybody_given_room():
            # Started anew, it keeps its files and nothing else. The last resort, for Docker sometimes takes that for
            # its end, and removes it.
            await self._container.restart()
            await self._proxy.close()
            self._proxy = EgressProxy(lambda: self.listen(0))

    async def _end_everybody(self) -> bool:
        """End all but the first process, from inside; False when there is no proof of it."""
        try:
            async with asyncio.timeout(_KILL_SEC):
                proof = await run_tool(self._container.client, self._container.name, f"{TOOLS}/killall")
        except (TimeoutError, SandboxError):
            return False
        return proof == EVERYBODY_GONE

    async def _end_everybody_given_room(self) -> bool:
        """The same where there was no room for one more process, most likely: for a moment there is."""
        limit = self._made.limits.pids
        if limit is None:
            return False
        try:
            await self._container.limit_processes(limit + _ROOM)
        except SandboxError:  # an engine that cannot, such as older Podmans
            return False
        try:
            return await self._end_everybody()
        finally:
            await finish(self._container.limit_processes(limit))

    async def processes(self) -> tuple[str, ...]:
        """What runs in the container, as the engine sees it, but for what we brought; see `survivors.py`."""
        self._check()
        self._commands = [command for command in self._commands if command.open]
        return await survivors.names(self._container, self._commands)

    async def renew_verifier(self, curate: Curate | None = None) -> None:
        """Empty the verifier's own directories, whatever is there. What an earlier verifier left running stays."""
        if curate is not None:
            reason = self._made.refused["own_system"]
            raise HostUnsupportedError(f"a system of its own cannot be had for the verifier: {reason}")
        self._check()
        self._verifier_was_here = True
        await self._empty_verifiers_folders()

    async def _empty_verifiers_folders(self) -> None:
        members = files.fresh_folders(_VERIFIERS)
        # A link in place of /logs gives way; a directory keeps what else is in it.
        await self._container.files.put_members([folder_member("logs"), *members])
        self._verifiers_folders_are_there = True

    async def _clear_after_verifier(self) -> None:
        """What an agent must not see is gone before it starts again; it finds one of the directories empty, as ever."""
        self._verifier_was_here = False
        await self._empty_verifiers_folders()
        self._verifiers_folders_are_there = False
        remove = ExecSpec(("rmdir", "/tests", VERIFIER_TMP), user=0, cwd="/", timeout_sec=_KILL_SEC)
        await self._run(remove, {})

    async def forget_changes(self) -> None:
        """What differs from the image now is nobody's change any more."""
        self._before = await self._finder.start(self._hidden)

    @property
    def _hidden(self) -> list[str]:
        verifiers = [f"/{name}" for name in _VERIFIERS] if self._verifier_was_here else []
        return [TOOLS, *verifiers]

    async def changes(self) -> FileChanges:
        """What differs from the image; of the verifier's own directories nothing is, once there was a verifier."""
        self._check()
        return await self._finder.changes(self._before, self._hidden)

    async def snapshot(self, layer: Path) -> None:
        """Save what differs from the image as a new layer directory. Running processes are killed first."""
        await self.kill_all()
        await save(await self._finder.overview(self._hidden), self._container.files, layer)

    async def pack_layer(self, archive: BinaryIO, limit: int) -> None:
        """Pack what differs from the image into an archive, through the engine."""
        self._check()
        await pack_container(await self._finder.overview(self._hidden), self._container.files, archive, limit)

    async def unpack_layer(self, directory: str, archive: BinaryIO) -> None:
        """Lay an archive of a layer over what is below a directory, with programs of the image."""
        self._check()
        await lay_out_by_commands(self, directory, archive)

    async def copy_beside(self) -> "EngineSandbox":
        """A container of the same image with the files of this one as they are now, which shares its network alone.

        Neither sees the other's processes and files. It lives no longer than this one.
        """
        self._check()
        copy = await self._made.create(self._made.spec, self._container.name)
        self._copies.append(copy)
        try:
            async with asyncio.timeout(_COPY_SEC):
                with tempfile.TemporaryFile() as archive:
                    await self.pack_layer(archive, api.MAX_ARCHIVE_BYTES)
                    await copy.unpack_layer("/", archive)
                await copy.take_over(self._container, self._before)
        except BaseException as error:
            await finish(copy.destroy())
            if isinstance(error, TimeoutError):
                raise SandboxError(f"its files cannot be copied within {_COPY_SEC:g} s") from error
            raise
        return copy

    async def take_over(self, original: Container, before: Seen) -> None:
        """Be the copy of a container: what was there `before` is not a change here, either."""
        self._before = await self._finder.start_copy(before, self._hidden)
        if entering.may_enter():
            spec, find = self._made.spec, self._container.local_pid
            parts = divide(spec.workdir, spec.system_folders).copied
            with suppress(SandboxError):  # then it has those folders as they were
                await entering.share_folders(find, original.local_pid, parts, spec.workdir)

    async def stamps(self) -> None:
        """None: an engine does not tell when a file was touched."""
        self._check()

    async def usage(self) -> ResourceUse:
        self._check()
        return await measure(self._container.client, self._container.name, self._container.local_pid())

    async def destroy(self) -> None:
        """End every process and remove every trace; more than once, at once or after a cancellation is fine."""
        if self._teardown is None:
            self._teardown = asyncio.ensure_future(self._tear_down())
        await finish(self._teardown)

    async def _tear_down(self) -> None:
        self._destroyed = True
        await self._proxy.close()
        for copy in self._copies:  # before its network goes
            await copy.destroy()
        await self._container.remove()
        for command in self._commands:
            await command.close()
        await self._made.forget(self)
