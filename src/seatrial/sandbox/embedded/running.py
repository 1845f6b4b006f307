"""A sandbox that is up, as the spawner knows it: what keeps it alive, and how a child enters it."""

import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from seatrial.sandbox.division import Division, divide
from seatrial.sandbox.embedded.changes import remember_files
from seatrial.sandbox.embedded.protocol import Box
from seatrial.sandbox.embedded.roots import TEMPORARY, Tree, read_text
from seatrial.sandbox.process_names import split_stat
from seatrial.sandbox.syscalls import CLONE_NEWNS, setns
from seatrial.untrusted.files import FOLDER

_FLAGS = 6  # behind the state in /proc/PID/stat
_PF_EXITING = 0x4

Reply = Callable[[dict[str, Any], list[int]], None]


class RunningSandbox:
    """Descriptors of a sandbox's two inits, its root, files and users, and of the verifier's view once made."""

    def __init__(self, box: Box, trees: list[Tree], pid: int, link: socket.socket) -> None:
        self.box = box
        self.trees = trees
        self.pid = pid
        self.outer = os.pidfd_open(pid)
        self.link = link
        self.inner = self.state = self.root = -1
        self.view = self.view_root = -1
        self.users: int | None = None
        self.disk: int | None = None
        """A mount namespace in which a disk of the sandbox's own is mounted, if it has one."""
        self.frozen = 0
        """How often its system has been copied."""
        self.views = 0
        """How often the verifier's view has been left."""
        self.begun = False
        """Whether an agent has been there."""
        self.proc = 0
        """The device of the outer /proc."""
        self.known: list[str] = []
        """The names that were in its root before anybody was."""
        self.complaint: dict[str, Any] | None = None
        self.dead = self.destroyed = self.closed = False
        self.kills: list[Reply] = []

    def descriptors(self) -> list[int]:
        """Everything that keeps the sandbox's namespaces and mounts alive."""
        found = (self.outer, self.inner, self.state, self.root, self.users, self.disk, self.view, self.view_root)
        return [number for number in found if number is not None and number >= 0]

    def take_over(self, proc: int, given: dict[str, int]) -> None:
        self.proc = proc
        self.state, self.root = given["state"], given["root"]
        self.users, self.disk = given.get("users"), given.get("disk")

    def has_lost_an_init(self, exit_code: int) -> bool:
        """Whether a first process has ended that was not told to, seen when a command ended with `exit_code`.

        Nobody inside can bring that about: a first process gets no signal from its own namespaces.
        """
        if self.kills or self.destroyed:
            return False
        inits = (self.outer, self.inner)
        ended = select.poll()
        for init in inits:
            ended.register(init, select.POLLIN)
        # One that has been killed waits for its namespace to be empty, and so for us to bury the command.
        return bool(ended.poll(0)) or (exit_code == -signal.SIGKILL and any(map(_is_exiting, inits)))

    def look_around(self) -> None:
        folder = os.open(".", FOLDER, dir_fd=self.root)
        try:
            self.known = os.listdir(folder)
        finally:
            os.close(folder)
        remember_files(self.state)

    @property
    def division(self) -> Division:
        return divide(self.box.workdir, self.box.system_folders)

    @property
    def temporary(self) -> str:
        return f"{self.box.state}/{TEMPORARY}/{self.views}"

    def leave_view(self) -> None:
        """Let go of the verifier's view, which is gone with its last process."""
        if self.view >= 0:
            os.close(self.view)
            os.close(self.view_root)
            self.view = self.view_root = -1
            self.views += 1

    def root_of(self, phase: str) -> int:
        """The root of a phase's view of the files, by which nothing of the host can be reached."""
        return self.root if phase == "agent" else self.view_root

    @property
    def shows_outer_proc(self) -> bool:
        """Whether the agent's view, which has been entered, still has the /proc of those beside the agent."""
        return os.stat("/proc").st_dev == self.proc

    def join(self, phase: str, flags: int) -> None:
        """Let the current process enter a phase's view of the files, and the given other namespaces."""
        if phase == "agent":
            setns(self.inner, flags | CLONE_NEWNS)
            return
        if flags:
            setns(self.outer, flags)
        setns(self.view, CLONE_NEWNS)


def _is_exiting(handle: int) -> bool:
    """Whether a process is on its way out, by the descriptor of it."""
    pid = read_text(f"/proc/self/fdinfo/{handle}").partition("\nPid:")[2].split()[:1]
    fields = split_stat(read_text(f"/proc/{pid[0]}/stat"))[1] if pid else ()
    return not fields or bool(int(fields[_FLAGS]) & _PF_EXITING)
