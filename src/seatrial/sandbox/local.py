"""No sandbox at all: plain processes in a scratch directory, for machines that can do nothing better.

Paths such as /app mean directories below the scratch directory, for files and working directories; commands see the
host's files, network and processes, and find the scratch directory in SANDBOX_ROOT. Nothing tells agent and verifier
apart, so a command of the verifier's phase simply runs.
"""

import asyncio
import errno
import os
import posixpath
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self, TypeVar

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox import api
from seatrial.sandbox.api import Capabilities, ExecResult, ExecSpec, Phase, SandboxSpec
from seatrial.sandbox.archives import closing, open_folder, pack, unpack
from seatrial.sandbox.division import VERIFIER_TMP
from seatrial.sandbox.processes import Processes
from seatrial.sandbox.runs import ROOT_VARIABLE, Scratch, sweep_scratch
from seatrial.sandbox.transfer import put_packed

T = TypeVar("T")

_VERIFIERS = ("tests", "logs/verifier", VERIFIER_TMP.strip("/"))

_INSTEAD = "use the embedded or a container backend"
_MISSING = {
    **dict.fromkeys(LimitSpec.model_fields, f"plain processes cannot be limited; {_INSTEAD}"),
    **dict.fromkeys(("none", "allowlist", "public"), f"plain processes use the network of the host; {_INSTEAD}"),
    "guarded_phases": f"plain processes all see each other; {_INSTEAD}",
    "own_system": f"plain processes use the programs of the host; {_INSTEAD}",
    "many_users": f"plain processes belong to the user who runs Seatrial; {_INSTEAD}",
    "layers": f"plain processes see the files of the host; {_INSTEAD}",
}


class UnisolatedWarning(UserWarning):
    """Commands run on this machine with all the rights of the current user."""


class LocalBackend:
    """Sandboxes without isolation. Choose it only for commands that may do anything this user may do."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._sandboxes: set[LocalSandbox] = set()
        self._warned = self._closed = False

    async def __aenter__(self) -> Self:
        """Clear away what killed processes of ours left behind."""
        await sweep_scratch(self._directory)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        await finish(self._destroy_all())

    async def probe(self) -> Capabilities:
        """The same on every machine: nothing is isolated and nothing is limited."""
        folder = self._directory or Path(tempfile.gettempdir())
        networks: frozenset[api.NetworkMode] = frozenset({"host"})
        return Capabilities("local", "none", "processes", networks=networks, missing=_MISSING, state_folders=(folder,))

    async def create(self, spec: SandboxSpec) -> "LocalSandbox":
        """A scratch directory. Refuses every image but the host's, and limits that are required."""
        if self._closed:
            raise SandboxError("the local backend is closed; create sandboxes inside its `async with` block")
        if spec.image.layers or spec.image.base != "host":
            raise _refusal(f"image {spec.image.reference!r}", "layers")
        for name, value in spec.limits:
            if value is not None and spec.enforcement == "required":
                raise _refusal(f"{name}={value}", name)
        if not self._warned:
            self._warned = True
            message = "the local backend isolates nothing: every command runs on this machine as the current user"
            warnings.warn(message, UnisolatedWarning, stacklevel=2)
        sandbox = LocalSandbox(spec, self._directory, self._sandboxes.discard)
        self._sandboxes.add(sandbox)
        return sandbox

    async def _destroy_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for sandbox in self._sandboxes:
                    group.create_task(sandbox.destroy())
        except ExceptionGroup as errors:
            raise SandboxError("; ".join(map(str, errors.exceptions))) from errors


def _refusal(asked: str, thing: str) -> HostUnsupportedError:
    return HostUnsupportedError(f"the local backend cannot do {asked}: {_MISSING[thing]}")


