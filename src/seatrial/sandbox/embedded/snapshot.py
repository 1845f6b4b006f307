"""A sandbox's changes as a new layer: a faithful copy of its writable directories, owners moved back if shifted."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

from seatrial.sandbox.embedded.changes import walk_upper
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.overlay import is_whiteout

_CHUNK = 2**24
_MOST_BYTES = 2**36  # of all files together, holes included: somebody has to read them again


def copy_layer(state: int, trees: Sequence[Tree], target: int, owner: int) -> None:
    """Copy into the directory `target` is a descriptor of; `owner` is what the sandbox's root is on this machine.

    Raises OSError for more than there is room for: a layer must not be what fills the disk.
    """
    copier = _Copier(_room(target))
    for tree in trees:
        source = f"/proc/self/fd/{state}/upper/{tree.name}"
        if not os.path.isdir(source):
            continue
        base = f"/proc/self/fd/{target}/{tree.folder or '.'}"
        os.makedirs(base, exist_ok=True)
        _copy_attributes(source, base, os.stat(source), owner)
        folders = []
        for path, status, _ in walk_upper(state, tree.name):
            if _is_device(status):
                continue  # dead inside, but it would be alive on the host
            if copier.copy(f"{source}/{path}", f"{base}/{path}", status):
                _copy_attributes(f"{source}/{path}", f"{base}/{path}", status, owner)
            if stat.S_ISDIR(status.st_mode):
                folders.append((f"{base}/{path}", status))
        for path, status in reversed(folders):  # writing into them has changed their times
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _room(target: int) -> int:
    """A little less than half of what is free: whoever keeps a layer packs it beside itself."""
    found = os.fstatvfs(target)
    return found.f_bavail * found.f_frsize * 7 // 16


def _is_device(status: os.stat_result) -> bool:
    return (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)) and not is_whiteout(status)


class _Copier:
    """Copies entries one by one, within some bytes of room; holes stay holes, and links to one file stay that."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._apparent = _MOST_BYTES
        self._linked: dict[tuple[int, int], str] = {}

    def copy(self, source: str, target: str, status: os.stat_result) -> bool:
        """Whether there is something new now, whose attributes have to be copied too."""
        if stat.S_ISDIR(status.st_mode):
            os.makedirs(target, exist_ok=True)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source), target)
        elif stat.S_ISREG(status.st_mode):
            return self._copy_file(source, target, status)
        else:
            os.mknod(target, status.st_mode, status.st_rdev)  # a whiteout, mostly
        return True

    def _copy_file(self, source: str, target: str, status: os.stat_result) -> bool:
        if status.st_nlink > 1:
            first = self._linked.setdefault((status.st_dev, status.st_ino), target)
            if first != target:
                os.link(first, target)
                return False
        self._room -= status.st_blocks * 512
        self._apparent -= status.st_size
        if self._room < 0 or self._apparent < 0:
            raise OSError(errno.EFBIG, "there is no room to keep so much")
        _copy_content(source, target, status.st_size)
        return True


def _copy_content(source: str, target: str, size: int) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for start, end in _pieces(reader):
            done = os.lseek(writer, start, os.SEEK_SET)
            while done < end and (sent := os.sendfile(writer, reader, done, min(_CHUNK, end - done))):
                done += sent
        os.ftruncate(writer, size)
    finally:
        os.close(reader)
        os.close(writer)


def _pieces(file: int) -> Iterator[tuple[int, int]]:
    """Where a file has content, from the first byte to behind the last; the rest are holes."""
    end = 0
    with suppress(OSError):  # there is none behind the last
        while True:
            start = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
            yield start, end


def _copy_attributes(source: str, target: str, status: os.stat_result, owner: int) -> None:
    os.chown(target, max(status.st_uid - owner, 0), max(status.st_gid - owner, 0), follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return
    os.chmod(target, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source, follow_symlinks=False):
        # Overlay's other notes (where a file was copied from) are about this one mount and wrong in any other.
        if ".overlay." not in name or name.endswith(".opaque"):
            os.setxattr(target, name, os.getxattr(source, name, follow_symlinks=False), follow_symlinks=False)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
