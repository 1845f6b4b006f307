"""Removing a sandbox's directory, including what its owner made unreadable."""

import os
import shutil
import stat


def remove_tree(path: str) -> None:
    """Remove a directory and all in it; overlay leaves some behind that not even their owner may enter."""
    if os.geteuid() != 0 or not os.access(path, os.W_OK):
        _open_up(path)
    shutil.rmtree(path, onerror=_open_up_and_retry)


def _open_up(path: str) -> None:
    for folder, folders, _ in os.walk(path):
        for name in folders:
            child = f"{folder}/{name}"
            mode = os.lstat(child).st_mode
            if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                os.chmod(child, 0o700)


def _open_up_and_retry(function: object, path: str, _: object) -> None:
    if not os.path.lexists(path):
        return
    os.chmod(os.path.dirname(path), 0o700)
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        shutil.rmtree(path)
    else:
        os.unlink(path)
