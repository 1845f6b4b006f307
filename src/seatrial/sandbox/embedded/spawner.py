"""The spawner: one small single-threaded process that forks every sandbox and every command in it.

It never waits for a child: reports and exits arrive as events, so that many sandboxes can be built at the same time.
Being the first process of its own pid namespace, it takes every sandbox with it when it dies, however it dies.
"""

import os
import select
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from seatrial.sandbox.embedded import children
from seatrial.sandbox.embedded.changes import write_changes, write_size
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.inits import run_outer_init
from seatrial.sandbox.embedded.protocol import receive, send
from seatrial.sandbox.embedded.removal import remove_tree
from seatrial.sandbox.embedded.requests import Box, Command, Mode, Target, Transfer, decode
from seatrial.sandbox.embedded.roots import plan_trees, prepare_host_image
from seatrial.sandbox.embedded.snapshot import copy_layer
from seatrial.sandbox.embedded.syscalls import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    setns,
)

Reply = Callable[[dict[str, Any], list[int]], None]
_SURROUNDINGS = CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP


@dataclass(slots=True)
class Running:
    """A sandbox that is up: descriptors of its two inits, of its files, and of the verifier's view once made."""

    box: Box
    pid: int
    outer: int
    inner: int = -1
    state: int = -1
    view: int = -1
    dead: bool = False

    def descriptors(self) -> list[int]:
        """Everything that keeps the sandbox's namespaces and mounts alive."""
        return [number for number in (self.outer, self.inner, self.state, self.view) if number >= 0]


