"""EmbeddedSandbox: one sandbox of the embedded backend, as the Sandbox Protocol describes it."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import orjson

from seatrial.concurrency import finish
from seatrial.errors import ContentError, HostUnsupportedError, SandboxError
from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox.api import (
    AS_COPIED,
    DEFAULT_PATH,
    MAX_ARCHIVE_BYTES,
    Curate,
    Curation,
    ExecResult,
    ExecSpec,
    Phase,
    SandboxSpec,
    Stamps,
    SystemCopy,
)
from seatrial.sandbox.capture import Capture
from seatrial.sandbox.control_group import ControlGroup
from seatrial.sandbox.division import VERIFIER_TMP
from seatrial.sandbox.embedded.client import SpawnerClient
from seatrial.sandbox.opens import Opens, opened, reading_opens
from seatrial.sandbox.processor import Meter, deadline, processor_use
from seatrial.sandbox.proxy import EgressProxy

_log = logging.getLogger(__name__)

ONE_USER = (
    "only one user id exists inside; install uidmap (newuidmap, newgidmap) and give yourself a range in /etc/subuid "
    "and /etc/subgid"
)


class EmbeddedParts(NamedTuple):
    """What the backend made for a sandbox besides the sandbox itself."""

    name: str
    spec: SandboxSpec
    limits: LimitSpec
    group: ControlGroup
    forget: Callable[[], Awaitable[None]]


class EmbeddedSandbox:
    """A sandbox that is up."""

    def __init__(self, client: SpawnerClient, made: EmbeddedParts) -> None:
        self._client = client
        self._made = made
        self._tokens = itertools.count(1)
        self._captures: list[Capture] = []
        self._proxy = EgressProxy(lambda: self.listen(0))
        self._view: Literal["none", "perhaps", "made"] = "none"
        self._view_lock = asyncio.Lock()
        self._destroyed = False
        self._teardown: asyncio.Future[None] | None = None

    @property
    def limits_enforced(self) -> LimitSpec:
        return self._made.limits

    async def _call(self, operation: str, descriptors: Sequence[int] = (), **fields: Any) -> list[int]:
        if fields.get("phase") == "verifier" and operation != "kill":
            await self._make_view()
        _, passed = await self._request(operation, descriptors, **fields)
        return passed

    async def _request(
        self, operation: str, descriptors: Sequence[int] = (), **fields: Any
    ) -> tuple[dict[str, Any], list[int]]:
        if self._destroyed:
            raise SandboxError("the sandbox has been destroyed")
        return await self._client.call(operation, descriptors, name=self._made.name, **fields)

    async def _make_view(self) -> None:
        """Give the verifier its own view of the files, the first time it is needed."""
        async with self._view_lock:
            if self._view != "made":
                # To its end, cancelled or not: a second one would hide what is in the first.
                await finish(self._create_view("live", AS_COPIED))

    async def _create_view(self, system: Literal["live", "copied"], curation: Curation) -> None:
        lists = {"put_back": sorted(curation.put_back), "hidden": sorted(curation.hidden)}
        descriptor = _as_file(orjson.dumps({**lists, "rewritten": curation.rewritten, "keep": curation.keep}))
        try:
            answer, _ = await self._request("view", [descriptor], system=system)
        finally:
            os.close(descriptor)
        self._note_view(answer)

    async def _create_own_system(self, curate: Curate) -> None:
        try:
            await self._create_view("copied", await self._curated(curate))
        except BaseException:
            await self._drop_view()
            raise

    async def _curated(self, curate: Curate) -> Curation:
        copy, trouble = await self._copy_system()
        curation = await curate(copy)
        if trouble is not None and curation.keep == "rest":
            raise trouble
        return curation

    async def _copy_system(self) -> tuple[SystemCopy, ContentError | None]:
        """A copy, or an empty one and why there is no other: then a verifier can only have the image's system."""
        try:
            found = orjson.loads(await self._ask("copy", system="live" if await self.processes() else "still"))
        except ContentError as error:
            return SystemCopy(FileChanges(truncated=True)), error
        return SystemCopy(FileChanges.model_validate_json(orjson.dumps(found["changes"])), found["texts"]), None

    def _note_view(self, answer: dict[str, Any]) -> None:
        self._view = "made"
        if left_out := answer.get("left_out"):
            _log.warning("%s: the verifier does not see %d of the entries in /: too many", self._made.name, left_out)

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Run a command; at the end of its time, every process of its phase is killed with it."""
        user = self._user(spec)
        if not self._client.many_users and str(user or 0) not in ("0", "root"):
            raise HostUnsupportedError(f"user {user!r} cannot exist here: {ONE_USER}")
        async with self._proxy.access(spec.network) as network_env:
            paths = (spec.stdout_path, spec.stderr_path)
            out, err = (Capture(path, spec.max_output, spec.on_output) for path in paths)
            self._captures = [capture for capture in self._captures if capture.open] + [out, err]
            started = time.monotonic()
            meter = Meter(self._made.group) if spec.patience_sec is not None else None
            try:
                with reading_opens(spec.watched, asyncio.get_running_loop()) as opens:
                    code = await self._run(spec, network_env, (out, err), (meter, opens))
                    found = opened(spec.watched, opens)
                stdout, stderr = out.finish(), err.finish()
            except BaseException:
                out.close()
                err.close()
                raise
        taken, truncated = time.monotonic() - started, out.truncated or err.truncated
        return ExecResult(code, taken, stdout, stderr, truncated, *processor_use(meter), found)

    async def _run(
        self,
        spec: ExecSpec,
        network_env: dict[str, str],
        outputs: Sequence[Capture],
        observed: tuple[Meter | None, Opens | None],
    ) -> int | None:
        token = f"{self._made.name}/{next(self._tokens)}"
        exited, sent = self._client.expect_exit(token), asyncio.Event()
        try:
            # Starting counts too: whoever shares a pid namespace with a process that starts can stop it.
            meter, opens = observed
            async with deadline(spec.timeout_sec, spec.patience_sec, meter):
                await self._start(spec, self._command(spec, token, network_env), outputs, sent, opens)
                return await asyncio.shield(exited)
        except TimeoutError:
            await finish(self._end(spec.phase, exited, sent))
            return None
        except asyncio.CancelledError:
            with contextlib.suppress(SandboxError):  # destroyed meanwhile: then it has ended too
                await finish(self._end(spec.phase, exited, sent))
            raise
        finally:
            self._client.forget_exit(token)

    async def _start(
        self,
        spec: ExecSpec,
        command: dict[str, Any],
        outputs: Sequence[Capture],
        sent: asyncio.Event,
        opens: Opens | None,
    ) -> None:
        stdin = _as_file(spec.stdin)
        archives = [_as_file(spec.files[1])] if spec.files else []
        watch = opens.descriptors if opens else ()
        try:
            writers = [capture.writer for capture in outputs]
            await self._exec([stdin, *writers, *archives, *watch], sent=sent, watch=bool(watch), **command)
        finally:
            for descriptor in (stdin, *archives):
                os.close(descriptor)
            for capture in outputs:
                capture.release_writer()

    async def _exec(self, descriptors: Sequence[int], **fields: Any) -> None:
        """Start a command. A verifier's first one makes its view on the way; no other may start before it is there."""
        if fields["phase"] == "agent" or self._view == "made":
            await self._request("exec", descriptors, **fields)
            return
        async with self._view_lock:
            self._view = "perhaps"
            answer, _ = await self._request("exec", descriptors, **fields)
            self._note_view(answer)

    async def _end(self, phase: Phase, exited: asyncio.Future[int], sent: asyncio.Event) -> None:
        if sent.is_set() and not self._destroyed:
            await self.kill_all(phase)
            await exited

    def _user(self, spec: ExecSpec) -> str | int | None:
        return self._made.spec.image.config.user if spec.user is None else spec.user

    def _command(self, spec: ExecSpec, token: str, network_env: dict[str, str]) -> dict[str, Any]:
        made, own = self._made.spec, {"TMPDIR": VERIFIER_TMP} if spec.phase == "verifier" else {}
        return {
            "token": token,
            "phase": spec.phase,
            "argv": list(spec.argv),
            "env": {"PATH": DEFAULT_PATH, **own, **made.image.config.env, **made.env, **network_env, **spec.env},
            "cwd": spec.cwd or made.workdir,
            "user": self._user(spec),
            "host_network": spec.network.mode == "host",
            "join": list(self._made.group.join_files),
            "remember": spec.changes_from_here,
            "unpack": spec.files[0] if spec.files else None,
        }

    async def put(self, directory: str, archive: BinaryIO, *, phase: Phase = "agent") -> None:
        archive.flush()
        await self._call("put", [archive.fileno()], path=directory, phase=phase)

    async def get(
        self, path: str, archive: BinaryIO, *, phase: Phase = "agent", limit: int = MAX_ARCHIVE_BYTES
    ) -> None:
        await self._call("get", [archive.fileno()], path=path, phase=phase, limit=limit)

    async def listen(self, port: int) -> socket.socket:
        (descriptor,) = await self._call("listen", port=port)
        listener = socket.socket(fileno=descriptor)
        listener.setblocking(False)
        return listener

    async def kill_all(self, phase: Phase = "agent") -> None:
        await self._call("kill", phase=phase)

    async def processes(self) -> tuple[str, ...]:
        """What the agent left running. Where control groups tell that there is nothing, nobody has to go and look."""
        if self._made.group.empty:
            return ()
        return tuple(json.loads(await self._ask("processes")))

    async def renew_verifier(self, curate: Curate | None = None) -> None:
        """End what an earlier verifier left running and forget its view. One with its own system is made at once."""
        async with self._view_lock:
            if self._view != "none":
                await finish(self._drop_view())
            if curate is not None:
                await finish(self._create_own_system(curate))

    async def _drop_view(self) -> None:
        await self._call("renew")
        self._view = "none"

    async def changes(self) -> FileChanges:
        return FileChanges.model_validate_json(await self._ask("changes"))

    async def _ask(self, operation: str, **fields: Any) -> bytes:
        """An operation whose answer may be long: it comes in a file."""
        answer = os.memfd_create("answer")
        with os.fdopen(answer, "w+b") as file:
            await self._call(operation, [answer], **fields)
            file.seek(0)
            return file.read()

    async def snapshot(self, layer: Path) -> None:
        """Save what differs from the image as a new layer directory. Running processes are killed first."""
        await self.kill_all()
        layer.mkdir(parents=True)  # noqa: ASYNC240 - one directory
        descriptor = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            await self._call("snapshot", [descriptor])
        finally:
            os.close(descriptor)

    async def pack_layer(self, archive: BinaryIO, limit: int) -> None:
        await self._call("pack_layer", [archive.fileno()], path="/", phase="agent", limit=limit)

    async def unpack_layer(self, directory: str, archive: BinaryIO) -> None:
        archive.flush()
        await self._call("put", [archive.fileno()], path=directory, phase="agent", manner="layer")

    async def stamps(self) -> Stamps | None:
        """A stamp for every file and directory that differs from the image; None for more than are looked at."""
        found = json.loads(await self._ask("stamps"))  # not orjson, which refuses names that are no text
        return None if found is None else {path: tuple(stamp) for path, stamp in found.items()}

    async def usage(self) -> ResourceUse:
        kilobytes = (await self._ask("size")).partition(b"\t")[0]
        if not kilobytes.isdigit():
            raise SandboxError("usage: the disk space in use could not be measured")
        used = self._made.group.usage()
        return ResourceUse(
            cpu_sec=used.cpu_sec,
            peak_memory_bytes=used.peak_memory_bytes,
            disk_bytes=int(kilobytes) * 1024,
            oom_kills=used.oom_kills or 0,
        )

    async def destroy(self) -> None:
        """End every process and remove every trace; more than once, at once or after a cancellation is fine."""
        if self._teardown is None:
            self._teardown = asyncio.ensure_future(self._tear_down())
        await finish(self._teardown)

    async def _tear_down(self) -> None:
        self._destroyed = True
        for capture in self._captures:
            capture.close()
        await self._proxy.close()
        await self._made.forget()


def _as_file(content: bytes) -> int:
    if not content:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    descriptor = os.memfd_create("content")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
