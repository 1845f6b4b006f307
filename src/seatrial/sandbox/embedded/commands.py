"""How the spawner starts commands, listening sockets and the verifier's view of sandboxes: one child for each."""

import json
import os
import resource
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from seatrial.sandbox.embedded import children, files
from seatrial.sandbox.embedded.boxes import Boxes
from seatrial.sandbox.embedded.changes import keep_origin, remember_files
from seatrial.sandbox.embedded.forks import Child, Forks
from seatrial.sandbox.embedded.frozen import frozen_folder
from seatrial.sandbox.embedded.protocol import CommandRequest, Target
from seatrial.sandbox.embedded.roots import SpawnerSettings, mount_proc
from seatrial.sandbox.embedded.running import Reply, RunningSandbox
from seatrial.sandbox.embedded.view import View
from seatrial.sandbox.syscalls import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUTS, setns

_THERE_ALREADY = {"error": "the verifier has a view already; its system cannot be copied any more"}
_NOT_COPIED = {"error": "the system could not be copied"}
_NOT_MADE = {"error": "the verifier's view could not be made"}


class Views:
    """Makes the verifier's view of a sandbox and removes it; mostly a verifier's first command makes it on its way.

    `remove` removes folders and then answers.
    """

    def __init__(self, forks: Forks, remove: Callable[..., None], manner: SpawnerSettings) -> None:
        self._forks = forks
        self._remove = remove
        self._manner = manner

    def copy(self, running: RunningSandbox, target: int, reply: Reply, *, still: bool) -> None:
        """Copy the system of a sandbox without a view, and write what the agent did to it to a descriptor.

        `still` if nothing of the agent runs.
        """
        if running.view >= 0:
            reply(_THERE_ALREADY, [])
            return
        running.frozen += 1
        keep = [target, *running.descriptors()]
        child = self._forks.start(lambda _: children.copy_system(running, target, still=still), keep=keep)
        complaints: list[dict[str, Any]] = []
        child.on_report = lambda answer, _: complaints.append(answer) if answer else None

        def copied(code: int) -> None:
            if code == 0:
                reply({}, [])
            else:
                self._remove_frozen(running, lambda *_: reply(complaints[0] if complaints else _NOT_COPIED, []))

        child.on_exit = copied

    def make(self, running: RunningSandbox, system: str, curation: int, reply: Reply) -> None:
        """Make the view of a sandbox that has none, with its system as it is or as it was `copied` last.

        What is not to be in it is read from a descriptor.
        """
        if running.view >= 0:
            reply({} if system == "live" else _THERE_ALREADY, [])
            return
        curated = curation if system == "copied" else None
        keep = [curation, *running.descriptors(), *([] if self._manner.shift is None else [self._manner.shift])]
        child = self._forks.start(
            lambda report: self.enter(running, (), report, curated), keep=keep, pids=running.outer
        )
        left_out = self.expect(running, child)

        def ready(answer: dict[str, Any] | None, _: list[int]) -> None:
            if running.view >= 0:
                reply({"left_out": left_out[0]}, [])
            else:
                self._remove_frozen(running, lambda *_: reply(answer or _NOT_MADE, []))

        child.on_report = ready

    def enter(
        self, running: RunningSandbox, keep: Iterable[int], report: socket.socket, curation: int | None = None
    ) -> None:
        """Make the view and enter it, in a child which has nothing else open then but what it is to `keep`.

        With a descriptor `curation` its system is the copied one, less what that says.
        """
        frozen, hidden, rewritten = None, [], {}
        if running.disk is not None:
            setns(running.disk, CLONE_NEWNS)
        temporary = children.make_temporary_folder(running, self._manner.owner)
        if curation is not None:
            said = json.loads(os.pread(curation, os.fstat(curation).st_size, 0))
            frozen, hidden = children.mount_system(running, self._manner, said), said["hidden"]
            of_system = set(running.division.of_system(said["rewritten"]))
            rewritten = {path: text for path, text in said["rewritten"].items() if path not in of_system}
        setns(running.outer, CLONE_NEWNS | CLONE_NEWNET)
        manner, workdir = self._manner, running.box.workdir
        view = View(running.known, workdir, temporary, manner.owner, manner.rootless, frozen, hidden, rewritten)
        children.make_verifier_view(view, keep, report)

    def expect(self, running: RunningSandbox, child: Child) -> list[int]:
        """Take over the view that a child makes; what is returned then says how many entries were left out of it."""
        left_out: list[int] = []

        def made(news: dict[str, Any], descriptors: list[int]) -> None:
            running.view, running.view_root = descriptors
            left_out.append(news["left_out"])

        child.on_news = made
        return left_out

    def leave(self, running: RunningSandbox, reply: Reply) -> None:
        """Let go of a view whose processes are gone, and remove what was made for it.

        What is left on a disk of the sandbox's own goes with that disk.
        """
        temporary = [] if running.disk is not None or running.view < 0 else [running.temporary]
        running.leave_view()
        self._remove_frozen(running, reply, *temporary)

    def _remove_frozen(self, running: RunningSandbox, reply: Reply, *others: str) -> None:
        frozen = [frozen_folder(running.box.state)] if running.frozen else []
        if frozen or others:
            self._remove(reply, *frozen, *others)
        else:
            reply({}, [])


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
    return command.remember and not files.remember(running.state)


def _ending(running: RunningSandbox, token: str, code: int) -> dict[str, Any]:
    """How a command ended; as lost when it or what it needs ended with a first process that nobody had told to end."""
    ending: dict[str, Any] = {"exit": token, "code": code}
    return {**ending, "lost": _LOST} if running.has_lost_an_init(code) else ending
