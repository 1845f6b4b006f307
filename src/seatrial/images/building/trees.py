"""What an image has where, found in its layers without mounting them, and the digest of what is copied from a tree."""

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from seatrial.sandbox.layers import is_opaque, is_whiteout
from seatrial.tasks.build_context import FileTree, FoundFile, resolve, walk

_MAX_READ = 2**20
_HOST = Path("/")
# What the host image shows of this machine, and what it has of its own, empty.
_SHOWN = frozenset({"usr", "etc", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32"})
_OWN = frozenset({"root", "home", "run", "mnt", "srv", "tmp", "var", "proc", "sys", "dev"})


class LayerView:
    """A tree made of layers, lowest first, perhaps on top of this machine's own system."""

    def __init__(self, layers: Sequence[Path], base: Literal["empty", "host"] = "empty") -> None:
        self._tops = list(reversed(layers))
        self._base = base
        self._folders: dict[str, list[Path]] = {}

    def look(self, path: str) -> FoundFile | None:
        """What is at a path that no link is in the way of."""
        parent, _, name = path.rstrip("/").rpartition("/")
        if not name:
            top = (self._tops or [_HOST])[0]
            return FoundFile(top, top.stat())
        for folder in self._stack(parent):
            place = folder / name
            try:
                status = place.lstat()
            except FileNotFoundError:
                continue
            hidden = is_whiteout(status) or (self._is_hosts(folder) and not _is_shown(folder, name, status))
            return None if hidden else FoundFile(place, status)
        return None

    def names(self, path: str) -> list[str]:
        inside = path.rstrip("/")
        found = {entry.name for folder in self._stack(inside) for entry in folder.iterdir()}
        return sorted(name for name in found if self.look(f"{inside}/{name}"))

    def read(self, path: str) -> bytes:
        """A small file, links followed; empty when there is none. Raises OSError for one that cannot be read."""
        found = self.look(resolve(self, path))
        if found is None or not found.is_file:
            return b""
        with found.place.open("rb") as file:
            return file.read(_MAX_READ)

    def _is_hosts(self, folder: Path) -> bool:
        return self._base == "host" and not any(folder.is_relative_to(top) for top in self._tops)

    def _stack(self, path: str) -> list[Path]:
        """The directories that together are the one at a path, the topmost first."""
        if path not in self._folders:
            self._folders[path] = self._find_stack(path)
        return self._folders[path]

    def _find_stack(self, path: str) -> list[Path]:
        parent, _, name = path.rpartition("/")
        if not name:
            return self._tops + ([_HOST] if self._base == "host" else [])
        found: list[Path] = []
        for folder in self._stack(parent):
            place = folder / name
            if folder == _HOST and name not in _SHOWN:
                break
            if place.is_dir() and not place.is_symlink():
                found.append(place)
                if is_opaque(place):
                    break
            elif os.path.lexists(place):  # a file or a whiteout hides what is below it
                break
        return found


def _is_shown(folder: Path, name: str, status: os.stat_result) -> bool:
    """Whether the host image shows something of this machine: nothing that is not for everybody."""
    if folder == _HOST:
        return name in _SHOWN or name in _OWN
    if stat.S_ISDIR(status.st_mode):
        return bool(status.st_mode & 0o001)
    return stat.S_ISLNK(status.st_mode) or bool(status.st_mode & 0o004)


# Digests.


def digest_sources(tree: FileTree, paths: Iterable[str]) -> str:
    """A digest of what lies at some paths: names, kinds, permissions and content; times and owners do not count."""
    total = hashlib.sha256()
    for path in paths:
        found = tree.look(path)
        if found is None:
            continue
        _add(total, path, found)
        if found.is_folder:
            for relative, below in walk(tree, path):
                _add(total, relative, below)
    return total.hexdigest()


def _add(total: "hashlib._Hash", name: str, found: FoundFile) -> None:
    # Lengths before names: no two different trees can then feed the same bytes to the hash.
    encoded = os.fsencode(name)
    total.update(b"%d:%b%o:" % (len(encoded), encoded, found.status.st_mode))
    if found.is_link:
        target = os.fsencode(found.place.readlink())
        total.update(b"%d:%b" % (len(target), target))
    elif found.is_file:
        with found.place.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
