"""Plain processes of the local backend: run, bounded in time, found again by session or mark, and ended."""

import asyncio
import errno
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Set
from contextlib import ExitStack, suppress
from pathlib import Path

from seatrial.concurrency import finish
from seatrial.descriptors import give_back_limit
from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.sandbox.archives import closing
from seatrial.sandbox.capture import Capture
from seatrial.sandbox.process_names import is_alive, session_of, shown_name, split_stat
from seatrial.sandbox.processor import Meter, deadline, processor_use, stat_times

_MANY_LEADERS = 64
_MACHINE_ERRORS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class Processes:
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
        session = _Session()
        meter = Meter(session) if spec.patience_sec is not None else None
        try:
            exit_code = await self._outcome(spec, cwd, env, (out, err), (session, meter))
            stdout, stderr = out.finish(), err.finish()
        except BaseException:
            out.close()
            err.close()
            raise
        taken, truncated = time.monotonic() - started, out.truncated or err.truncated
        return ExecResult(exit_code, taken, stdout, stderr, truncated, *processor_use(meter))

    async def end_all(self) -> None:
        """Kill everything; returns when it is dead."""
        await self._end(self._leaders.keys(), self._mark)
        self._forget_empty_sessions()

    def names(self) -> tuple[str, ...]:
        found = _members(self._leaders.keys(), self._mark)
        return tuple(sorted(shown_name(name) for name in map(_name, found) if name is not None))

    def close(self) -> None:
        for capture in self._captures:
            capture.close()

    def _capture(self, path: Path | None, limit: int) -> Capture:
        capture = Capture(path, limit)
        self._captures = [earlier for earlier in self._captures if earlier.open] + [capture]
        return capture

    async def _outcome(
        self,
        spec: ExecSpec,
        cwd: Path,
        env: dict[str, str],
        outputs: tuple[Capture, Capture],
        measured: "tuple[_Session, Meter | None]",
    ) -> int | None:
        (out, err), (session, meter) = outputs, measured
        try:
            leader = self._start(spec, cwd, env, (out.writer, err.writer))
        except OSError as error:
            return _explain(spec.argv[0], error, err.writer)
        finally:
            out.release_writer()
            err.release_writer()
        ended, session.leader = False, leader.pid
        try:
            with suppress(TimeoutError), closing(os.pidfd_open(leader.pid)) as handle:
                async with deadline(spec.timeout_sec, spec.patience_sec, meter):
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
        give_back_limit(leader.pid)
        self._leaders[leader.pid] = leader
        return leader

    async def _end(self, sessions: Set[int], mark: bytes | None = None) -> None:
        for session in sessions:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)  # at once for the whole group, however fast it forks
        while found := _members(sessions, mark):
            with ExitStack() as stack:
                handles = {pid: _hold(pid) for pid in found}
                held = {pid: stack.enter_context(closing(h)) for pid, h in handles.items() if h is not None}
                # Asked again, now that the numbers are held: one may have gone to a stranger in between.
                for pid in held.keys() & _members(sessions, mark):
                    _kill(held[pid])
                    await _readable(held[pid])

    def _forget_empty_sessions(self) -> None:
        in_use = {session for _, session in _living()}
        for pid in self._leaders.keys() - in_use:
            self._leaders.pop(pid).wait()


class _Session:
    """The processes of one command, whose use of processors can be counted as long as they, or their parents, live."""

    leader: int | None = None

    def members(self) -> set[int]:
        return set() if self.leader is None else _members({self.leader}, None)

    def processor_times(self) -> tuple[float | None, float | None]:
        """What they ran. For how long those waited that are gone, nobody knows."""
        ran = 0.0
        for pid in self.members() | ({self.leader} if self.leader else set()):
            with suppress(OSError, ValueError):
                ran += stat_times(pid)[1]
        return ran, None


def _living() -> Iterator[tuple[int, int]]:
    with os.scandir("/proc") as entries:
        names = [entry.name for entry in entries if entry.name.isdigit()]
    for name in names:
        try:
            _, fields = split_stat(Path("/proc", name, "stat").read_text(errors="replace"))
        except OSError:
            continue
        if is_alive(fields):
            yield int(name), session_of(fields)


def _members(sessions: Set[int], mark: bytes | None) -> set[int]:
    return {pid for pid, session in _living() if session in sessions or (mark and _is_marked(pid, mark))}


def _is_marked(pid: int, mark: bytes) -> bool:
    """By any of its threads: the first may have ended, and has no memory any more then."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False
    return any(mark in _environment(thread) for thread in threads)


def _environment(thread: Path) -> list[bytes]:
    try:
        return (thread / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _name(pid: int) -> str | None:
    """What a process calls itself, None when it is gone."""
    try:
        return split_stat(Path(f"/proc/{pid}/stat").read_text(errors="replace"))[0]
    except OSError:
        return None


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
