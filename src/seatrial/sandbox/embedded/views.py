"""Having the verifier's view made and removed, as the spawner does it: a child works, and the answer waits for it.

Mostly the first command of a verifier makes it on its way.
"""

import socket
from collections.abc import Callable, Iterable
from typing import Any

from seatrial.sandbox.embedded import children
from seatrial.sandbox.embedded.forks import Child, Forks
from seatrial.sandbox.embedded.frozen import frozen_folder
from seatrial.sandbox.embedded.roots import Manner
from seatrial.sandbox.embedded.running import Reply, Running
from seatrial.sandbox.embedded.syscalls import CLONE_NEWNET, CLONE_NEWNS, setns
from seatrial.sandbox.embedded.view import View

_THERE_ALREADY = {"error": "the verifier has a view already; its system cannot be frozen any more"}
_NOT_MADE = {"error": "the verifier's view could not be made"}


class Views:
    """Makes one view at a time for each sandbox. `remove` removes folders and then answers."""

    def __init__(self, forks: Forks, remove: Callable[..., None], manner: Manner) -> None:
        self._forks = forks
        self._remove = remove
        self._manner = manner

    def make(self, running: Running, system: str, target: int, reply: Reply) -> None:
        """Make the view of a sandbox that has none, its system `frozen` or not; `target` takes what there is to say."""
        if running.view >= 0:
            reply({} if system == "live" else _THERE_ALREADY, [])
            return
        running.frozen += system == "frozen"
        freeze = target if system == "frozen" else None
        keep = [target, *running.descriptors(), *([] if self._manner.shift is None else [self._manner.shift])]
        child = self._forks.start(lambda report: self.enter(running, (), report, freeze), keep=keep, pids=running.outer)
        left_out = self.expect(running, child)

        def ready(answer: dict[str, Any] | None, _: list[int]) -> None:
            if running.view >= 0:
                reply({"left_out": left_out[0]}, [])
            else:
                self._remove_frozen(running, lambda *_: reply(answer or _NOT_MADE, []))

        child.on_report = ready

    def enter(self, running: Running, keep: Iterable[int], report: socket.socket, freeze: int | None = None) -> None:
        """Make the view and enter it, in a child which has nothing else open then but what it is to `keep`.

        With a descriptor `freeze` its system is frozen, and what that differs in from the image is written there.
        """
        frozen = None if freeze is None else children.freeze_system(running, self._manner, freeze)
        setns(running.outer, CLONE_NEWNS | CLONE_NEWNET)
        view = View(running.known, self._manner.owner, self._manner.rootless, frozen)
        children.make_verifier_view(view, keep, report)

    def expect(self, running: Running, child: Child) -> list[int]:
        """Take over the view that a child makes; what is returned then says how many entries were left out of it."""
        left_out: list[int] = []

        def made(news: dict[str, Any], descriptors: list[int]) -> None:
            running.view, running.view_root = descriptors
            left_out.append(news["left_out"])

        child.on_news = made
        return left_out

    def leave(self, running: Running, reply: Reply) -> None:
        """Let go of a view whose processes are gone, and remove what was made for it."""
        running.leave_view()
        self._remove_frozen(running, reply)

    def _remove_frozen(self, running: Running, reply: Reply) -> None:
        if running.frozen:
            self._remove(reply, frozen_folder(running.box.state))
        else:
            reply({}, [])
