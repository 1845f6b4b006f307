"""No sandbox at all: plain processes in a scratch directory, for machines that can do nothing better.

Paths such as /app mean directories below the scratch directory, for files and working directories; commands see the
host's files, network and processes, and find the scratch directory in SANDBOX_ROOT. Nothing tells agent and verifier
apart, so a command of the verifier's phase simply runs.
"""

import asyncio
import errno
import os
import posixpath
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self, TypeVar

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox import api
from seatrial.sandbox.api import Capabilities, ExecResult, ExecSpec, Phase, SandboxSpec
from seatrial.sandbox.archive import open_folder, pack, unpack
from seatrial.sandbox.capture import Capture

T = TypeVar("T")

_INSTEAD = "use the embedded or a container backend"
_MISSING = {
    **dict.fromkeys(LimitSpec.model_fields, f"plain processes cannot be limited; {_INSTEAD}"),
    **dict.fromkeys(("none", "allowlist", "public"), f"plain processes use the network of the host; {_INSTEAD}"),
    "guarded_phases": f"plain processes all see each other; {_INSTEAD}",
    "many_users": f"plain processes belong to the user who runs Seatrial; {_INSTEAD}",
    "layers": f"plain processes see the files of the host; {_INSTEAD}",
}
_MANY_LEADERS = 64
_MACHINE_ERRORS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class UnisolatedWarning(UserWarning):
    """Commands run on this machine with all the rights of the current user."""


