"""The spawner as a process of this machine: how it is started, looked at and ended, whatever state it is in.

It is two processes: the first makes the namespaces and waits; its child is the spawner, and tells us its number.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

from seatrial.descriptors import raise_limit
from seatrial.errors import SandboxError
from seatrial.sandbox.embedded.requests import Mode
from seatrial.sandbox.embedded.watch import Look, look_at

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
        """Learn the number of the spawner itself."""
        with suppress(ProcessLookupError):  # gone already
            self._handle = os.pidfd_open(pid)
            self._pid = pid

    @property
    def pid(self) -> int:
        """The number of the spawner, as far as it is known."""
        return self._pid or self._first.pid

    def look(self) -> Look:
        """What it is doing."""
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
    """Wait for the end of a process."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
