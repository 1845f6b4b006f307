"""Layers as overlayfs reads them, for whoever looks into their directories: marks of what is gone, and what is on top.

No link is ever followed here. A layer is a stranger's, and its links lead to places of this machine.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

OPAQUE_MARKS = ("trusted.overlay.opaque", "user.overlay.opaque")


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of a layer stands for something that was removed."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(folder: str | os.PathLike[str]) -> bool:
    """Whether a directory of a layer hides all that layers below have in it."""
    for mark in OPAQUE_MARKS:
        try:
            if os.getxattr(folder, mark, follow_symlinks=False) == b"y":
                return True
        except OSError:
            continue
    return False


def find_in_layers(layers: Sequence[str], path: str) -> str | None:
    """Where a path of an image lies on this machine: `layers` has the topmost first, and the first to know it decides.

    None for what is not in the image, and for what can only be reached through a link.
    """
    parts = path.strip("/").split("/")
    for layer in layers:
        found, settled = _look_into(layer, parts)
        if settled or (layer is not layers[-1] and _hides_below(layer, parts[:-1])):
            return found
    return None


def _look_into(layer: str, parts: Sequence[str]) -> tuple[str | None, bool]:
    """Where a layer has something, and whether what it has there, or on the way, leaves layers below no say in it."""
    current = layer
    for index, part in enumerate(parts):
        current = f"{current}/{part}"
        try:
            status = os.lstat(current)
        except OSError:
            return None, False
        if is_whiteout(status):
            return None, True
        if not stat.S_ISDIR(status.st_mode) and index < len(parts) - 1:
            return None, True
    return current, True


def _hides_below(layer: str, parts: Sequence[str]) -> bool:
    """Whether a folder of a layer, or one that it is in, hides what layers below have there; not if it has none."""
    return any(is_opaque("/".join([layer, *parts[:depth]])) for depth in range(1, len(parts) + 1))


def names_in_layers(layers: Sequence[str], folder: str) -> frozenset[str]:
    """The names of what an image has in a folder that no link leads to; `layers` has the topmost first."""
    parts = folder.strip("/").split("/")
    seen: dict[str, bool] = {}
    for layer in layers:
        place, settled = _look_into(layer, parts)
        if place and stat.S_ISDIR(os.lstat(place).st_mode):
            for name, is_there in _entries(place):
                seen.setdefault(name, is_there)
            settled = False
        if settled or (layer is not layers[-1] and _hides_below(layer, parts)):
            break
    return frozenset(name for name, is_there in seen.items() if is_there)


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    """The entries of a folder of a layer, and whether each is there or a mark of what is not."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_usual = entry.is_symlink() or entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
            yield entry.name, is_usual or not is_whiteout(entry.stat(follow_symlinks=False))
