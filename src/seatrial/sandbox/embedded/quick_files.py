"""Small file work that the spawner does itself: a child for it would cost ten times as much as the work.

Everything goes by descriptors and stays within a sandbox's root. What would take long, and whatever goes wrong, is
given up in time; then a child does the same from the start, at its leisure and with only the rights of root inside.
"""

import errno
import fcntl
import io
import os
from collections.abc import Sequence
from contextlib import suppress

from seatrial.errors import SandboxError, TooLargeError
from seatrial.sandbox.archive import closing, pack
from seatrial.sandbox.embedded.changes import MAX_ENTRIES, remember_files, upper_names, walk_upper, write_changes
from seatrial.sandbox.embedded.layer_archive import write_layer, write_stamps
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.overlay_walk import FOLDER, MAX_DEPTH, Allowance, TooMuch
from seatrial.sandbox.syscalls import open_within
from seatrial.sandbox.unpacking import Manner, unpack

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
