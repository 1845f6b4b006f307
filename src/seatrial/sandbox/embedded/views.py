"""Having the verifier's view made and removed, as the spawner does it: a child works, and the answer waits for it.

Mostly the first command of a verifier makes it on its way.
"""

import json
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from seatrial.sandbox.embedded import children
from seatrial.sandbox.embedded.forks import Child, Forks
from seatrial.sandbox.embedded.frozen import frozen_folder
from seatrial.sandbox.embedded.roots import SpawnerSettings
from seatrial.sandbox.embedded.running import Reply, RunningSandbox
from seatrial.sandbox.embedded.view import View
from seatrial.sandbox.syscalls import CLONE_NEWNET, CLONE_NEWNS, setns

_THERE_ALREADY = {"error": "the verifier has a view already; its system cannot be copied any more"}
_NOT_COPIED = {"error": "the system could not be copied"}
_NOT_MADE = {"error": "the verifier's view could not be made"}


class Views:
    """Makes one view at a time for each sandbox. `remove` removes folders and then answers."""

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
        if curation is not None:
            if running.disk is not None:
                setns(running.disk, CLONE_NEWNS)
            said = json.loads(os.pread(curation, os.fstat(curation).st_size, 0))
            frozen, hidden = children.mount_system(running, self._manner, said), said["hidden"]
            of_system = set(running.division.of_system(said["rewritten"]))
            rewritten = {path: text for path, text in said["rewritten"].items() if path not in of_system}
        setns(running.outer, CLONE_NEWNS | CLONE_NEWNET)
        view = View(running.known, self._manner.owner, self._manner.rootless, frozen, hidden, rewritten)
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
        """Let go of a view whose processes are gone, and remove what was made for it."""
        running.leave_view()
        self._remove_frozen(running, reply)

    def _remove_frozen(self, running: RunningSandbox, reply: Reply) -> None:
        if running.frozen:
            self._remove(reply, frozen_folder(running.box.state))
        else:
            reply({}, [])
