"""Walking the writable directory of an overlay, which is a stranger's work: no link followed, no depth without end.

Every kind of sandbox that lies on an overlay learns from it what was written; whose time is short sets an allowance.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from seatrial.sandbox.overlay import is_opaque

MAX_DEPTH = 100
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SYSTEM = frozenset({"bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"})
_MANY_NAMES_BYTES = 2**16


class TooMuch(Exception):
    """There is more to look at than was allowed."""


class Allowance:
    """How many entries somebody who has little time may look at; without a number, all."""

    def __init__(self, entries: int | None = None) -> None:
        self._left = entries

    def use(self, entries: int = 1) -> None:
        """Look at some more. Raises TooMuch."""
        if self._left is not None:
            self._left -= entries
            if self._left < 0:
                raise TooMuch

    def read(self, folder: int) -> list[str]:
        """The names in a directory. Raises TooMuch for one so large that listing it takes long."""
        if self._left is not None and os.fstat(folder).st_size > _MANY_NAMES_BYTES:
            raise TooMuch
        return os.listdir(folder)


EVERYTHING = Allowance()


def walk_folder(top: int, allowance: Allowance = EVERYTHING) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Every entry of a writable directory as (relative path, status, is an opaque directory), parents first.

    What lies deeper than anybody builds by hand is left out; the directory it begins in is not.
    """
    yield from _walk(top, "", 0, allowance)


def _walk(folder: int, inside: str, depth: int, allowance: Allowance) -> Iterator[tuple[str, os.stat_result, bool]]:
    names = allowance.read(folder)
    allowance.use(len(names))
    for entry in names if depth else _telling_first(folder, names):
        with suppress(FileNotFoundError, NotADirectoryError):  # gone or replaced since the directory was read
            status = os.lstat(entry, dir_fd=folder)
            path = inside + entry
            is_folder = stat.S_ISDIR(status.st_mode)
            yield path, status, is_folder and is_opaque(f"/proc/self/fd/{folder}/{entry}")
            if is_folder and depth < MAX_DEPTH:
                below = os.open(entry, FOLDER, dir_fd=folder)
                try:
                    yield from _walk(below, f"{path}/", depth + 1, allowance)
                finally:
                    os.close(below)


def _telling_first(root: int, found: list[str]) -> list[str]:
    """The entries of a root, system folders and files before the others.

    Lists of changes are cut off somewhere: whoever fills a folder of their own must not push those out.
    """
    folders = {entry for entry in found if entry not in _SYSTEM and _is_folder(entry, root)}
    return sorted(found, key=lambda entry: (entry not in _SYSTEM, entry in folders))


def _is_folder(entry: str, parent: int) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(entry, dir_fd=parent).st_mode)
    except FileNotFoundError:
        return False
