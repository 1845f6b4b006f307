"""Forking children without ever waiting for one: their reports and their ends arrive as events.

A child's report socket closes when the child executes a program or ends, so silence is a report too. Before its report
a child may send news, marked as such. A child that works for us and is stopped, by whatever signal of the host, is
killed when it has not gone on after a few seconds: everybody who waits for it is told by its end.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from seatrial.sandbox.embedded.children import fail
from seatrial.sandbox.embedded.protocol import DescriptorsLostError, close_all_but, receive
from seatrial.sandbox.embedded.roots import write_text
from seatrial.sandbox.embedded.watch import LOOK_SEC, STOPPED_LOOKS, look_at
from seatrial.sandbox.syscalls import CLONE_NEWPID, PR_SET_PDEATHSIG, fork_into, prctl, setns, unshare

Work = Callable[[socket.socket], None]


class Child:
    """A forked process: what to do with news, with its report (None when it sent none), and with its exit code.

    One that `may_stop` is a command of a sandbox: its inhabitants may stop it, and nobody but its time ends it.
    """

    def __init__(self, pid: int, report: socket.socket | None, *, may_stop: bool = False) -> None:
        self.pid = pid
        self.report = report
        self.may_stop = may_stop
        self.looks = 0
        self.on_news: Callable[[dict[str, Any], list[int]], None] = lambda *_: None
        self.on_report: Callable[[dict[str, Any] | None, list[int]], None] = lambda *_: None
        self.on_exit: Callable[[int], None] = lambda _: None


class Forks:
    """The children of this process. `poll` is watched by the caller, who hands every event on to `handle`."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._children: dict[int, Child] = {}
        self._reports: dict[int, int] = {}
        self._stopped: set[int] = set()
        self._next_look = 0.0
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        # poll(2) does not tell of a child that ends, but Python writes every signal that has a handler into this pipe.
        self._wakeup, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll.register(self._wakeup, select.POLLIN)

    def start(
        self,
        work: Work,
        *,
        keep: Iterable[int] = (),
        pids: int | None = None,
        new_pids: bool = False,
        join: Sequence[str] = (),
        may_stop: bool = False,
    ) -> Child:
        """Fork a child that does `work`, in the pid namespace of the process `pids` or in a new one.

        Of our descriptors it has those in `keep`, and no other. `join` are the files by which it joins control groups.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A process cannot change its own pid namespace: these calls say where its next children are born, and the one
        # below sets that back.
        if new_pids:
            unshare(CLONE_NEWPID)
        elif pids is not None:
            setns(pids, CLONE_NEWPID)
        try:
            pid, left = _fork(join)
            if pid == 0:
                _be_child(work, theirs, keep, left)
        finally:
            setns(self._own_pids, CLONE_NEWPID)
        theirs.close()
        child = self._children[pid] = Child(pid, ours, may_stop=may_stop)
        self._reports[ours.fileno()] = pid
        self._poll.register(ours, select.POLLIN)
        return child

    def run(self, command: list[str], descriptors: Mapping[int, int]) -> Child:
        """Start a program of the host: without a copy of this process, which would cost more than the program.

        Besides the standard ones it has the `descriptors` open, given as its number: our number. Like all processes of
        this pid namespace it ends with us, the first of them.
        """
        opened = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in descriptors.items()]
        ignored = [signal.SIGPIPE, signal.SIGXFSZ]
        pid = os.posix_spawn(command[0], command, {}, file_actions=opened, setsigdef=ignored)
        child = self._children[pid] = Child(pid, None)
        return child

    def child(self, pid: int) -> Child:
        """A child that has not ended yet."""
        return self._children[pid]

    def handle(self, descriptor: int) -> None:
        if descriptor == self._wakeup:
            os.read(self._wakeup, 4096)
            self._reap()
        elif descriptor in self._reports:
            self._read_report(self._reports[descriptor])

    def _read_report(self, pid: int) -> None:
        child = self._children[pid]
        assert child.report is not None  # noqa: S101 - only children with one are registered
        try:
            received = receive(child.report)
        except DescriptorsLostError as error:
            received = {"error": str(error), "errno": error.errno}, []
        if received and received[0].pop("news", False):
            child.on_news(*received)
            return
        self._poll.unregister(child.report)
        del self._reports[child.report.fileno()]
        child.report.close()
        child.report = None
        child.on_report(*(received or (None, [])))

    def wait(self) -> list[tuple[int, int]]:
        """The next events; without any, when it is time to look at children that have been stopped."""
        if not self._stopped:
            return self._poll.poll()
        events = self._poll.poll(LOOK_SEC * 1000)
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SEC
            self._look_at_stopped()
        return events

    def _look_at_stopped(self) -> None:
        for pid in list(self._stopped):
            child = self._children[pid]
            child.looks = child.looks + 1 if look_at(pid).stopped else 0
            if child.looks >= STOPPED_LOOKS:
                os.kill(pid, signal.SIGKILL)
            elif not child.looks:
                self._stopped.discard(pid)

    def _reap(self) -> None:
        while True:  # one SIGCHLD may stand for several children: the kernel keeps no count of those that are pending
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.get(pid)
            if child is None:  # an orphan: those of a pid namespace become children of its first process, which we are
                continue
            if os.WIFSTOPPED(status):
                if not child.may_stop:
                    self._stopped.add(pid)
                continue
            while child.report is not None:  # what it had to say may still lie in the socket when its end is known
                self._read_report(pid)
            del self._children[pid]
            self._stopped.discard(pid)
            child.on_exit(os.waitstatus_to_exitcode(status))


def _fork(join: Sequence[str]) -> tuple[int, Sequence[str]]:
    """Fork, with the child born in its version 2 control group if possible; also returns what is left to join."""
    born = next((file for file in join if file.endswith("/cgroup.procs")), None)
    if born is None:
        return os.fork(), join
    try:
        group = os.open(os.path.dirname(born), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return fork_into(group), [file for file in join if file != born]
        finally:
            os.close(group)
    except OSError:  # before Linux 5.7, or not allowed: moving there takes longer, and says why if it fails too
        return os.fork(), join


def _be_child(work: Work, report: socket.socket, keep: Iterable[int], join: Sequence[str]) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        close_all_but([report.fileno(), *keep])
        for file in join:
            write_text(file, "0")
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # which a fork does not pass on
        work(report)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the spawner must hear of it
        fail(report, error)
    os._exit(0)
