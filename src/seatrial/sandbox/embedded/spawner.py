"""The spawner: one small single-threaded process that forks every sandbox and every command in it.

It never waits for a child: reports and exits arrive as events, so that many sandboxes can be built at the same time.
Being the first process of its own pid namespace, it takes every sandbox with it when it dies, however it dies.
"""

import os
import select
import signal
import socket
from functools import partial
from typing import Any

from seatrial.sandbox.embedded import children, errands
from seatrial.sandbox.embedded.changes import keep_origin, remember_files
from seatrial.sandbox.embedded.filework import FileWork
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.frozen import frozen_folder
from seatrial.sandbox.embedded.inits import KILL_AGENT, KILL_ALL, KILL_VERIFIER, run_outer_init
from seatrial.sandbox.embedded.protocol import receive, send
from seatrial.sandbox.embedded.requests import Box, Command, Target, Transfer, decode
from seatrial.sandbox.embedded.rootfs import mount_proc
from seatrial.sandbox.embedded.roots import (
    Manner,
    plan_trees,
    prepare_host_image,
    shift_host_image,
    usual_remains,
)
from seatrial.sandbox.embedded.running import Reply, Running
from seatrial.sandbox.embedded.syscalls import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWUTS, setns
from seatrial.sandbox.embedded.views import Views

_GONE = {"error": "the sandbox's first process is gone"}
_SURROUNDINGS = CLONE_NEWIPC | CLONE_NEWUTS


