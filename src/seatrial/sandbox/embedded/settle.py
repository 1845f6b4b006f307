"""Settling into a new root: the folders a trial needs, and the files that name the machine."""

import os

from seatrial.sandbox.embedded.requests import Box

_FOLDERS = ("/logs/agent", "/logs/artifacts")


def settle_in(box: Box, owner: int, name_servers: str) -> None:
    """Make folders and files, owned by `owner`, who is root inside. The root has been entered already."""
    for folder in (box.workdir, *_FOLDERS):
        _make_folder(folder, owner)
    for folder in _FOLDERS:
        os.chmod(folder, 0o777)
    _make_folder("/etc", owner)
    _write_anew("/etc/hostname", f"{box.hostname}\n", owner)
    _write_anew("/etc/resolv.conf", name_servers, owner)  # for commands on the host's network
    _write_anew("/etc/hosts", f"127.0.0.1 localhost {box.hostname}\n::1 localhost\n", owner)


def _make_folder(path: str, owner: int) -> None:
    current = ""
    for part in filter(None, path.split("/")):
        current = f"{current}/{part}"
        if not os.path.isdir(current):
            os.mkdir(current, 0o755)
            os.chown(current, owner, owner)


def _write_anew(path: str, text: str, owner: int) -> None:
    """Replace a file of the image, or the link in its place; a root that takes no writes keeps what it has."""
    try:
        if os.path.lexists(path):
            os.unlink(path)
        write_text(path, text, os.O_CREAT | os.O_EXCL)
        os.chown(path, owner, owner)
    except OSError:
        return


def read_text(path: str) -> str:
    """A small file, empty when it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def write_text(path: str, text: str, flags: int = 0) -> None:
    """Write a file in one go."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
