"""The spawner as our process sees it: starting it, requests to it as awaitables, and exits of commands as futures.

Nothing is waited for without an end. Once a second, while the spawner owes us something, it is looked at; one that has
stopped or does not answer any more (`watch.py` decides) is killed, and everybody who waits is told. When it cannot
start, the reason is looked for in /proc. What is said on the wire is in `protocol.py`.
"""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from seatrial.concurrency import finish
from seatrial.descriptors import is_shortage, raise_limit, shortage
from seatrial.errors import ContentError, HostUnsupportedError, SandboxError, TooLargeError
from seatrial.sandbox.embedded.protocol import DescriptorsLostError, Mode, receive, send
from seatrial.sandbox.embedded.watch import LOOK_SEC, Look, Watch, look_at
from seatrial.sandbox.runs import unusable

_ERRORS = {kind.__name__: kind for kind in (ContentError, TooLargeError)}
_PING = 0  # the number of a request for a sign of life; others count from 1


class SpawnerClient:
    """Starts a spawner and talks to it from one event loop."""

    def __init__(self, mode: Mode, run: Path) -> None:
        self._mode = mode
        self._run = run
        self._connection: socket.socket | None = None
        self._process: SpawnerProcess | None = None
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._exits: dict[str, asyncio.Future[int]] = {}
        self._greeting: asyncio.Future[dict[str, Any]] | None = None
        self.many_users = mode != "user"
        self._numbers = 0
        self._sending = asyncio.Lock()
        self._room: asyncio.Future[None] | None = None
        self._watch = Watch()
        self._next_look: asyncio.TimerHandle | None = None
        self.end: str | None = None
        """How the spawner ended, None as long as it serves."""

    async def start(self) -> None:
        """Start the spawner. Raises HostUnsupportedError when the kernel refuses it, else SandboxError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._connection = ours
        asyncio.get_running_loop().add_reader(ours, self._on_readable)
        try:
            with theirs:
                self._process = SpawnerProcess.start(theirs, self._mode, self._run)
            greeting = await self._next_greeting()
            if "map" in greeting:
                self.many_users = await asyncio.to_thread(map_ids, greeting["map"])
                send(ours, {"mapped": self.many_users})
                greeting = await self._next_greeting()
            if greeting.get("refused"):
                raise HostUnsupportedError(f"{greeting['error']}: {find_hindrance()}")  # noqa: TRY301 - the `except` below ends the process for these too
            if "unusable" in greeting:
                raise unusable(self._run.parent, OSError(greeting["unusable"], greeting["error"]))  # noqa: TRY301 - as above
            if "up" not in greeting:
                raise SandboxError(greeting.get("error", "the sandbox spawner did not start"))  # noqa: TRY301 - the `except` below ends the process for these too
        except BaseException:
            await finish(self.close())
            raise

    async def _next_greeting(self) -> dict[str, Any]:
        self._greeting = asyncio.get_running_loop().create_future()
        self._look_later()
        return await self._greeting

    async def call(
        self, operation: str, descriptors: Sequence[int] = (), *, sent: asyncio.Event | None = None, **fields: Any
    ) -> tuple[dict[str, Any], list[int]]:
        """Carry out one request; returns the answer and its descriptors. Raises SandboxError with the reason.

        `sent` is set once the spawner is sure to carry it out, whatever becomes of us.
        """
        if self._connection is None:
            raise SandboxError(self._gone)
        self._numbers += 1
        number = self._numbers
        async with self._sending:  # one at a time: the event loop knows only one waiter per socket
            await self._send({"id": number, "op": operation, **fields}, descriptors)
        if sent:
            sent.set()
        self._look_later()
        # The answer is not read before the event loop goes on, which is below.
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            answer, passed = await future
        except asyncio.CancelledError:
            # The answer may have come first, but nobody will have it.
            if not future.cancel() and not future.cancelled() and not future.exception():
                _close(future.result()[1])
            raise
        if "error" in answer:
            if operation == "get" and answer.get("kind") in ("FileNotFoundError", "NotADirectoryError"):
                raise FileNotFoundError(answer["error"])
            raise _ERRORS.get(answer.get("kind"), SandboxError)(f"{operation}: {answer['error']}")
        return answer, passed

    async def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        while self._connection is not None:
            try:
                return send(self._connection, message, descriptors)
            except BlockingIOError:
                await self._writable(self._connection)
            except ConnectionError as error:
                raise SandboxError(f"{self._gone}: {error}") from None
            except OSError as error:
                reason = shortage() if is_shortage(error) else error
                raise SandboxError(f"nothing can be sent to the sandbox spawner: {reason}") from None
        raise SandboxError(self._gone)

    @property
    def _gone(self) -> str:
        return self.end or "the sandbox spawner is gone"

    async def _writable(self, connection: socket.socket) -> None:
        """Wait until there is room, or until there will never be any again."""
        loop = asyncio.get_running_loop()
        self._room = loop.create_future()
        self._look_later()
        loop.add_writer(connection, _settle, self._room)
        try:
            await self._room
        finally:
            if connection is self._connection:
                loop.remove_writer(connection)

    def expect_exit(self, token: str) -> asyncio.Future[int]:
        future = self._exits[token] = asyncio.get_running_loop().create_future()
        self._look_later()
        return future

    def forget_exit(self, token: str) -> None:
        self._exits.pop(token, None)

    def _on_readable(self) -> None:
        assert self._connection is not None  # noqa: S101 - the reader is removed before the connection is
        while True:
            try:
                received = receive(self._connection)
            except BlockingIOError:
                return
            except DescriptorsLostError as error:
                self._dispatch({**error.message, "error": str(error)}, [])
                continue
            except OSError:
                received = None
            if received is None:
                self._on_end("ended unexpectedly: killed from outside, or by the kernel out of memory (see `dmesg`)")
                return
            self._dispatch(*received)

    def _dispatch(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self._watch.heard()
        if "exit" in message:
            self._note_exit(message)
        elif "id" in message:
            answer = self._answers.pop(message["id"], None)
            if answer is None or answer.cancelled():
                _close(descriptors)
            else:
                answer.set_result((message, descriptors))
        elif "spawner" in message and self._process:
            self._process.introduce(message["spawner"])
        elif self._greeting and not self._greeting.done():
            self._greeting.set_result(message)

    def _note_exit(self, message: dict[str, Any]) -> None:
        exited = self._exits.pop(message["exit"], None)
        if exited is None or exited.done():
            return
        if lost := message.get("lost"):
            exited.set_exception(SandboxError(lost))
            exited.exception()
        else:
            exited.set_result(message["code"])

    def _look_later(self) -> None:
        """See to it that the spawner is looked at while somebody waits for it."""
        if self._next_look is None and self._connection is not None:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_SEC, self._look)

    def _look(self) -> None:
        self._next_look = None
        if self._connection is None or self._process is None or not self._waiting():
            return
        if reason := self._watch.note(self._process.look()):
            self._process.kill()
            self._on_end(f"{reason}, and was ended")
            return
        if self._watch.wants_a_sign:
            with contextlib.suppress(OSError):  # no room for it: then it is being asked enough already
                send(self._connection, {"id": _PING, "op": "ping"})
        self._look_later()

    def _waiting(self) -> list["asyncio.Future[Any]"]:
        """What the spawner owes us."""
        single = [future for future in (self._greeting, self._room) if future]
        return [future for future in (*self._answers.values(), *self._exits.values(), *single) if not future.done()]

    def _on_end(self, how: str) -> None:
        """The spawner is gone and every sandbox with it: whoever waits for something learns so."""
        self._let_go()
        pid = f", process {self._process.pid}," if self._process else ""
        self.end = f"the sandbox spawner{pid} {how}"
        for future in self._waiting():
            future.set_exception(SandboxError(self.end))
            future.exception()  # seen: whoever was waiting may have been cancelled meanwhile
        self._answers.clear()
        self._exits.clear()

    def _let_go(self) -> None:
        if self._connection is None:
            return
        if self._next_look:
            self._next_look.cancel()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._connection)
        loop.remove_writer(self._connection)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._connection = None
        if self._room is not None:
            _settle(self._room)

    async def close(self) -> None:
        """End the spawner and everything it runs; returns when its process is gone. Raises SandboxError."""
        self._let_go()
        if self._process is not None:
            process, self._process = self._process, None
            await process.end()


def _settle(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _close(descriptors: Iterable[int]) -> None:
    """Let go of what came with an answer that nobody waits for any more."""
    for descriptor in descriptors:
        os.close(descriptor)


# Beside the spawner, for other processes that nobody would notice to be stopped


class StopWatch:
    """Kills a process that is stopped and does not go on, for the length of a block; it may be silent and idle."""

    def __init__(self, pid: int, kill: Callable[[], None]) -> None:
        self._pid = pid
        self._kill = kill
        self._watch = Watch()
        self._next: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._look_later()

    def __exit__(self, *_: object) -> None:
        if self._next:
            self._next.cancel()

    def _look_later(self) -> None:
        self._next = asyncio.get_running_loop().call_later(LOOK_SEC, self._look)

    def _look(self) -> None:
        self._watch.heard()
        if self._watch.note(look_at(self._pid)):
            self._kill()
        else:
            self._look_later()


# The process. It is two: the first makes the namespaces and waits; its child is the spawner, and sends its number.

_MODULE = ["-I", "-m", "seatrial.sandbox.embedded"]
_TIMEOUT_SEC = 30.0  # for the kernel, which ends every sandbox before the spawner itself
# Not the user's keys: the first process of every sandbox is a child of the spawner and has what it was started with.
_ITS_VARIABLES = ("PATH", "HOME", "LANG", "LC_", "LD_LIBRARY_PATH", "TMPDIR", "XDG_", "SEATRIAL_")


class SpawnerProcess:
    """A spawner that was started. Ended, it has taken every sandbox and every mount of theirs along."""

    def __init__(self, first: "subprocess.Popen[bytes]") -> None:
        self._first = first
        self._pid: int | None = None
        self._handle = -1

    @classmethod
    def start(cls, control: socket.socket, mode: Mode, run: Path) -> Self:
        """Start a spawner that serves a connection. Commands in its sandboxes get the limits that we were given."""
        soft, hard = raise_limit()
        arguments = ["first", str(control.fileno()), mode, str(run.parent), run.name, f"{soft}:{hard}"]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter; asyncio's would need a watcher
                [sys.executable, *_MODULE, *arguments],
                env={name: value for name, value in os.environ.items() if name.startswith(_ITS_VARIABLES)},
                pass_fds=[control.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"the sandbox spawner cannot be started: {error}") from error
        return cls(process)

    def introduce(self, pid: int) -> None:
        with suppress(ProcessLookupError):  # gone already
            self._handle = os.pidfd_open(pid)
            self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid or self._first.pid

    def look(self) -> Look:
        return look_at(self.pid)

    def kill(self) -> None:
        """Have it end; the kernel then ends whatever it has started. A stopped process ends by this too."""
        if self._handle < 0:
            self._first.kill()
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def end(self) -> None:
        """Kill it; returns when nothing of it is left. Raises SandboxError when it does not end for half a minute."""
        self.kill()
        try:
            async with asyncio.timeout(_TIMEOUT_SEC):
                if self._handle >= 0:
                    await _readable(self._handle)
        except TimeoutError:
            raise SandboxError(
                f"the sandbox spawner, process {self.pid}, does not end even when killed: a disk or network file "
                "system does not answer; see `dmesg`"
            ) from None
        finally:
            self._first.kill()  # it has nothing left to wait for, but may be stopped
            await asyncio.to_thread(self._first.wait)
            self._let_go()

    def _let_go(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)


# Ids that a user may hand out in a user namespace.


def map_ids(pid: int) -> bool:
    """Give a user namespace the id range /etc/subuid grants us, by the helpers made for it; False when it cannot be."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # as in a container that is told to run as some number
        name = str(uid)
    for helper, table, own in (("newuidmap", "/etc/subuid", uid), ("newgidmap", "/etc/subgid", os.getgid())):
        program, granted = shutil.which(helper), granted_range(table, name, uid)
        if program is None or granted is None:
            return False
        command = [program, str(pid), "0", str(own), "1", "1", *granted]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_SEC)  # noqa: S603 - by full path
        except (OSError, subprocess.SubprocessError):
            return False
    return True


