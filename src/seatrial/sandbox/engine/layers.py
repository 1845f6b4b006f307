"""A layer directory, in which overlay's own marks say what is gone, as the archive that engines take for a layer."""

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from seatrial.sandbox.api import Image
from seatrial.sandbox.overlay import is_opaque

_GONE = ".wh."
_ALL_GONE = ".wh..wh..opq"


def identify(image: Image) -> str:
    """A name for the content of an image, by what tells that a file is the same without reading it."""
    digest = hashlib.sha256(f"{image.digest} {sorted(image.config.env.items())}".encode())
    for layer in image.layers:
        digest.update(b"layer")
        for path, status in _walk(layer):
            name = os.fsencode(path.relative_to(layer))
            facts = (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns)
            digest.update(name + repr(facts).encode())
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(path.readlink()))
    return digest.hexdigest()[:32]


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a directory in order, following no link."""
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(path)


def pack_layer(layer: Path, archive: BinaryIO) -> None:
    """Pack a layer; what belongs to an ordinary user who does it belongs to root in there."""
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        for path, status in _walk(layer):
            name = path.relative_to(layer)
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                tar.addfile(tarfile.TarInfo(str(name.parent / f"{_GONE}{name.name}")))
                continue
            if stat.S_ISSOCK(status.st_mode):
                continue
            _add(tar, path, str(name))
            if stat.S_ISDIR(status.st_mode) and is_opaque(path):
                tar.addfile(tarfile.TarInfo(str(name / _ALL_GONE)))
    archive.seek(0)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    member = tar.gettarinfo(path, name)
    member.uname = member.gname = ""
    if member.uid == os.getuid():
        member.uid = member.gid = 0
    if member.isreg():
        with path.open("rb") as content:
            tar.addfile(member, content)
    else:
        tar.addfile(member)