class Spawner:
    """Serves requests until the control connection ends."""

    def __init__(self, control: socket.socket, mode: Mode, shift: int | None, owner: int, prepared: str) -> None:
        self._control = control
        self._mode = mode
        self._shift = shift
        self._owner = owner
        self._prepared = prepared
        self._running: dict[str, Running] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._forks = Forks(self._poll)

    def serve(self) -> None:
        """Handle events until the control connection ends, which ends everything."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._control.fileno():
                    self._forks.handle(descriptor)
                    continue
                received = receive(self._control)
                if received is None:
                    return
                self._handle(*received)

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        def reply(answer: dict[str, Any], passed: list[int]) -> None:
            send(self._control, {"id": message["id"], **answer}, passed)

        try:
            getattr(self, f"_on_{message['op']}")(message, descriptors, reply)
        except (OSError, KeyError) as error:
            reply({"error": str(error), "errno": getattr(error, "errno", None), "kind": type(error).__name__}, [])
        for descriptor in descriptors:
            os.close(descriptor)

    def _answer_after(self, work: Callable[[], None], reply: Reply, pids: int | None = None) -> None:
        """Let a child do something, and answer when it has ended: with its complaint if it had one."""
        complaints: list[dict[str, Any]] = []
        child = self._forks.start(lambda _: work(), pids)
        child.on_report = lambda message, _: complaints.append(message) if message else None
        child.on_exit = lambda code: reply(complaints[0] if complaints else _ending(code), [])

    def _on_prepare(self, _: dict[str, Any], __: list[int], reply: Reply) -> None:
        self._answer_after(lambda: prepare_host_image(self._prepared), reply)

    def _on_remove(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        path = decode(Target, message).path
        self._answer_after(lambda: remove_tree(path), reply)

    def _on_check_shift(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        path = decode(Target, message).path
        self._answer_after(lambda: children.try_shift(path, self._shift or 0), reply)

    def _on_create(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        box = decode(Box, message)
        start = partial(run_outer_init, box, self._prepared, mode=self._mode, shift=self._shift, owner=self._owner)
        child = self._forks.start(lambda report: start(report=report), new_pids=True)
        running = Running(box, child.pid, os.pidfd_open(child.pid))

        def ready(answer: dict[str, Any] | None, descriptors: list[int]) -> None:
            if answer is None or "ready" not in answer:
                child.on_exit = lambda _: self._close(running)
                reply(answer or {"error": "the sandbox's first process died while it was built"}, [])
                return
            running.inner, running.state = descriptors
            self._running[box.name] = running
            reply({}, [])

        def died(_: int) -> None:
            running.dead = True  # out of memory, for instance; what it held is let go when it is destroyed

        child.on_report, child.on_exit = ready, died

    def _on_exec(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        command = decode(Command, message)
        running = self._running[command.name]

        def work(_: socket.socket) -> None:
            for file in command.join:
                with open(file, "w") as members:
                    members.write("0")
            self._join(running, command.phase, _SURROUNDINGS | (0 if command.host_network else CLONE_NEWNET))
            children.run_command(command, descriptors, self._shift)

        child = self._forks.start(work, running.inner if command.phase == "agent" else running.outer)
        child.on_report = lambda answer, _: reply(answer or {}, [])
        child.on_exit = lambda code: send(self._control, {"exit": command.token, "code": code})

    def _join(self, running: Running, phase: str, flags: int) -> None:
        """Enter a phase's view of the files, and the given other namespaces."""
        if phase == "agent":
            setns(running.inner, flags | CLONE_NEWNS)
            return
        if flags:
            setns(running.outer, flags)
        setns(running.view, CLONE_NEWNS)

    def _on_view(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        running = self._running[decode(Target, message).name]
        if running.view >= 0:
            reply({}, [])
            return

        def work(report: socket.socket) -> None:
            setns(running.outer, CLONE_NEWNS | CLONE_NEWNET)
            children.make_verifier_view(self._owner, report)

        def ready(answer: dict[str, Any] | None, descriptors: list[int]) -> None:
            if answer and "ready" in answer:
                running.view = descriptors[0]
                answer = {}
            reply(answer or {}, [])

        child = self._forks.start(work, running.outer)
        child.on_report = ready

    def _on_put(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        self._transfer(children.unpack_archive, message, descriptors, reply)

    def _on_get(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        self._transfer(children.pack_archive, message, descriptors, reply)

    def _transfer(
        self,
        move: Callable[[Transfer, int, int | None], None],
        message: dict[str, Any],
        descriptors: list[int],
        reply: Reply,
    ) -> None:
        transfer = decode(Transfer, message)
        running = self._running[transfer.name]

        def work() -> None:
            self._join(running, transfer.phase, 0)
            move(transfer, descriptors[0], self._shift)

        self._answer_after(work, reply)

    def _on_listen(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        target = decode(Target, message)
        running = self._running[target.name]
        child = self._forks.start(lambda report: children.open_listener(running.outer, target.port, report))

        def ready(answer: dict[str, Any] | None, descriptors: list[int]) -> None:
            reply(answer or {"error": "no listener"}, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

        child.on_report = ready

    def _on_kill(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        target = decode(Target, message)
        running = self._running[target.name]
        pids = running.inner if target.phase == "agent" else running.outer

        def work() -> None:
            setns(pids, CLONE_NEWNS)
            children.kill_everyone()

        self._answer_after(work, reply, pids)

    def _on_changes(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        running = self._running[decode(Target, message).name]
        trees = plan_trees(running.box.base, running.box.layers, self._prepared)
        self._answer_after(lambda: write_changes(running.state, trees, descriptors[0]), reply)

    def _on_snapshot(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        running = self._running[decode(Target, message).name]
        trees = plan_trees(running.box.base, running.box.layers, self._prepared)
        self._answer_after(lambda: copy_layer(running.state, trees, descriptors[0], self._owner), reply)

    def _on_size(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        running = self._running[decode(Target, message).name]
        self._answer_after(lambda: write_size(running.state, descriptors[0]), reply)

    def _on_destroy(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        running = self._running.pop(decode(Target, message).name)

        def gone(_: int) -> None:
            self._close(running)
            self._answer_after(lambda: remove_tree(running.box.state), reply)

        if running.dead:
            gone(0)
            return
        self._forks.child(running.pid).on_exit = gone
        os.kill(running.pid, signal.SIGKILL)

    @staticmethod
    def _close(running: Running) -> None:
        for descriptor in running.descriptors():
            os.close(descriptor)


def _ending(code: int) -> dict[str, Any]:
    return {} if code == 0 else {"error": f"a helper of the sandbox ended with {code}"}
