"""How overlayfs marks in a layer what is not there any more: for whoever reads a layer's directory itself."""

import os
import stat

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
