"""Starting commands in sandboxes, and listening sockets: what the spawner's children for these do, step by step."""

import os
import resource
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from seatrial.sandbox.embedded import children, quick_files
from seatrial.sandbox.embedded.boxes import Boxes
from seatrial.sandbox.embedded.changes import keep_origin, remember_files
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.requests import CommandRequest, Target
from seatrial.sandbox.embedded.rootfs import mount_proc
from seatrial.sandbox.embedded.roots import SpawnerSettings
from seatrial.sandbox.embedded.running import Reply, RunningSandbox
from seatrial.sandbox.embedded.views import Views
from seatrial.sandbox.syscalls import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWUTS, setns

_SURROUNDINGS = CLONE_NEWIPC | CLONE_NEWUTS
_LOST = "the first process of the sandbox was killed from outside, or by the kernel out of memory, while a command ran"

TellExit = Callable[[dict[str, Any]], None]


class Commands:
    """Starts commands; `tell_exit` hears how each ended."""

    def __init__(self, forks: Forks, views: Views, boxes: Boxes, manner: SpawnerSettings, tell_exit: TellExit) -> None:
        self._forks = forks
        self._views = views
        self._boxes = boxes
        self._manner = manner
        self._tell_exit = tell_exit

    def start(self, command: CommandRequest, descriptors: list[int], reply: Reply) -> None:
        """Start a command; answers once it runs. A verifier's first one makes the verifier's view on its way."""
        running = self._boxes[command.name]
        in_new_view = command.phase == "verifier" and running.view < 0
        enter = self._enter_new_view if in_new_view else self._enter
        left_to_remember = _remember(running, command)

        def work(report: socket.socket) -> None:
            if left_to_remember:
                remember_files(running.state)
            enter(running, command, descriptors, report)
            resource.setrlimit(resource.RLIMIT_NOFILE, self._manner.open_files)
            children.run_command(command, descriptors, running.users, report.fileno())

        child = self._forks.start(
            work,
            keep=[*descriptors, *running.descriptors()],
            pids=running.inner if command.phase == "agent" else running.outer,
            join=() if in_new_view else command.join,
            may_stop=True,
        )
        left_out = self._views.expect(running, child) if in_new_view else []
        child.on_report = lambda answer, _: reply(answer or {"left_out": sum(left_out)}, [])
        child.on_exit = lambda code: self._tell_exit(_ending(running, command.token, code))

    def _enter(self, running: RunningSandbox, command: CommandRequest, _: list[int], __: socket.socket) -> None:
        running.join(command.phase, _surroundings(command))
        if command.phase == "agent" and running.shows_outer_proc:
            mount_proc("/proc", shifted=self._manner.shifts, rootless=self._manner.rootless)

    def _enter_new_view(
        self, running: RunningSandbox, command: CommandRequest, descriptors: list[int], report: socket.socket
    ) -> None:
        # It joins the sandbox's groups only then: whoever has used up its memory must not prevent the view.
        groups = [os.open(file, os.O_WRONLY | os.O_CLOEXEC) for file in command.join]
        users = [] if running.users is None else [running.users]
        self._views.enter(running, [*descriptors, running.outer, *users, *groups], report)
        for group in groups:
            os.write(group, b"0")
        setns(running.outer, _surroundings(command))

    def listen(self, target: Target, _: list[int], reply: Reply) -> None:
        """Open a listening socket inside; answers with it."""
        running = self._boxes[target.name]
        child = self._forks.start(partial(children.open_listener, running.outer, target.port), keep=[running.outer])

        def ready(answer: dict[str, Any] | None, descriptors: list[int]) -> None:
            reply(answer or {"error": "no listener"}, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

        child.on_report = ready


def _surroundings(command: CommandRequest) -> int:
    return _SURROUNDINGS | (0 if command.host_network else CLONE_NEWNET)


def _remember(running: RunningSandbox, command: CommandRequest) -> bool:
    """Note what is there before the agent comes, if the command is its first; whether a child has to do it."""
    if command.remember and running.begun:
        keep_origin(running.state)
    running.begun |= command.remember
    return command.remember and not quick_files.remember(running.state)


def _ending(running: RunningSandbox, token: str, code: int) -> dict[str, Any]:
    """How a command ended; as lost when it or what it needs ended with a first process that nobody had told to end."""
    ending: dict[str, Any] = {"exit": token, "code": code}
    return {**ending, "lost": _LOST} if running.has_lost_an_init(code) else ending
