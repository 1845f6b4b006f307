"""This machine's system as an ordinary user can change it in a sandbox.

In a user namespace, what belongs to the host's root belongs to nobody, and nobody's folder takes no new files. A layer
with the same folders, owned by the user, makes them writable: overlay takes owner and mode from the topmost one.
Settings are copied, to be edited; any other file can be removed and replaced, but not be written to in place.
"""

import os
import shutil
import stat
from collections import deque
from contextlib import suppress
from typing import NamedTuple

_MOST_FOLDERS = 4000  # each has to be made for every run
_LARGEST_SETTING = 2**20


class _Part(NamedTuple):
    """How much of a folder becomes the user's own: so many levels, with its files or without."""

    depth: int
    files: bool = False


_PARTS = {
    "usr/local": _Part(100),
    "usr/lib/python3": _Part(1),
    "usr": _Part(2),
    "opt": _Part(100),
    "etc": _Part(100, files=True),
}


def make_own_system(layers: str) -> None:
    """Make below `layers` the folders of the system that are to be the user's own; what is there already stays."""
    for folder, part in _PARTS.items():
        if os.path.isdir(f"/{folder}"):
            os.makedirs(f"{layers}/{folder}", exist_ok=True)
            _own(f"/{folder}", f"{layers}/{folder}", part)


def _own(source: str, target: str, part: _Part) -> None:
    """Level by level: of a folder with too much in it, what lies deepest is left out."""
    waiting = deque([(source, target, 0)])
    made = 0
    while waiting and made < _MOST_FOLDERS:
        folder, own, depth = waiting.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            os.chmod(own, stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and depth < part.depth:
                    if _made(entry.path, f"{own}/{entry.name}"):
                        made += 1
                        waiting.append((entry.path, f"{own}/{entry.name}", depth + 1))
                elif part.files and entry.is_file(follow_symlinks=False):
                    _copy(entry, f"{own}/{entry.name}")


def _made(folder: str, own: str) -> bool:
    """Whether there is a folder of the user's own now. One that the user may not read would make it unreadable."""
    if not os.access(folder, os.R_OK | os.X_OK):
        return False
    with suppress(FileExistsError):
        os.mkdir(own)
    return stat.S_ISDIR(os.lstat(own).st_mode)  # it may be hidden by a mask


def _copy(entry: os.DirEntry[str], own: str) -> None:
    readable = entry.stat(follow_symlinks=False).st_size <= _LARGEST_SETTING and os.access(entry.path, os.R_OK)
    if readable and not os.path.lexists(own):
        shutil.copy2(entry.path, own, follow_symlinks=False)