class LocalBackend:
    """Sandboxes without isolation. Choose it only for commands that may do anything this user may do."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._sandboxes: set[LocalSandbox] = set()
        self._warned = self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        await finish(self._destroy_all())

    async def probe(self) -> Capabilities:
        """The same on every machine: nothing is isolated and nothing is limited."""
        return Capabilities("local", "none", "processes", networks=frozenset({"host"}), missing=_MISSING)

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
        self._scratch = tempfile.TemporaryDirectory(prefix="seatrial-", dir=directory)
        self._root = Path(self._scratch.name).resolve()
        self._processes = _Processes(f"SANDBOX_ROOT={self._root}")
        self._file_work = asyncio.Lock()
        self._destroyed = self._removed = False

    @property
    def limits_enforced(self) -> LimitSpec:
        """None at all."""
        return api.UNLIMITED

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Run a command. `user` and every network but the host's are refused with HostUnsupportedError."""
        self._check()
        if spec.network.mode != "host":
            raise _refusal(f"network {spec.network.mode!r}", spec.network.mode)
        if spec.user is not None:
            raise _refusal(f"user {spec.user!r}", "many_users")
        root = str(self._root)
        usual = {"PATH": os.environ.get("PATH", api.DEFAULT_PATH), "HOME": root, "LANG": "C.UTF-8"}
        env = {**usual, **self._spec.env, **spec.env, "SANDBOX_ROOT": root}
        try:
            result = await self._processes.run(spec, self._make_cwd(spec.cwd), env)
        except OSError as error:
            raise SandboxError(f"cannot run {spec.argv[0]!r}: {error}") from error
        self._check()
        return result

    async def put(self, directory: str, archive: BinaryIO, *, phase: Phase = "agent") -> None:
        """Unpack an archive; a directory that links lead out of the sandbox is refused with SandboxError."""
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

    async def changes(self) -> FileChanges:
        """Every file in the scratch directory, which was empty at the start."""
        found = await self._in_thread(lambda: [os.fsencode(entry.path) for entry in self._files()])
        names = sorted(path.removeprefix(os.fsencode(self._root)) for path in found)
        return FileChanges(added=tuple(name.decode("utf-8", "backslashreplace") for name in names))

    async def snapshot(self, layer: Path) -> None:
        """Copy the scratch directory, without pipes, sockets and devices."""
        await self._in_thread(lambda: self._copy(layer))

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
                await asyncio.to_thread(self._scratch.cleanup)
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
        with _closing(os.open(self._root, os.O_RDONLY)) as top, _closing(open_folder(top, way, missing=missing)) as end:
            yield end

    def _copy(self, layer: Path) -> None:
        layer.mkdir(parents=True)
        with tempfile.TemporaryFile() as archive, _closing(os.open(layer, os.O_RDONLY)) as folder:
            pack(str(self._root), archive, api.MAX_ARCHIVE_BYTES)
            archive.seek(0)
            unpack(archive, folder)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        """Every entry that is not a directory."""
        folders = [str(self._root)]
        while folders:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # gone since its directory was read


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Processes:
    """What a sandbox has started. A process belongs to it by its session, or by the mark in its environment."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        # The first process of each session, not waited for: its number must not go to a stranger, whom we would kill.
        self._leaders: dict[int, subprocess.Popen[bytes]] = {}
        self._captures: list[Capture] = []

    async def run(self, spec: ExecSpec, cwd: Path, env: dict[str, str]) -> ExecResult:
        """Run a command until it ends. When its time is over or the caller is cancelled, its session is killed."""
        started = time.monotonic()
        out = self._capture(spec.stdout_path, spec.max_output)
        together = spec.stderr_path is not None and spec.stderr_path == spec.stdout_path
        err = out if together else self._capture(spec.stderr_path, spec.max_output)
        try:
            exit_code = await self._outcome(spec, cwd, env, (out, err))
            stdout, stderr = out.finish(), err.finish()
        except BaseException:
            out.close()
            err.close()
            raise
        return ExecResult(exit_code, time.monotonic() - started, stdout, stderr, out.truncated or err.truncated)

    async def end_all(self) -> None:
        """Kill everything; returns when it is dead."""
        await self._end(self._leaders.keys(), self._mark)
        self._forget_empty_sessions()

    def close(self) -> None:
        """Stop listening to what the commands print."""
        for capture in self._captures:
            capture.close()

    def _capture(self, path: Path | None, limit: int) -> Capture:
        capture = Capture(path, limit)
        self._captures = [earlier for earlier in self._captures if earlier.open] + [capture]
        return capture

    async def _outcome(
        self, spec: ExecSpec, cwd: Path, env: dict[str, str], outputs: tuple[Capture, Capture]
    ) -> int | None:
        out, err = outputs
        try:
            leader = self._start(spec, cwd, env, (out.writer, err.writer))
        except OSError as error:
            return _explain(spec.argv[0], error, err.writer)
        finally:
            out.release_writer()
            err.release_writer()
        ended = False
        try:
            with suppress(TimeoutError), _closing(os.pidfd_open(leader.pid)) as handle:
                async with asyncio.timeout(spec.timeout_sec):
                    await _readable(handle)
                    ended = True
        finally:
            if not ended:
                await finish(self._end({leader.pid} & self._leaders.keys()))
        return _exit_code(leader) if ended else None

    def _start(
        self, spec: ExecSpec, cwd: Path, env: dict[str, str], outputs: tuple[int, int]
    ) -> subprocess.Popen[bytes]:
        if len(self._leaders) >= _MANY_LEADERS:
            self._forget_empty_sessions()
        with tempfile.TemporaryFile() as stdin:
            stdin.write(spec.stdin)
            stdin.seek(0)
            out, err = outputs
            leader = subprocess.Popen(  # noqa: S603 - the argument list is the caller's command
                spec.argv, stdin=stdin, stdout=out, stderr=err, cwd=cwd, env=env, start_new_session=True
            )
        self._leaders[leader.pid] = leader
        return leader

    async def _end(self, sessions: Set[int], mark: bytes | None = None) -> None:
        for session in sessions:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)  # at once for the whole group, however fast it forks
        while found := _members(sessions, mark):
            with ExitStack() as stack:
                handles = {pid: _hold(pid) for pid in found}
                held = {pid: stack.enter_context(_closing(h)) for pid, h in handles.items() if h is not None}
                # Asked again, now that the numbers are held: one may have gone to a stranger in between.
                for pid in held.keys() & _members(sessions, mark):
                    _kill(held[pid])
                    await _readable(held[pid])

    def _forget_empty_sessions(self) -> None:
        in_use = {session for _, session in _living()}
        for pid in self._leaders.keys() - in_use:
            self._leaders.pop(pid).wait()


def _living() -> Iterator[tuple[int, int]]:
    """Every living process of this machine, with its session."""
    with os.scandir("/proc") as entries:
        names = [entry.name for entry in entries if entry.name.isdigit()]
    for name in names:
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        # A process looks dead when its first thread has ended, though others of its threads may go on.
        if fields[0] not in (b"Z", b"X") or fields[17] != b"1":
            yield int(name), int(fields[3])


def _members(sessions: Set[int], mark: bytes | None) -> set[int]:
    return {pid for pid, session in _living() if session in sessions or (mark and _is_marked(pid, mark))}


def _is_marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _hold(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _kill(handle: int) -> None:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise SandboxError("a process has changed its user and cannot be ended by this one") from error


async def _readable(descriptor: int) -> None:
    """Wait for a descriptor; that of a process becomes readable when the process ends."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _exit_code(leader: subprocess.Popen[bytes]) -> int:
    """How an ended process ended, without waiting for it in the system's sense: see `_Processes._leaders`."""
    if leader.returncode is not None:
        return leader.returncode
    found = os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    assert found is not None  # noqa: S101 - only with WNOHANG there may be nothing
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _explain(command: str, error: OSError, stderr: int) -> int:
    """The exit code a shell would give a command that cannot be run, after saying why."""
    if error.errno in _MACHINE_ERRORS:
        raise error
    # Shortened, because a pipe takes only so much before somebody reads it.
    os.write(stderr, f"{command[:1000]}: {os.strerror(error.errno or 0)}\n".encode("utf-8", "replace"))
    return 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126