class Spawner:
    """Serves requests until the control connection ends."""

    def __init__(self, control: socket.socket, manner: Manner) -> None:
        self._control = control
        self._manner = manner
        self._running: dict[str, Running] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._forks = Forks(self._poll)
        self._files = FileWork(self._forks, manner.owner)
        self._views = Views(self._forks, self._files.remove, manner)
        self._links: dict[int, Running] = {}

    def serve(self) -> None:
        """Handle events until the control connection ends, which ends everything."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._links:
                    self._on_killed(self._links[descriptor])
                    continue
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

    def _on_prepare(self, _: dict[str, Any], __: list[int], reply: Reply) -> None:
        shift, prepared = self._manner.shift, self._manner.prepared

        def ready(answer: dict[str, Any], passed: list[int]) -> None:
            if shift is not None and not answer and not self._manner.shifted:
                self._manner.shifted.update(shift_host_image(prepared, shift))
            reply(answer, passed)

        rootless = self._manner.rootless
        self._files.answer_after(lambda: prepare_host_image(prepared, rootless=rootless), ready)

    def _on_remove(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        self._files.remove(reply, decode(Target, message).path)

    def _on_check_shift(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        path, shift = decode(Target, message).path, self._manner.shift or 0
        self._files.answer_after(lambda: children.try_shift(path, shift), reply, self._shift_descriptor())

    def _shift_descriptor(self) -> list[int]:
        return [] if self._manner.shift is None else [self._manner.shift]

    def _on_create(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        box = decode(Box, message)
        trees = plan_trees(box.base, box.layers, self._manner.prepared)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keep = [theirs.fileno(), *self._shift_descriptor()]
        child = self._forks.start(lambda _: run_outer_init(box, trees, self._manner, theirs), keep=keep, new_pids=True)
        theirs.close()
        running = Running(box, trees, child.pid, ours)
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

    def _on_killed(self, running: Running) -> None:
        """An outer init has done as told: built the sandbox, or killed and made the agent's namespaces anew."""
        try:
            received = receive(running.link)
        except ConnectionResetError:  # it was killed before it had read all our orders
            received = None
        if received is None:  # it has ended; its exit says the rest
            self._poll.unregister(running.link)
            del self._links[running.link.fileno()]
            return
        message, descriptors = received
        if running.inner >= 0:
            os.close(running.inner)
        running.inner = descriptors[0]
        if "ready" in message:
            running.proc = message["proc"]
            for name, descriptor in zip(message["ready"], descriptors[1:], strict=True):
                setattr(running, name, descriptor)
            try:
                running.look_around()
            except OSError as error:
                running.complaint = {"error": str(error), "errno": error.errno, "kind": type(error).__name__}
                os.kill(running.pid, signal.SIGKILL)
                return
            self._running[running.box.name] = running
        running.kills.pop(0)({}, [])

    def _fail_kills(self, running: Running, answer: dict[str, Any]) -> None:
        waiting, running.kills = running.kills, []
        for reply in waiting:
            reply(answer, [])
        if running.box.name not in self._running:
            self._close(running)

    def _on_exec(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        command = decode(Command, message)
        running = self._running[command.name]

        surroundings = _SURROUNDINGS | (0 if command.host_network else CLONE_NEWNET)
        in_new_view = command.phase == "verifier" and running.view < 0
        if command.remember and running.begun:
            keep_origin(running.state)
        running.begun |= command.remember
        left_to_remember = command.remember and not errands.remember(running.state)

        def work(report: socket.socket) -> None:
            if left_to_remember:
                remember_files(running.state)
            if in_new_view:
                # It joins the sandbox's groups only then: whoever has used up its memory must not prevent the view.
                groups = [os.open(file, os.O_WRONLY | os.O_CLOEXEC) for file in command.join]
                users = [] if running.users is None else [running.users]
                self._views.enter(running, [*descriptors, running.outer, *users, *groups], report)
                for group in groups:
                    os.write(group, b"0")
                setns(running.outer, surroundings)
            else:
                running.join(command.phase, surroundings)
                if command.phase == "agent" and running.shows_outer_proc:
                    mount_proc("/proc", shifted=self._manner.shifts)
            children.run_command(command, descriptors, running.users, report.fileno())

        keep = [*descriptors, *running.descriptors()]
        pids = running.inner if command.phase == "agent" else running.outer
        child = self._forks.start(work, keep=keep, pids=pids, join=() if in_new_view else command.join)
        left_out = self._views.expect(running, child) if in_new_view else []
        child.on_report = lambda answer, _: reply(answer or {"left_out": sum(left_out)}, [])
        child.on_exit = lambda code: send(self._control, {"exit": command.token, "code": code})

    def _on_copy(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        target = decode(Target, message)
        self._views.copy(self._running[target.name], descriptors[0], reply, still=target.system == "still")

    def _on_view(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        target = decode(Target, message)
        self._views.make(self._running[target.name], target.system, descriptors[0], reply)

    def _on_put(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        transfer = decode(Transfer, message)
        self._files.put(self._running[transfer.name], transfer, descriptors[0], reply)

    def _on_get(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        transfer = decode(Transfer, message)
        self._files.get(self._running[transfer.name], transfer, descriptors[0], reply)

    def _on_processes(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        self._files.list_processes(self._running[decode(Target, message).name], descriptors[0], reply)

    def _on_changes(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        self._files.tell_changes(self._running[decode(Target, message).name], descriptors[0], reply)

    def _on_snapshot(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        self._files.save_layer(self._running[decode(Target, message).name], descriptors[0], reply)

    def _on_size(self, message: dict[str, Any], descriptors: list[int], reply: Reply) -> None:
        self._files.tell_size(self._running[decode(Target, message).name], descriptors[0], reply)

    def _on_listen(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        target = decode(Target, message)
        running = self._running[target.name]
        listen = partial(children.open_listener, running.outer, target.port)
        child = self._forks.start(listen, keep=[running.outer])

        def ready(answer: dict[str, Any] | None, descriptors: list[int]) -> None:
            reply(answer or {"error": "no listener"}, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

        child.on_report = ready

    def _on_kill(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        target = decode(Target, message)
        running = self._running[target.name]
        if running.dead:
            reply(_GONE, [])
            return
        running.kills.append(reply)
        running.link.send(KILL_AGENT if target.phase == "agent" else KILL_ALL)

    def _on_renew(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        running = self._running[decode(Target, message).name]
        if running.dead:
            reply(_GONE, [])
            return

        def renewed(answer: dict[str, Any], passed: list[int]) -> None:
            self._views.leave(running, lambda *_: reply(answer, passed))

        running.kills.append(renewed)
        running.link.send(KILL_VERIFIER)

    def _on_destroy(self, message: dict[str, Any], _: list[int], reply: Reply) -> None:
        running = self._running.pop(decode(Target, message).name)

        def gone(_: int) -> None:
            self._fail_kills(running, {"error": "the sandbox has been destroyed"})
            self._close(running)
            state, remains = running.box.state, usual_remains(running.trees)
            self._files.remove(reply, state, frozen_folder(state), remains=remains)

        if running.dead:
            gone(0)
            return
        self._forks.child(running.pid).on_exit = gone
        os.kill(running.pid, signal.SIGKILL)

    def _close(self, running: Running) -> None:
        """Let go of everything that keeps a sandbox's namespaces and mounts alive."""
        if running.closed:
            return
        running.closed = True
        if running.link.fileno() in self._links:
            self._poll.unregister(running.link)
            del self._links[running.link.fileno()]
        running.link.close()
        for descriptor in running.descriptors():
            os.close(descriptor)
