"""Removing a sandbox's directory, whatever its inhabitants made of it."""

import shutil

# A program, because no recursive function survives a few thousand directories inside each other.
_REMOVE = shutil.which("rm") or "/bin/rm"


def removal(path: str) -> list[str]:
    """The command that removes a directory and all in it."""
    return [_REMOVE, "-rf", "--one-file-system", "--", path]
