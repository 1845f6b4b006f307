"""Trees of files that are looked into without being mounted: how links lead on within one, and what a pattern matches.

Paths within a tree start at its root, as in `/usr/bin`, and never lead out of it, whatever its links say.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from seatrial.images.building.ignore import compile_pattern

_MAX_LINKS = 40
_WILDCARDS = frozenset("*?[\\")


class FoundFile(NamedTuple):
    """Something in a tree: where on this machine it lies, and what it is."""

    place: Path
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.status.st_mode)


class FileTree(Protocol):
    """A tree of files. Both methods take paths that no link is in the way of."""

    def look(self, path: str) -> FoundFile | None:
        """What is at a path; None when there is nothing."""
        ...

    def names(self, path: str) -> list[str]:
        """The entries of a directory, sorted."""
        ...


def resolve(tree: FileTree, path: str) -> str:
    """Where a path leads when every link on the way is followed; what does not exist stays as it is written.

    Raises OSError when links lead in circles.
    """
    pending, found, links = path.split("/")[::-1], "", 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            found = found.rpartition("/")[0]
            continue
        here = tree.look(f"{found}/{part}")
        if here is None or not here.is_link:
            found = f"{found}/{part}"
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = str(here.place.readlink())
        found = "" if target.startswith("/") else found
        pending += target.split("/")[::-1]
    return found or "/"


def has_wildcards(path: str) -> bool:
    """Whether a path is a pattern."""
    return not _WILDCARDS.isdisjoint(path)


def match(tree: FileTree, pattern: str) -> list[str]:
    """The paths a pattern matches, name by name; a directory on the way may be a link. Raises ValueError."""
    found = [""]
    for part in pattern.split("/"):
        if part in ("", "."):
            continue
        if not has_wildcards(part):
            found = [f"{path}/{part}" for path in found]
            continue
        fits = compile_pattern(part.replace("**", "*")).fullmatch
        found = [f"{path}/{name}" for path in found for name in _names_behind(tree, path) if fits(name)]
    return [path for path in found if tree.look(resolve(tree, path))]


def _names_behind(tree: FileTree, path: str) -> list[str]:
    real = resolve(tree, path)
    found = tree.look(real)
    return tree.names(real) if found and found.is_folder else []


def walk(tree: FileTree, path: str) -> Iterator[tuple[str, FoundFile]]:
    """Everything below a directory, each with its path from there, parents first. Links are not followed."""
    pending = [("", name) for name in reversed(tree.names(path))]
    while pending:
        inside, name = pending.pop()
        relative = f"{inside}{name}"
        found = tree.look(f"{path.rstrip('/')}/{relative}")
        if found is None:
            continue
        yield relative, found
        if found.is_folder:
            below = tree.names(f"{path.rstrip('/')}/{relative}")
            pending += [(f"{relative}/", child) for child in reversed(below)]
