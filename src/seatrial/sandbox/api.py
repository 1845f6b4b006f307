"""What a sandbox is: the two Protocols every backend implements, and the values that go in and come out.

A command that fails is data (`ExecResult.exit_code`); only the sandbox's own failure raises SandboxError.
Conveniences are functions on top, here and in `transfer.py`, written once for all backends.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Protocol, Self, runtime_checkable

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox.opens import Opened, Watched

Stamps = Mapping[str, tuple[int, ...]]
"""By path, what tells that nobody has touched it: mode, owner and group first."""

Phase = Literal["agent", "verifier"]
"""Whose view: the verifier sees the agent's files and processes; the agent sees nothing of the verifier."""

NetworkMode = Literal["none", "allowlist", "public", "host"]
Limit = Literal["cpus", "memory_mb", "pids", "storage_mb"]

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_OUTPUT_BYTES = 16 * 2**20
MAX_ARCHIVE_BYTES = 2 * 2**30


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says about the commands that run in it.

    A sandbox sets `env` below its own, and runs as `user` whoever does not say as whom. Where commands start
    (`workdir`) and what runs by itself (`entrypoint`, `command`) is left to whoever makes the sandbox.
    """

    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    workdir: str | None = None
    user: str | None = None
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """A root file system: directories laid over each other, lowest first, perhaps on top of the host's own system.

    `digest` is that of the configuration, which names the content of every layer. `agent_layer` is that of the layer on
    top which brings an agent.
    """

    reference: str
    layers: tuple[Path, ...] = ()
    base: Literal["empty", "host"] = "empty"
    digest: str | None = None
    config: ImageConfig = ImageConfig()
    agent_layer: str | None = None

    @property
    def reproducible(self) -> bool:
        """Whether the same reference gives the same files elsewhere."""
        return self.base != "host"


HOST_IMAGE = Image("host", base="host")


ProxyUse = Literal["direct", "host"]
"""Whether the network is reached straight, or through the proxy that this machine itself uses."""


@dataclass(frozen=True, slots=True)
class Network:
    """Who a command may reach.

    `hosts` (names, `*.name`, addresses, CIDR) are the ones an `allowlist` opens; with `public`, listed addresses open
    ranges that are closed otherwise, such as private networks. With a `proxy` of `host`, names are reached through the
    one in this machine's HTTPS_PROXY or HTTP_PROXY.
    """

    mode: NetworkMode = "none"
    hosts: tuple[str, ...] = ()
    proxy: ProxyUse = "direct"


NO_NETWORK = Network()


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What to make."""

    image: Image = HOST_IMAGE
    limits: LimitSpec = field(default_factory=LimitSpec)
    enforcement: Literal["required", "partial"] = "required"
    """With `required`, a limit the host cannot enforce is refused; with `partial` it is left out."""
    workdir: str = "/app"
    env: Mapping[str, str] = field(default_factory=dict)
    hostname: str = "sandbox"
    system_folders: tuple[str, ...] = ()
    """Folders that belong to the system besides the usual ones, such as a Python environment of the image.

    One that ends in `/.*` stands for what begins with a dot in it.
    """


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """One command. Each output stream goes to its file, or into the result."""

    argv: tuple[str, ...]
    phase: Phase = "agent"
    env: Mapping[str, str] = field(default_factory=dict)
    """TMPDIR of the verifier's commands is VERIFIER_TMP, unless the image, the sandbox or this sets it."""
    cwd: str | None = None
    user: str | int | None = None
    timeout_sec: float | None = None
    patience_sec: float | None = None
    """It is measured for how long others kept the sandbox's processes waiting for a processor; the time is over later
    by as much, but by no more than this."""
    network: Network = NO_NETWORK
    stdin: bytes = b""
    stdout_path: Path | None = None
    stderr_path: Path | None = None
    max_output: int = MAX_OUTPUT_BYTES
    """Bytes of each stream; what comes beyond is dropped."""
    on_output: Callable[[bytes], None] | None = None
    """Called with what is kept of either stream as it comes, where a backend can."""
    files: tuple[str, bytes] | None = None
    """A directory and a tar archive, which is unpacked there right before."""
    changes_from_here: bool = False
    """What is there before `files` does not count as a change any more."""
    watched: Watched | None = None
    """Files of which a backend finds out, where it can, whether they are opened."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended; `exit_code` is None when its time ran out, negative for a signal.

    `cpu_sec` is what all processes of the sandbox got of the processors meanwhile, `cpu_wait_sec` for how long they had
    to wait while others used them; None where it was not to be measured, or cannot be. `opened` is None where nobody
    watched.
    """

    exit_code: int | None
    duration_sec: float
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    cpu_sec: float | None = None
    cpu_wait_sec: float | None = None
    opened: Opened | None = None

    @property
    def timed_out(self) -> bool:
        """Whether the command was ended because its time was over."""
        return self.exit_code is None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do here; `missing` says of each thing it cannot do why, and how to get it.

    `state_folders` are on this machine, and sandboxes keep their files there, in the first one what they write.
    """

    backend: str
    isolation: Literal["namespaces", "none"]
    mode: str
    limits: frozenset[Limit] = frozenset()
    networks: frozenset[NetworkMode] = frozenset()
    guarded_phases: bool = False
    own_system: bool = False
    many_users: bool = False
    private_loopback: bool = False
    """Whether what listens inside a sandbox can be reached by that sandbox's own processes alone."""
    missing: Mapping[str, str] = field(default_factory=dict)
    state_folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class SystemCopy:
    """What the agent did to programs, libraries and settings, in a copy that it cannot reach.

    `changes` are counted from before the first command with `changes_from_here`, and truncated when there was too
    much to copy. `texts` are what those small files say that tools load by themselves, and sonames of libraries.
    """

    changes: FileChanges
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curation:
    """What a verifier is not to meet: files of the system as the agent left them, and files of what is shared."""

    put_back: frozenset[str] = frozenset()
    """Files of the system that are to be as in the image."""
    hidden: frozenset[str] = frozenset()
    """Files that are not to be there."""
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """New texts of files."""
    keep: Literal["rest", "nothing"] = "rest"
    """With `nothing`, all of the system is as in the image."""