def granted_range(table: str, name: str, uid: int) -> tuple[str, str] | None:
    """Where the ids start that a table grants a user, and how many they are."""
    try:
        lines = Path(table).read_text().splitlines()
    except OSError:
        return None
    rows = [line.split(":") for line in lines if line.count(":") == 2]
    return next(((start, count) for owner, start, count in rows if owner in (name, str(uid))), None)


# Why the spawner could not start. Each of these has made it fail, and none of them always does.

_CAP_SYS_ADMIN = 1 << 21
# Each with the value that forbids it; the first two are only for those who are not root.
_UNPRIVILEGED = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
}
_KNOBS = {"user/max_user_namespaces": ("0", "user.max_user_namespaces=10000")}


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why sandboxes cannot be made here, and the way around it."""

    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.fix}"


class _Machine(NamedTuple):
    proc: Path
    uid: int

    def read(self, name: str) -> str:
        try:
            return (self.proc / name).read_text()
        except OSError:
            return ""

    def status(self, key: str) -> str:
        """A line of what the kernel says about this process."""
        lines = (line.partition(":") for line in self.read("self/status").splitlines())
        return next((value.strip() for name, _, value in lines if name == key), "")


def find_hindrance(proc: Path = Path("/proc"), uid: int | None = None) -> Hindrance:
    """The likeliest one; `proc` and `uid` are those of this process unless given.

    Where the root is a mount, nothing tells a chroot but that nothing else is in the way.
    """
    machine = _Machine(proc, os.geteuid() if uid is None else uid)
    return next((found for check in _CHECKS if (found := check(machine))), _leave_chroot("perhaps this is"))


def find_missing_proc(proc: Path = Path("/proc")) -> Hindrance | None:
    """The one thing without which nothing can be found out at all."""
    if (proc / "self/mountinfo").exists():
        return None
    return Hindrance(f"{proc} is not mounted", f"mount it: mount -t proc proc {proc}")


def _chroot(machine: _Machine) -> Hindrance | None:
    """Only there can the root be no mount."""
    mounted = {line.split()[4] for line in machine.read("self/mountinfo").splitlines()}
    return None if "/" in mounted else _leave_chroot("this is")


def _leave_chroot(what: str) -> Hindrance:
    return Hindrance(
        f"{what} a chroot, in which the kernel makes no namespaces for sandboxes",
        "run Seatrial outside of it, enter the directory by pivot_root instead of chroot (`.ci/minimal` in Seatrial's"
        " repository shows how), or use containers (-e docker, -e podman)",
    )


def _switched_off(machine: _Machine) -> Hindrance | None:
    for knob, (bad, setting) in {**_KNOBS, **(_UNPRIVILEGED if machine.uid else {})}.items():
        if machine.read(f"sys/{knob}").strip() == bad:
            return Hindrance(
                f"user namespaces are switched off here ({machine.proc}/sys/{knob} is {bad})",
                f"sudo sysctl -w {setting}",
            )
    return None


def _restricted(machine: _Machine) -> Hindrance | None:
    """Containers keep their processes from it, by taking rights from root and by a filter for everybody."""
    lacking = machine.uid == 0 and not int(machine.status("CapEff") or "0", 16) & _CAP_SYS_ADMIN
    if not lacking and machine.status("Seccomp") != "2":
        return None
    found = "root has no CAP_SYS_ADMIN here" if lacking else "a seccomp filter is set for this process"
    user = " for an ordinary user (--user 1000)" if machine.uid == 0 else ""
    return Hindrance(
        f"{found}, as in most containers",
        f"start the container{user} with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or"
        " use containers beside it (-e docker, -e podman)",
    )


_CHECKS: tuple[Callable[[_Machine], Hindrance | None], ...] = (_chroot, _switched_off, _restricted)
