"""The sandboxes of a spawner: how one comes up, how its processes are ended, and how it goes.

Each has an outer init, which is told over a link what to kill and answers there; `inits.py` is that side of it.
"""

import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from seatrial.descriptors import in_use, limit, shortage
from seatrial.sandbox.embedded.files import FileWork
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.frozen import frozen_folder
from seatrial.sandbox.embedded.inits import KILL_AGENT, KILL_ALL, KILL_VERIFIER, run_outer_init
from seatrial.sandbox.embedded.protocol import Box, Target, receive
from seatrial.sandbox.embedded.roots import SpawnerSettings, plan_trees, usual_remains
from seatrial.sandbox.embedded.running import Reply, RunningSandbox

_GONE = {"error": "the sandbox's first process is gone: killed from outside, or by the kernel out of memory"}
_DESTROYED = {"error": "the sandbox has been destroyed"}
_EACH = 12  # descriptors that a sandbox takes here for as long as it is up, rounded up
_SPARE = 16  # for a few requests at the same time, whose descriptors come and go

Leave = Callable[[RunningSandbox, Reply], None]


class Boxes:
    """The sandboxes that are up, by name. `poll` is watched by the caller, who hands events on to `handle`."""

    def __init__(self, poll: select.poll, forks: Forks, files: FileWork, manner: SpawnerSettings) -> None:
        self._poll = poll
        self._forks = forks
        self._files = files
        self._manner = manner
        self._running: dict[str, RunningSandbox] = {}
        self._links: dict[int, RunningSandbox] = {}

    def __getitem__(self, name: str) -> RunningSandbox:
        if name not in self._running:
            raise LookupError(f"there is no sandbox {name!r}")
        return self._running[name]

    def create(self, box: Box, _: list[int], reply: Reply) -> None:
        """Make a sandbox; answers when it is up, or when everything of one that failed is gone."""
        self._require_descriptors()
        trees = plan_trees(box.base, box.layers, self._manner.prepared)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        shift = [] if self._manner.shift is None else [self._manner.shift]
        child = self._forks.start(
            lambda _: run_outer_init(box, trees, self._manner, theirs), keep=[theirs.fileno(), *shift], new_pids=True
        )
        theirs.close()
        running = RunningSandbox(box, trees, child.pid, ours)
        running.kills.append(reply)
        self._links[ours.fileno()] = running
        self._poll.register(ours, select.POLLIN)

        def complain(answer: dict[str, Any] | None, _: list[int]) -> None:
            running.complaint = answer

        def died(_: int) -> None:
            # Only now, not when it complained: its mounts are gone with it, and whoever asked can clear up behind it.
            running.dead = True
            self._fail_kills(running, running.complaint or _GONE)

        child.on_report = complain
        child.on_exit = died

    def _require_descriptors(self) -> None:
        """Refuse a sandbox for which there would not be enough descriptors. Counted only when they may be short."""
        most = limit()
        if most is None or (len(self._links) + 1) * _EACH + _SPARE < most // 2:
            return
        if in_use() + _EACH + _SPARE > most:
            raise OSError(f"{len(self._links)} sandboxes are up, and {shortage('the process that holds them')}")

    def handle(self, descriptor: int) -> bool:
        """Take care of one event of the poll; False when it is not ours."""
        running = self._links.get(descriptor)
        if running is None:
            return False
        try:
            received = receive(running.link)
        except ConnectionResetError:  # it was killed before it had read all our orders
            received = None
        except OSError as error:
            self._give_up(running, error)
            return True
        if received is None:  # it has ended; its exit says the rest
            self._unlink(running)
        else:
            self._note_answer(running, *received)
        return True

    def _note_answer(self, running: RunningSandbox, message: dict[str, Any], descriptors: list[int]) -> None:
        """An outer init has done as told: built the sandbox, or killed and made the agent's namespaces anew."""
        if running.inner >= 0:
            os.close(running.inner)
        running.inner = descriptors[0]
        if "ready" in message:
            running.take_over(message["proc"], dict(zip(message["ready"], descriptors[1:], strict=True)))
            try:
                running.look_around()
            except OSError as error:
                self._give_up(running, error)
                return
            self._running[running.box.name] = running
        running.kills.pop(0)({}, [])

    def _give_up(self, running: RunningSandbox, error: OSError) -> None:
        running.complaint = {"error": str(error), "errno": error.errno, "kind": type(error).__name__}
        os.kill(running.pid, signal.SIGKILL)

    def _fail_kills(self, running: RunningSandbox, answer: dict[str, Any]) -> None:
        waiting, running.kills = running.kills, []
        for reply in waiting:
            reply(answer, [])
        if running.box.name not in self._running:
            self._close(running)

    def kill(self, target: Target, _: list[int], reply: Reply) -> None:
        """End the processes of a phase; the verifier's with the agent's."""
        self._order(self[target.name], KILL_AGENT if target.phase == "agent" else KILL_ALL, reply)

    def renew(self, name: str, leave: Leave, reply: Reply) -> None:
        """End the verifier's processes, and then `leave` its view."""
        running = self[name]
        self._order(running, KILL_VERIFIER, lambda answer, passed: leave(running, lambda *_: reply(answer, passed)))

    def _order(self, running: RunningSandbox, order: bytes, reply: Reply) -> None:
        if running.dead:
            reply(_GONE, [])
            return
        running.kills.append(reply)
        running.link.send(order)

    def destroy(self, target: Target, _: list[int], reply: Reply) -> None:
        running = self[target.name]
        del self._running[target.name]
        running.destroyed = True

        def gone(_: int) -> None:
            self._fail_kills(running, _DESTROYED)
            self._close(running)
            state, remains = running.box.state, usual_remains(running.trees)
            self._files.remove(reply, state, frozen_folder(state), remains=remains)

        if running.dead:
            gone(0)
            return
        self._forks.child(running.pid).on_exit = gone
        os.kill(running.pid, signal.SIGKILL)

    def _close(self, running: RunningSandbox) -> None:
        """Let go of everything that keeps a sandbox's namespaces and mounts alive."""
        if running.closed:
            return
        running.closed = True
        self._unlink(running)
        running.link.close()
        for descriptor in running.descriptors():
            os.close(descriptor)

    def _unlink(self, running: RunningSandbox) -> None:
        if running.link.fileno() in self._links:
            self._poll.unregister(running.link)
            del self._links[running.link.fileno()]