AS_COPIED = Curation()
Curate = Callable[[SystemCopy], Awaitable[Curation]]
"""Decides about a copy of the system; it is asked once the copy is made."""


class Sandbox(Protocol):
    """One running sandbox. It lives until `destroy`, which may be called at any time and more than once."""

    @property
    def limits_enforced(self) -> LimitSpec:
        """The limits that really hold."""
        ...

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Run a command; returns when it exits, even if something it started keeps its output open."""
        ...

    async def put(self, directory: str, archive: BinaryIO, *, phase: Phase = "agent") -> None:
        """Unpack a tar archive (a real file) below a directory, making it if needed."""
        ...

    async def get(
        self, path: str, archive: BinaryIO, *, phase: Phase = "agent", limit: int = MAX_ARCHIVE_BYTES
    ) -> None:
        """Pack a file under its own name, or a directory as `.`, into a tar archive.

        Raises FileNotFoundError, and ContentError for what is there but too large or not to be packed.
        """
        ...

    async def listen(self, port: int) -> socket.socket:
        """A socket that listens on 127.0.0.1:`port` inside the sandbox and is accepted from outside."""
        ...

    async def kill_all(self, phase: Phase = "agent") -> None:
        """End every process of a phase; `verifier` ends the agent's too. Returns when they are gone."""
        ...

    async def processes(self) -> tuple[str, ...]:
        """The names of the agent's processes that are running now."""
        ...

    async def renew_verifier(self, curate: Curate | None = None) -> None:
        """End what an earlier verifier left running; the next one finds its own folders empty.

        Those are `/tests`, `/logs/verifier` and VERIFIER_TMP.

        With `curate` it gets a system of its own: a copy of programs, libraries and settings as they are now, less what
        the curation takes out. Whatever the agent's processes do to theirs meanwhile is not in it, and what the
        verifier does to it stays there; all else is shared. Raises HostUnsupportedError, or SandboxError if that cannot
        be had (ContentError: nothing could be copied, and yet something was to be kept); then the next verifier sees
        everything as it is.
        """
        ...

    async def changes(self) -> FileChanges:
        """Which files differ from the image, or from when a command with `changes_from_here` last started.

        Directories are not listed.
        """
        ...

    async def snapshot(self, layer: Path) -> None:
        """Save what differs from the image as a new layer directory."""
        ...

    async def pack_layer(self, archive: BinaryIO, limit: int) -> None:
        """Pack what differs from the image into a tar archive, which may be a pipe, as long as nothing runs.

        Files and directories have their owners and modes, and what is gone has the mark of overlayfs. Raises
        TooLargeError before anything is packed where files and headers have more than `limit` bytes,
        HostUnsupportedError where a sandbox has no files of its own.
        """
        ...

    async def unpack_layer(self, directory: str, archive: BinaryIO) -> None:
        """Lay an archive of `pack_layer` (a real file) over what is below a directory.

        Directories that are there get their owners and modes too, and what is marked as gone is removed.
        """
        ...

    async def stamps(self) -> Stamps | None:
        """A stamp for every file and directory that differs from the image; None where touching one may not show."""
        ...

    async def usage(self) -> ResourceUse:
        """What has been consumed so far."""
        ...

    async def destroy(self) -> None:
        """End every process and remove every trace."""
        ...


@runtime_checkable
class Copyable(Protocol):
    """A sandbox that can have a copy of its files beside it while its processes run on."""

    async def copy_beside(self) -> Sandbox:
        """A sandbox of the same image with the same files, which shares the network and nothing else.

        Its processes reach what listens in the other one's network, and neither sees the other's processes. Raises
        SandboxError or HostUnsupportedError where that cannot be had. The caller destroys it.
        """
        ...


class SandboxBackend(Protocol):
    """Makes sandboxes. It is an async context manager; leaving it destroys what is left."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def probe(self) -> Capabilities:
        """What this backend can do on this machine, found out by doing it."""
        ...

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox. Raises HostUnsupportedError or SandboxError."""
        ...


@asynccontextmanager
async def open_sandbox(backend: SandboxBackend, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
    """A sandbox that is gone when the block is left, cancelled or not; what the block raises comes out of it."""
    sandbox = await backend.create(spec)
    try:
        yield sandbox
    except BaseException:
        with suppress(SandboxError):
            await finish(sandbox.destroy())
        raise
    await finish(sandbox.destroy())


async def run_shell(
    sandbox: Sandbox,
    script: str,
    *,
    phase: Phase = "agent",
    timeout_sec: float | None = None,
    network: Network = NO_NETWORK,
) -> ExecResult:
    """Run a shell command line."""
    command = ("/bin/sh", "-c", script)
    return await sandbox.exec(ExecSpec(command, phase=phase, timeout_sec=timeout_sec, network=network))
