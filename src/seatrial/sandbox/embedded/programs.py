"""Programs of the host that handle a sandbox's directory, whatever its inhabitants made of it.

Programs, because no recursive function survives a few thousand directories inside each other, and a loop that does,
without ever following a link that was planted meanwhile, has been written often enough.
"""

import shutil

FOLDER = 3
"""The number under which `measurement` has a sandbox's directory open."""

_REMOVE = shutil.which("rm") or "/bin/rm"
_MEASURE = shutil.which("du") or "/usr/bin/du"


def removal(*paths: str) -> list[str]:
    """The command that removes directories and all in them."""
    return [_REMOVE, "-rf", "--one-file-system", "--", *paths]


def measurement() -> list[str]:
    """The command that prints how many KiB of disk a sandbox's writable directories take."""
    return [_MEASURE, "-skx", f"/proc/self/fd/{FOLDER}/upper"]
