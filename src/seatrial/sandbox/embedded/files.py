"""The file work of the spawner: archives, changes, layers, sizes and removal, for `FileWork` to answer when it is done.

Little work the spawner does at once by itself, the rest in a child. Which entries differ from the image is found in
`changes.py`, layers are written in `layers.py`.
"""

import errno
import fcntl
import io
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from seatrial.errors import SandboxError, TooLargeError
from seatrial.sandbox.archives import Manner, closing, pack, unpack
from seatrial.sandbox.embedded import children
from seatrial.sandbox.embedded.changes import MAX_ENTRIES, remember_files, upper_names, walk_upper, write_changes
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.layers import copy_layer, write_layer, write_stamps
from seatrial.sandbox.embedded.protocol import Transfer
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.embedded.running import Reply, RunningSandbox
from seatrial.sandbox.layers import MAX_DEPTH, Allowance, TooMuch
from seatrial.sandbox.syscalls import open_within
from seatrial.untrusted.files import FOLDER

_DONE: dict[str, Any] = {}


class FileWork:
    """Each operation answers when it is done. `owner` is what root inside is on this machine."""

    def __init__(self, forks: Forks, owner: int) -> None:
        self._forks = forks
        self._owner = owner

    def put(self, running: RunningSandbox, transfer: Transfer, archive: int, reply: Reply) -> None:
        manner: Manner = "small layer" if transfer.manner == "layer" else "files"
        if deliver(running.root_of(transfer.phase), transfer.path, archive, self._owner, manner):
            reply(_DONE, [])
        else:
            self._transfer(children.unpack_archive, running, transfer, archive, reply)

    def get(self, running: RunningSandbox, transfer: Transfer, archive: int, reply: Reply) -> None:
        """Fill an archive. Raises FileNotFoundError."""
        if fetch(running.root_of(transfer.phase), transfer.path, archive, transfer.limit, self._owner):
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
        def work() -> None:
            running.join("agent", 0)
            if running.shows_outer_proc:  # no command has ever run there
                os.write(target, b"[]")
            else:
                children.list_processes(target)

        self.answer_after(work, reply, [target, *running.descriptors()])

    def tell_changes(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        if tell_changes(running.state, running.trees, target):
            reply(_DONE, [])
            return
        work = partial(write_changes, running.state, running.trees, MAX_ENTRIES, target)
        self.answer_after(work, reply, [running.state, target])

    def save_layer(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        work = partial(copy_layer, running.state, running.trees, target, self._owner)
        self.answer_after(work, reply, [running.state, target])

    def pack_layer(self, running: RunningSandbox, transfer: Transfer, archive: int, reply: Reply) -> None:
        if pack_layer(running.state, running.trees, self._owner, archive, transfer.limit):
            reply(_DONE, [])
            return

        def work() -> None:
            with os.fdopen(os.dup(archive), "wb") as file:
                write_layer(running.state, running.trees, self._owner, file, transfer.limit)

        self.answer_after(work, reply, [running.state, archive])

    def tell_stamps(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        if tell_stamps(running.state, running.trees, target):
            reply(_DONE, [])
            return
        self.answer_after(partial(write_stamps, running.state, running.trees, target), reply, [running.state, target])

    def tell_size(self, running: RunningSandbox, target: int, reply: Reply) -> None:
        if tell_size(running.state, target):
            reply(_DONE, [])
            return
        # It complains about what vanishes meanwhile; what it has counted is the answer all the same.
        child = self._forks.run(measurement(), {1: target, _MEASURED: running.state})
        child.on_exit = lambda _: reply(_DONE, [])

    def remove(self, reply: Reply, *paths: str, remains: Sequence[str] = ()) -> None:
        """Remove directories that nobody uses any more; `remains` are what is mostly in them, and all there is."""
        left = [path for path in paths if not remove(path, remains)]
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


# Small work, in the spawner: a child would cost ten times as much. Everything goes by descriptors and stays within a
# sandbox's root. What would take long, and whatever goes wrong, is given up in time; then a child does the same from
# the start, with only the rights of root inside.

_SMALL_BYTES = 2**18  # of an archive, in which a file takes 512 or more
_FEW_ENTRIES = 500
_INSIDE = os.O_RDONLY | os.O_DIRECTORY
_TROUBLE = (OSError, SandboxError, TooMuch)


def fetch(root: int, path: str, archive: int, limit: int, first_id: int = 0) -> bool:
    """Pack a path of a sandbox, where `first_id` is root; False when a child has to. Raises FileNotFoundError."""
    folder, _, name = path.rstrip("/").rpartition("/")
    if name in ("", ".", ".."):
        return False
    try:
        with closing(open_within(root, folder or "/", _INSIDE)) as parent, os.fdopen(os.dup(archive), "wb") as file:
            pack(name, file, min(limit, _SMALL_BYTES), parent, first_id)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except _TROUBLE:
        os.ftruncate(archive, 0)
        os.lseek(archive, 0, os.SEEK_SET)
        return False
    return True


def deliver(root: int, path: str, archive: int, first_id: int, manner: Manner = "files") -> bool:
    """Unpack an archive below a directory of a sandbox, where `first_id` is root; False when a child has to."""
    if os.fstat(archive).st_size > _SMALL_BYTES:
        return False
    try:
        with closing(open_within(root, path, _INSIDE)) as folder, os.fdopen(os.dup(archive), "rb") as file:
            unpack(file, folder, first_id, manner)
    except _TROUBLE:
        os.lseek(archive, 0, os.SEEK_SET)
        return False
    return True


def tell_changes(state: int, trees: Sequence[Tree], target: int) -> bool:
    """Write what differs from the image to a descriptor; False when a child has to."""
    try:
        write_changes(state, trees, MAX_ENTRIES, target, Allowance(_FEW_ENTRIES))
    except _TROUBLE:
        return False
    return True


def pack_layer(state: int, trees: Sequence[Tree], owner: int, target: int, limit: int) -> bool:
    """Pack what differs from the image into a file, or a pipe that nobody may read from; False when a child has to.

    Only as much as a pipe holds: the spawner must not wait for a reader. Raises TooLargeError.
    """
    archive, room = io.BytesIO(), _SMALL_BYTES
    with suppress(OSError):  # no pipe
        room = min(room, fcntl.fcntl(target, fcntl.F_GETPIPE_SZ))
    try:
        write_layer(state, trees, owner, archive, min(limit, room), Allowance(_FEW_ENTRIES))
    except TooLargeError:
        if limit <= room:
            raise
        return False
    except _TROUBLE:
        return False
    if len(archive.getbuffer()) > room:
        return False
    os.write(target, archive.getbuffer())
    return True


def tell_stamps(state: int, trees: Sequence[Tree], target: int) -> bool:
    """Write the stamps of what differs from the image to a descriptor; False when a child has to."""
    try:
        write_stamps(state, trees, target, Allowance(_FEW_ENTRIES))
    except _TROUBLE:
        return False
    return True


def remember(state: int) -> bool:
    """Note what is there now, so that it does not count as anybody's change any more; False when a child has to."""
    try:
        remember_files(state, Allowance(_FEW_ENTRIES))
    except _TROUBLE:
        return False
    return True


def tell_size(state: int, target: int) -> bool:
    """Write how many KiB a sandbox takes on its disk to a descriptor, the way `du` does; False when that has to."""
    allowance, blocks = Allowance(_FEW_ENTRIES), {}
    try:
        for name in upper_names(state):
            top = os.stat(f"upper/{name}", dir_fd=state)
            found = [("", top), *((path, status) for path, status, _ in walk_upper(state, name, allowance))]
            if any(path.count("/") >= MAX_DEPTH for path, _ in found):
                return False
            blocks.update({status.st_ino: status.st_blocks for _, status in found})  # a file with two names counts once
    except _TROUBLE:
        return False
    os.write(target, b"%d\t" % (sum(blocks.values()) // 2))
    return True


def remove(path: str, remains: Sequence[str] = ()) -> bool:
    """Remove a directory that nobody uses any more; False when something of it is left.

    What is known to remain in most of them goes first, without a look into any folder.
    """
    try:
        with closing(os.open(path, FOLDER)) as folder:
            for name in remains:
                with suppress(OSError):
                    _discard(name, folder)
            _empty(folder, Allowance(_FEW_ENTRIES))
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except _TROUBLE:
        return False
    return True


def _empty(folder: int, allowance: Allowance, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise TooMuch
    names = allowance.read(folder)
    allowance.use(len(names))
    for name in names:
        try:
            _discard(name, folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            with closing(os.open(name, FOLDER, dir_fd=folder)) as below:
                _empty(below, allowance, depth + 1)
            os.rmdir(name, dir_fd=folder)


def _discard(name: str, parent: int) -> None:
    """Remove a file or an empty directory, of which there are more."""
    try:
        os.rmdir(name, dir_fd=parent)
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)


# Programs of the host for what is left: no recursive function survives a few thousand directories inside each other,
# and a loop that does, without ever following a planted link, has been written often enough.

_MEASURED = 3
"""The number under which `measurement` has a sandbox's directory open."""

_REMOVE = shutil.which("rm") or "/bin/rm"
_MEASURE = shutil.which("du") or "/usr/bin/du"


def removal(*paths: str) -> list[str]:
    return [_REMOVE, "-rf", "--one-file-system", "--", *paths]


def measurement() -> list[str]:
    """The command that prints how many KiB of disk a sandbox's writable directories take."""
    return [_MEASURE, "-skx", f"/proc/self/fd/{_MEASURED}/upper"]
