"""A sandbox's changes as a new layer: a faithful copy of its writable directories, owners moved back if shifted."""

import os
import stat
from collections.abc import Sequence

from seatrial.sandbox.embedded.changes import walk_upper
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.overlay import is_whiteout

_CHUNK = 2**24


def copy_layer(state: int, trees: Sequence[Tree], target: int, owner: int) -> None:
    """Copy into the directory `target` is a descriptor of; `owner` is what the sandbox's root is on this machine."""
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
            _copy_entry(f"{source}/{path}", f"{base}/{path}", status)
            _copy_attributes(f"{source}/{path}", f"{base}/{path}", status, owner)
            if stat.S_ISDIR(status.st_mode):
                folders.append((f"{base}/{path}", status))
        for path, status in reversed(folders):  # writing into them has changed their times
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _is_device(status: os.stat_result) -> bool:
    return (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)) and not is_whiteout(status)


def _copy_entry(source: str, target: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        os.makedirs(target, exist_ok=True)
    elif stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(status.st_mode):
        _copy_file(source, target)
    else:
        os.mknod(target, status.st_mode, status.st_rdev)  # a whiteout, mostly


def _copy_file(source: str, target: str) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        while os.sendfile(writer, reader, None, _CHUNK):
            pass
    finally:
        os.close(reader)
        os.close(writer)


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
