"""A sandbox's changes as an archive: packed straight from its writable directories, and stamps of all that is in them.

Nobody is at work in the sandbox meanwhile; what its agent left there is a stranger's work all the same, so no link is
followed.
"""

import json
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from seatrial.sandbox.archive import closing
from seatrial.sandbox.embedded.changes import upper_names, walk_upper
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.layer_marks import XATTR, gone_mark, refuse_large
from seatrial.sandbox.overlay import OPAQUE_MARKS, is_whiteout
from seatrial.sandbox.overlay_walk import EVERYTHING, FOLDER, MAX_DEPTH, Allowance

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_STAMPS = 50_000


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
    shape, errors = tarfile.PAX_FORMAT, "surrogateescape"
    with tarfile.open(fileobj=archive, mode="w|", format=shape, encoding="utf-8", errors=errors) as tar:
        packing = _Packing(tar, state, owner)
        for tree, path, status, opaque in entries:
            packing.add(tree, path, status, opaque=opaque)


def _entries(state: int, tree: Tree, owner: int, allowance: Allowance) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Of a writable directory, all that is in it, and itself where it differs from what lies below."""
    if tree.folder:
        own, below = os.stat(f"upper/{tree.name}", dir_fd=state), os.stat(tree.lowers[0])
        if (own.st_mode, own.st_uid - owner, own.st_gid - owner) != (below.st_mode, below.st_uid, below.st_gid):
            yield "", own, False
    yield from walk_upper(state, tree.name, allowance)


class _Packing:
    """An archive in the making; links to one file stay that."""

    def __init__(self, tar: tarfile.TarFile, state: int, owner: int) -> None:
        self._tar = tar
        self._state = state
        self._owner = owner
        self._linked: dict[tuple[int, int], str] = {}

    def add(self, tree: Tree, path: str, status: os.stat_result, *, opaque: bool) -> None:
        """Pack one entry. Devices, pipes and sockets are left out: they lead to nobody any more."""
        member = self._describe(f"{tree.folder}/{path}".strip("/"), status)
        place = f"/proc/self/fd/{self._state}/upper/{tree.name}/{path}"
        if is_whiteout(status):
            self._tar.addfile(gone_mark(member.name))
        elif stat.S_ISLNK(status.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(place)
            self._tar.addfile(member)
        elif stat.S_ISDIR(status.st_mode):
            member.type = tarfile.DIRTYPE
            member.pax_headers = {**_attributes(place), **({f"{XATTR}{OPAQUE_MARKS[0]}": "y"} if opaque else {})}
            self._tar.addfile(member)
        elif stat.S_ISREG(status.st_mode):
            self._add_file(member, place, status)

    def _add_file(self, member: tarfile.TarInfo, place: str, status: os.stat_result) -> None:
        first = self._linked.setdefault((status.st_dev, status.st_ino), member.name)
        if first != member.name:
            member.type, member.linkname = tarfile.LNKTYPE, first
            self._tar.addfile(member)
            return
        member.size, member.pax_headers = status.st_size, _attributes(place)
        with closing(os.open(place, _FILE)) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
            self._tar.addfile(member, file)

    def _describe(self, name: str, status: os.stat_result) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.mode = stat.S_IMODE(status.st_mode)
        member.uid, member.gid = max(status.st_uid - self._owner, 0), max(status.st_gid - self._owner, 0)
        member.mtime = int(status.st_mtime)  # parts of a second would take a header of their own for every file
        return member


def _attributes(place: str) -> dict[str, str]:
    """The attributes that anybody may give a file. Those of overlays are about one mount, others take rights."""
    found = {}
    with suppress(OSError):  # a file system without any
        for name in os.listxattr(place, follow_symlinks=False):
            if name.startswith("user.") and ".overlay." not in name:
                value = os.getxattr(place, name, follow_symlinks=False)
                found[f"{XATTR}{name}"] = value.decode("utf-8", "surrogateescape")
    return found


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
