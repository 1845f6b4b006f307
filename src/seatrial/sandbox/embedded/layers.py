"""What differs from the image, straight from a sandbox's writable directories: as an archive, as a copy, as stamps.

Nobody is at work in the sandbox meanwhile; what its agent left there is a stranger's work all the same, so no link is
followed.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from seatrial.sandbox.archives import closing, write_tar
from seatrial.sandbox.embedded.changes import upper_names, walk_upper
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.layers import EVERYTHING, MAX_DEPTH, Allowance, LayerWriter, is_users, is_whiteout, refuse_large
from seatrial.untrusted.files import FOLDER, READ

_MAX_STAMPS = 50_000
_CHUNK = 2**24
_MOST_BYTES = 2**36  # of all files together, holes included: somebody has to read them again


def write_layer(
    state: int, trees: Sequence[Tree], owner: int, archive: BinaryIO, limit: int, allowance: Allowance = EVERYTHING
) -> None:
    """Pack what differs from the image; `owner` is what root inside is on this machine.

    Raises TooLargeError before it writes anything, for more than `limit` bytes of files and headers, holes included.
    """
    there = set(upper_names(state))
    entries = [
        (tree, path, status, opaque)
        for tree in trees
        if tree.name in there
        for path, status, opaque in _entries(state, tree, owner, allowance)
    ]
    contents = sum(status.st_size for _, _, status, _ in entries if stat.S_ISREG(status.st_mode))
    refuse_large(contents, len(entries), limit)

    def inside(status: os.stat_result) -> tuple[int, int]:
        return max(status.st_uid - owner, 0), max(status.st_gid - owner, 0)

    with write_tar(archive, "w|") as tar:
        layer = LayerWriter(tar, marks="devices", attributes=is_users, owner=inside)
        for tree, path, status, opaque in entries:
            place = f"/proc/self/fd/{state}/upper/{tree.name}/{path}"
            layer.add(f"{tree.folder}/{path}".strip("/"), place, status, opaque=opaque)


def _entries(state: int, tree: Tree, owner: int, allowance: Allowance) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Of a writable directory, all that is in it, and itself where it differs from what lies below."""
    if tree.folder:
        own, below = os.stat(f"upper/{tree.name}", dir_fd=state), os.stat(tree.lowers[0])
        if (own.st_mode, own.st_uid - owner, own.st_gid - owner) != (below.st_mode, below.st_uid, below.st_gid):
            yield "", own, False
    yield from walk_upper(state, tree.name, allowance)


def write_stamps(state: int, trees: Sequence[Tree], target: int, allowance: Allowance = EVERYTHING) -> None:
    """Write a stamp for each entry of the writable directories to a descriptor, by path; null where there are too many.

    A directory's stamp is another one too as soon as something in it comes or goes.
    """
    found: dict[str, tuple[int, ...]] = {}
    there = set(upper_names(state))
    for tree in trees:
        if tree.name not in there:
            continue
        with closing(os.open(f"upper/{tree.name}", FOLDER, dir_fd=state)) as top:
            found[f"/{tree.folder}"] = _stamp(os.fstat(top))
        for path, status, _ in walk_upper(state, tree.name, allowance):
            found[f"/{tree.folder}/{path}".replace("//", "/")] = _stamp(status)
            if len(found) > _MAX_STAMPS or path.count("/") >= MAX_DEPTH:
                os.write(target, b"null")
                return
    with os.fdopen(os.dup(target), "w") as file:
        json.dump(found, file)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_ctime_ns)


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
    reader = os.open(source, READ)
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