class LocalSandbox:
    """A scratch directory and what was started in it; made by LocalBackend."""

    def __init__(self, spec: SandboxSpec, directory: Path | None, forget: Callable[["LocalSandbox"], None]) -> None:
        self._spec = spec
        self._forget = forget
        self._scratch = Scratch(directory)
        self._root = self._scratch.path.resolve()
        self._processes = Processes(f"{ROOT_VARIABLE}={self._root}")
        self._file_work = asyncio.Lock()
        self._before: dict[str, int] = {}
        self._verifier_was_here = self._destroyed = self._removed = False

    @property
    def limits_enforced(self) -> LimitSpec:
        return LimitSpec()

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Run a command. `user` and every network but the host's are refused with HostUnsupportedError."""
        self._check()
        if spec.network.mode != "host":
            raise _refusal(f"network {spec.network.mode!r}", spec.network.mode)
        if spec.user is not None:
            raise _refusal(f"user {spec.user!r}", "many_users")
        root = str(self._root)
        usual = {"PATH": os.environ.get("PATH", api.DEFAULT_PATH), "HOME": root, "LANG": "C.UTF-8"}
        if spec.phase == "verifier" and (self._root / _VERIFIERS[-1]).is_dir():
            usual["TMPDIR"] = f"{root}{VERIFIER_TMP}"
        env = {**usual, **self._spec.env, **spec.env, ROOT_VARIABLE: root}
        self._verifier_was_here |= spec.phase == "verifier"
        if spec.files:
            await put_packed(self, *spec.files, phase=spec.phase)
        if spec.changes_from_here:
            self._before = await self._in_thread(lambda: {entry.path: _touched(entry) for entry in self._files()})
        try:
            result = await self._processes.run(spec, self._make_cwd(spec.cwd), env)
        except OSError as error:
            raise SandboxError(f"cannot run {spec.argv[0]!r}: {error}") from error
        self._check()
        return result

    async def put(self, directory: str, archive: BinaryIO, *, phase: Phase = "agent") -> None:
        """Unpack an archive; a directory that links lead out of the sandbox is refused with SandboxError."""
        self._verifier_was_here |= phase == "verifier"
        await self._in_thread(lambda: self._unpack(directory, archive))

    async def get(
        self, path: str, archive: BinaryIO, *, phase: Phase = "agent", limit: int = api.MAX_ARCHIVE_BYTES
    ) -> None:
        """Pack a file or directory; what links lead out to counts as missing."""
        await self._in_thread(lambda: self._pack(path, archive, limit))

    async def listen(self, port: int) -> socket.socket:
        """Listen on a port of this machine, which all sandboxes share."""
        self._check()
        try:
            return socket.create_server(("127.0.0.1", port), backlog=4096)
        except OSError as error:
            raise SandboxError(f"cannot listen on 127.0.0.1:{port} of this machine: {error}") from error

    async def kill_all(self, phase: Phase = "agent") -> None:
        """End all that was started here and kept its session or SANDBOX_ROOT; the phases share one fate."""
        self._check()
        await finish(self._processes.end_all())

    async def processes(self) -> tuple[str, ...]:
        """What was started here and kept its session or SANDBOX_ROOT."""
        self._check()
        return self._processes.names()

    async def renew_verifier(self, curate: api.Curate | None = None) -> None:
        """Empty the verifier's own directories. What an earlier verifier left running is not known from the agent's."""
        if curate is not None:
            raise _refusal("a system of the verifier's own", "own_system")
        self._verifier_was_here = True
        await self._in_thread(self._renew)

    def _renew(self) -> None:
        for name in _VERIFIERS:
            shutil.rmtree(self._root / name, ignore_errors=True)
            (self._root / name).mkdir(parents=True, exist_ok=True)

    async def changes(self) -> FileChanges:
        """Every file in the scratch directory, which was empty at the start, that was not there unchanged before.

        Of the verifier's own directories nothing is, once there was a verifier.
        """
        found = await self._in_thread(
            lambda: [os.fsencode(e.path) for e in self._files() if self._before.get(e.path) != _touched(e)]
        )
        own = tuple(f"/{name}/".encode() for name in _VERIFIERS) if self._verifier_was_here else ()
        names = sorted(path.removeprefix(os.fsencode(self._root)) for path in found)
        kept = (name for name in names if not name.startswith(own))
        return FileChanges(added=tuple(name.decode("utf-8", "backslashreplace") for name in kept))

    async def snapshot(self, layer: Path) -> None:
        """Copy the scratch directory, without pipes, sockets and devices."""
        await self._in_thread(lambda: self._copy(layer))

    async def pack_layer(self, archive: BinaryIO, limit: int) -> None:
        """Refused: what its commands change of this machine's own files is not in the scratch directory."""
        raise HostUnsupportedError(f"an end state cannot be kept: {_MISSING['layers']}")

    async def unpack_layer(self, directory: str, archive: BinaryIO) -> None:
        raise HostUnsupportedError(f"an end state cannot be laid out: {_MISSING['layers']}")

    async def stamps(self) -> None:
        """None: its commands can change files that are not in the scratch directory."""

    async def usage(self) -> ResourceUse:
        """Only the disk: nothing tells whose processor time and memory it was."""
        return ResourceUse(disk_bytes=await self._in_thread(lambda: sum(map(_size, self._files()))))

    async def destroy(self) -> None:
        """End every process and remove the directory. A command still running raises SandboxError."""
        self._destroyed = True
        await finish(self._tear_down())

    async def _tear_down(self) -> None:
        async with self._file_work:
            if self._removed:
                return
            await self._processes.end_all()
            self._processes.close()
            try:
                await asyncio.to_thread(self._scratch.remove)
            except OSError as error:
                raise SandboxError(f"{self._root} cannot be removed: {error}") from error
            self._removed = True
            self._forget(self)

    def _check(self) -> None:
        if self._destroyed:
            raise SandboxError("the sandbox is destroyed")

    def _make_cwd(self, cwd: str | None) -> Path:
        path = cwd if cwd and cwd.startswith("/") else f"{self._spec.workdir}/{cwd or ''}"
        folder = self._root.joinpath(*self._inside(path))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Do file work to its end, however often cancelled, so that destroying never meets it half way."""
        results: list[T] = []
        async with self._file_work:
            self._check()
            try:
                await finish(asyncio.to_thread(lambda: results.append(work())))
            except FileNotFoundError:
                raise
            except OSError as error:
                raise SandboxError(f"the files of the sandbox cannot be used: {error}") from error
        return results[0]

    def _inside(self, path: str) -> tuple[str, ...]:
        """The way from the scratch directory to where a path really leads. Raises FileNotFoundError if it leads out."""
        place = Path(os.path.realpath(f"{self._root}/{path}"))
        if not place.is_relative_to(self._root):
            raise FileNotFoundError(errno.ENOENT, "leads out of the sandbox", path)
        return place.relative_to(self._root).parts

    def _unpack(self, directory: str, archive: BinaryIO) -> None:
        try:
            with self._open(self._inside(directory), missing="make") as folder:
                unpack(archive, folder)
        except FileNotFoundError as error:
            raise SandboxError(f"cannot unpack: {error}") from error

    def _pack(self, path: str, archive: BinaryIO, limit: int) -> None:
        parent, _, name = posixpath.normpath(f"/{path}").rpartition("/")
        with self._open(self._inside(parent), missing="raise") as folder:
            pack(name or ".", archive, limit, folder)

    @contextmanager
    def _open(self, way: tuple[str, ...], missing: Literal["make", "raise"]) -> Iterator[int]:
        with closing(os.open(self._root, os.O_RDONLY)) as top, closing(open_folder(top, way, missing=missing)) as end:
            yield end

    def _copy(self, layer: Path) -> None:
        layer.mkdir(parents=True)
        with tempfile.TemporaryFile() as archive, closing(os.open(layer, os.O_RDONLY)) as folder:
            pack(str(self._root), archive, api.MAX_ARCHIVE_BYTES)
            archive.seek(0)
            unpack(archive, folder)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        folders = [str(self._root)]
        while folders:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry


def _touched(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_ctime_ns
    except FileNotFoundError:
        return 0


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # gone since its directory was read
