"""A sandbox in memory, with behaviour: files are a dictionary, and commands answer as the test says.

It keeps the parts of the contract that need no machine: caps, time-outs, refusals, and that nothing works any more once
it is destroyed. Modes, links and the difference between the phases are not kept.
"""

import asyncio
import inspect
import io
import posixpath
import shlex
import socket
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, get_args

from seatrial.errors import HostUnsupportedError, SandboxError, TooLargeError
from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox.api import (
    MAX_ARCHIVE_BYTES,
    Capabilities,
    Curate,
    Curation,
    ExecResult,
    ExecSpec,
    Limit,
    NetworkMode,
    Phase,
    SandboxSpec,
    Stamps,
    SystemCopy,
)
from seatrial.sandbox.layers import is_gone_mark

Handler = Callable[[ExecSpec, "FakeSandbox"], ExecResult | Awaitable[ExecResult]]
Commands = Handler | Mapping[str, ExecResult | Handler]

ALL_POWERFUL = Capabilities(
    backend="fake",
    isolation="none",
    mode="memory",
    limits=frozenset(get_args(Limit)),
    networks=frozenset(get_args(NetworkMode)),
    many_users=True,
    missing={
        "layers": "a fake has no images",
        **dict.fromkeys(("guarded_phases", "own_system"), "a fake has one file system for all"),
    },
)


class UnknownCommandError(AssertionError):
    """The test did not say what this command does."""


def answer(stdout: str = "", *, exit_code: int | None = 0, stderr: str = "") -> ExecResult:
    """What a command came to, from text."""
    return ExecResult(exit_code, 0.0, stdout.encode(), stderr.encode())


