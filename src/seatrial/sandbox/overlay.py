"""Layers as overlayfs reads them, for whoever looks into their directories: marks of what is gone, and what is on top.

No link is ever followed here. A layer is a stranger's, and its links lead to places of this machine.
"""

import os
import stat
from collections.abc import Sequence

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
        if settled:
            return found
    return None


def _look_into(layer: str, parts: Sequence[str]) -> tuple[str | None, bool]:
    """Where a layer has something, and whether layers below have no say in it."""
    current = layer
    for index, part in enumerate(parts):
        parent, current = current, f"{current}/{part}"
        try:
            status = os.lstat(current)
        except OSError:
            return None, bool(index) and is_opaque(parent)
        if is_whiteout(status):
            return None, True
        if not stat.S_ISDIR(status.st_mode) and index < len(parts) - 1:
            return None, True
    return current, True
