"""What the spawner has done with the files of its sandboxes: at once by itself if it is little, else by a child."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from seatrial.sandbox.embedded import children, quick_files
from seatrial.sandbox.embedded.changes import MAX_ENTRIES, write_changes
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.layer_archive import write_layer, write_stamps
from seatrial.sandbox.embedded.programs import FOLDER, measurement, removal
from seatrial.sandbox.embedded.requests import Transfer
from seatrial.sandbox.embedded.running import Reply, RunningSandbox
from seatrial.sandbox.embedded.snapshot import copy_layer
from seatrial.sandbox.unpacking import Manner

_DONE: dict[str, Any] = {}


class FileWork:
    """Each operation answers when it is done. `owner` is what root inside is on this machine."""

    def __init__(self, forks: Forks, owner: int) -> None:
        self._forks = forks
        self._owner = owner

    def put(self, running: RunningSandbox, transfer: Transfer, archive: int, reply: Reply) -> None:
        """Unpack an archive."""
        manner: Manner = "small layer" if transfer.manner == "layer" else "files"
        if quick_files.deliver(running.root_of(transfer.phase), transfer.path, archive, self._owner, manner):
            reply(_DONE, [])
        else:
            self._transfer(children.unpack_archive, running, transfer, archive, reply)

    def get(self, running: RunningSandbox, transfer: Transfer, archive: int, reply: Reply) -> None:
        """Fill an archive. Raises FileNotFoundError."""
        if quick_files.fetch(running.root_of(transfer.phase), transfer.path, archive, transfer.limit, self._owner):
            reply(_DONE, [])
        else:
            self._transfer(children.pack_archive, running, transfer, archive, reply)

    def _transfer(
        self,
        move: Callable[[Transfer, int, int | None], None],
        running: RunningSandbox,
        transfer: Transfer,
        archive: int,
        reply: Reply,
    ) -> None:
        def work() -> None:
            running.join(transfer.phase, 0)
            move(transfer, archive, running.users)

        self.answer_after(work, reply, [archive, *running.descriptors()])

    def list_processes(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        """Write the names of the agent's processes to a descriptor."""

        def work() -> None:
            running.join("agent", 0)
            if running.shows_outer_proc:  # no command has ever run there
                os.write(target, b"[]")
            else:
                children.list_processes(target)

        self.answer_after(work, reply, [target, *running.descriptors()])

    def tell_changes(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        """Write what differs from the image to a descriptor."""
        if quick_files.tell_changes(running.state, running.trees, target):
            reply(_DONE, [])
            return
        work = partial(write_changes, running.state, running.trees, MAX_ENTRIES, target)
        self.answer_after(work, reply, [running.state, target])

    def save_layer(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        """Copy what differs from the image into a directory."""
        work = partial(copy_layer, running.state, running.trees, target, self._owner)
        self.answer_after(work, reply, [running.state, target])

    def pack_layer(self, running: RunningSandbox, transfer: Transfer, archive: int, reply: Reply) -> None:
        """Pack what differs from the image into a pipe or file."""
        if quick_files.pack_layer(running.state, running.trees, self._owner, archive, transfer.limit):
            reply(_DONE, [])
            return

        def work() -> None:
            with os.fdopen(os.dup(archive), "wb") as file:
                write_layer(running.state, running.trees, self._owner, file, transfer.limit)

        self.answer_after(work, reply, [running.state, archive])

    def tell_stamps(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        """Write the stamps of what differs from the image to a descriptor."""
        if quick_files.tell_stamps(running.state, running.trees, target):
            reply(_DONE, [])
            return
        self.answer_after(partial(write_stamps, running.state, running.trees, target), reply, [running.state, target])

    def tell_size(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        """Write how much disk space a sandbox takes to a descriptor."""
        if quick_files.tell_size(running.state, target):
            reply(_DONE, [])
            return
        # It complains about what vanishes meanwhile; what it has counted is the answer all the same.
        child = self._forks.run(measurement(), {1: target, FOLDER: running.state})
        child.on_exit = lambda _: reply(_DONE, [])

    def remove(self, reply: Reply, *paths: str, remains: Sequence[str] = ()) -> None:
        """Remove directories that nobody uses any more; `remains` are what is mostly in them, and all there is."""
        left = [path for path in paths if not quick_files.remove(path, remains)]
        if not left:
            reply(_DONE, [])
            return
        try:
            child = self._forks.run(removal(*left), {})
        except OSError as error:  # a machine out of memory or processes: what is left, the next run removes
            reply({"error": f"cannot remove {' '.join(left)}: {error}", "errno": error.errno}, [])
            return
        child.on_exit = lambda code: reply(_ending(code), [])

    def answer_after(self, work: Callable[[], None], reply: Reply, keep: Iterable[int] = ()) -> None:
        """Let a child do something, and answer when it has ended: with its complaint if it had one."""
        complaints: list[dict[str, Any]] = []
        child = self._forks.start(lambda _: work(), keep=keep)
        child.on_report = lambda message, _: complaints.append(message) if message else None
        child.on_exit = lambda code: reply(complaints[0] if complaints else _ending(code), [])


def _ending(code: int) -> dict[str, Any]:
    if code == 0:
        return {}
    how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
    return {"error": f"a helper process of the sandbox {how}"}