def command_line(spec: ExecSpec) -> str:
    """How a FakeBackend knows a command: the script of a shell command, else its arguments as a shell has them."""
    if len(spec.argv) == 3 and posixpath.basename(spec.argv[0]) in ("sh", "bash") and spec.argv[1] == "-c":
        return spec.argv[2]
    return shlex.join(spec.argv)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a FakeBackend tells all its sandboxes."""

    commands: Commands
    files: Mapping[str, bytes]
    fail_on: Mapping[str, Exception]


class FakeBackend:
    """Makes FakeSandboxes and keeps them in `sandboxes`.

    `commands` answers every command, either one function for all or a mapping by `command_line`; one that is not in the
    mapping raises UnknownCommandError. `files` are in every sandbox from the start, as if they were in its image.
    `fail_on` names methods of backend and sandbox with what they raise.
    """

    def __init__(
        self,
        commands: Commands,
        *,
        files: Mapping[str, bytes] | None = None,
        fail_on: Mapping[str, Exception] | None = None,
        capabilities: Capabilities = ALL_POWERFUL,
    ) -> None:
        self.sandboxes: list[FakeSandbox] = []
        self._plan = _Plan(commands, files or {}, fail_on or {})
        self._capabilities = capabilities

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sandbox in self.sandboxes:
            await sandbox.destroy()

    async def probe(self) -> Capabilities:
        """What the test said it can do."""
        _fail(self._plan, "probe")
        return self._capabilities

    async def create(self, spec: SandboxSpec) -> "FakeSandbox":
        """A sandbox with the initial files; refuses required limits the capabilities lack."""
        _fail(self._plan, "create")
        lacking = [name for name, value in spec.limits if value is not None and name not in self._capabilities.limits]
        if lacking and spec.enforcement == "required":
            raise HostUnsupportedError(f"the fake backend was told not to enforce {', '.join(lacking)}")
        sandbox = FakeSandbox(spec, spec.limits.model_copy(update=dict.fromkeys(lacking)), self._plan)
        self.sandboxes.append(sandbox)
        return sandbox


def _fail(plan: _Plan, method: str) -> None:
    if method in plan.fail_on:
        raise plan.fail_on[method]


@dataclass(eq=False, slots=True)
class FakeSandbox:
    """One sandbox in memory. Tests and handlers may read and write `files`, by absolute path, as they like."""

    spec: SandboxSpec
    limits_enforced: LimitSpec
    _plan: _Plan
    files: dict[str, bytes] = field(default_factory=dict)
    executed: list[ExecSpec] = field(default_factory=list)
    """Every command, in order."""
    journal: list[str] = field(default_factory=list)
    """Every call, in order, as `put /app` or `exec ls`."""
    ports: dict[int, int] = field(default_factory=dict)
    """Ports listened on inside, with the port of this machine a handler reaches each at."""
    running: list[str] = field(default_factory=list)
    """Names of processes that a handler left running."""
    curation: Curation | None = None
    """What was decided last about the system of the verifier."""
    destroyed: bool = False
    _before: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files |= self._plan.files
        self._before = dict(self.files)

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Ask the handler. An answer that has to be waited for is subject to the command's time-out."""
        line = command_line(spec)
        self._begin("exec", line)
        if spec.changes_from_here:
            self._before = dict(self.files)
        if spec.files:
            directory, archive = spec.files
            self._take(directory, io.BytesIO(archive))
        self.executed.append(spec)
        known = self._plan.commands if callable(self._plan.commands) else self._plan.commands.get(line)
        if known is None:
            raise UnknownCommandError(f"no answer was given for the command {line!r}")
        result = known(spec, self) if callable(known) else known
        if inspect.isawaitable(result):
            result = await _in_time(result, spec.timeout_sec)
        return _deliver(result, spec)

    async def put(self, directory: str, archive: BinaryIO, *, phase: Phase = "agent") -> None:
        """Take over the files of an archive; whatever else is in it is refused, but for directories."""
        self._begin("put", directory)
        self._take(directory, archive)

    def _take(self, directory: str, archive: BinaryIO) -> None:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for info in tar:
                if info.name.startswith("/") or ".." in info.name.split("/") or not (info.isreg() or info.isdir()):
                    raise SandboxError(f"archive member {info.name!r}: a fake takes plain files with plain names only")
                content = tar.extractfile(info) if info.isreg() else None
                if content is not None:
                    self.files[posixpath.normpath(posixpath.join(directory, info.name))] = content.read()

    async def get(
        self, path: str, archive: BinaryIO, *, phase: Phase = "agent", limit: int = MAX_ARCHIVE_BYTES
    ) -> None:
        """Pack a file, or all files below a path."""
        self._begin("get", path)
        path = posixpath.normpath(path)
        below = path.rstrip("/") + "/"
        found = {name.removeprefix(below): content for name, content in self.files.items() if name.startswith(below)}
        if path in self.files:
            found = {posixpath.basename(path): self.files[path]}
        if not found:
            raise FileNotFoundError(path)
        if sum(map(len, found.values())) > limit:
            raise TooLargeError(f"{path!r} is larger than the limit of {limit} bytes")
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, content in sorted(found.items()):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))

    async def listen(self, port: int) -> socket.socket:
        """A real socket on a free port of this machine, which `ports` tells."""
        self._begin("listen", str(port))
        if port and port in self.ports:
            raise SandboxError(f"port {port} is in use")
        listener = socket.create_server(("127.0.0.1", 0))
        self.ports[port] = listener.getsockname()[1]
        return listener

    async def kill_all(self, phase: Phase = "agent") -> None:
        """Nothing is running any more."""
        self._begin("kill_all", phase)
        self.running.clear()

    async def processes(self) -> tuple[str, ...]:
        """What the test says is running."""
        self._begin("processes")
        return tuple(self.running)

    async def renew_verifier(self, curate: Curate | None = None) -> None:
        """Forget the files of the verifier, and those the agent planted there: a fake has one file system for all."""
        self._begin("renew_verifier", *(["with its own system"] if curate else []))
        for path in [path for path in self.files if path.startswith(("/tests/", "/logs/verifier/"))]:
            del self.files[path]
        if curate is not None:
            self.curation = await curate(SystemCopy(self._changes()))

    async def changes(self) -> FileChanges:
        """How `files` differs from what it was."""
        self._begin("changes")
        return self._changes()

    def _changes(self) -> FileChanges:
        before = self._before
        return FileChanges(
            added=tuple(sorted(self.files.keys() - before.keys())),
            modified=tuple(sorted(name for name in self.files.keys() & before if self.files[name] != before[name])),
            removed=tuple(sorted(before.keys() - self.files.keys())),
        )

    async def snapshot(self, layer: Path) -> None:
        """Write the files below a new directory."""
        self._begin("snapshot", str(layer))
        for name, content in self.files.items():
            target = layer / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    async def pack_layer(self, archive: BinaryIO, limit: int) -> None:
        """Pack the files."""
        self._begin("pack_layer")
        if (size := sum(map(len, self.files.values()))) > limit:
            raise TooLargeError(f"{size} bytes are more than the limit of {limit}")
        with tarfile.open(fileobj=archive, mode="w|") as tar:
            for name, content in sorted(self.files.items()):
                info = tarfile.TarInfo(name.lstrip("/"))
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))

    async def unpack_layer(self, directory: str, archive: BinaryIO) -> None:
        """Take over the files, and forget those that are marked as gone."""
        self._begin("unpack_layer", directory)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            for info in tar:
                path = posixpath.normpath(posixpath.join(directory, info.name))
                content = tar.extractfile(info) if info.isreg() else None
                if content is not None:
                    self.files[path] = content.read()
                elif is_gone_mark(info):
                    for each in [name for name in self.files if f"{name}/".startswith(f"{path}/")]:
                        del self.files[each]

    async def stamps(self) -> Stamps:
        """The content of each file, as a number."""
        self._begin("stamps")
        own = ("/tests/", "/logs/verifier/")
        return {path: (0, 0, 0, hash(content)) for path, content in self.files.items() if not path.startswith(own)}

    async def usage(self) -> ResourceUse:
        """The size of the files."""
        self._begin("usage")
        return ResourceUse(disk_bytes=sum(map(len, self.files.values())))

    async def destroy(self) -> None:
        """Refuse everything from now on."""
        _fail(self._plan, "destroy")
        if not self.destroyed:
            self.journal.append("destroy")
        self.destroyed = True

    def _begin(self, method: str, *details: str) -> None:
        if self.destroyed:
            raise SandboxError("the sandbox is destroyed")
        self.journal.append(" ".join([method, *details]))
        _fail(self._plan, method)


async def _in_time(result: Awaitable[ExecResult], timeout_sec: float | None) -> ExecResult:
    try:
        async with asyncio.timeout(timeout_sec) as limit:
            return await result
    except TimeoutError:
        if not limit.expired():
            raise
        return ExecResult(None, timeout_sec or 0.0)


def _deliver(result: ExecResult, spec: ExecSpec) -> ExecResult:
    """Cut the output where a real sandbox would, and put it where the command asked for it."""
    kept = []
    for output, path in ((result.stdout, spec.stdout_path), (result.stderr, spec.stderr_path)):
        part = output[: spec.max_output]
        if path is not None:
            path.write_bytes(part)
        kept.append(b"" if path is not None else part)
    longest = max(len(result.stdout), len(result.stderr))
    return replace(result, stdout=kept[0], stderr=kept[1], truncated=result.truncated or longest > spec.max_output)
