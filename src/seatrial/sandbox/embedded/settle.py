"""Settling into a new root: the folders a trial needs, and the files that name the machine.

Most of it is the same in every sandbox, so it lies ready in a shared layer; what an image has otherwise is then
corrected in each sandbox. Every entry made there costs time to make, and more to remove.
"""

import os
import stat
from contextlib import suppress

from seatrial.sandbox.embedded.requests import Box

_FOLDERS = ("/logs/agent", "/logs/artifacts", "/logs/verifier")
_MOUNT_POINTS = ("/proc", "/sys", "/dev")
_USUAL_HOSTNAME = "sandbox"


def make_basics(layer: str) -> None:
    """Fill a layer with what every root needs."""
    for folder in (*_MOUNT_POINTS, "/etc", *_FOLDERS):
        os.makedirs(layer + folder, exist_ok=True)
    for folder in _FOLDERS:
        os.chmod(layer + folder, 0o777)
    name_machine(layer)


def name_machine(layer: str) -> None:
    """Put the files that name the machine into a layer, as most sandboxes have them, in place of what is there."""
    for path, text in _names(_USUAL_HOSTNAME, read_text("/etc/resolv.conf")).items():
        _put_in_place(layer + path, text)


def lock_passwords(layer: str) -> None:
    """Put a table into a layer in which each user of the host has a password that cannot be given.

    Without one, `su` lets not even root become somebody else.
    """
    names = [line.partition(":")[0] for line in read_text("/etc/passwd").splitlines()]
    _put_in_place(f"{layer}/etc/shadow", "".join(f"{name}:*:1:0:99999:7:::\n" for name in names if name))
    os.chmod(f"{layer}/etc/shadow", 0o600)


def _put_in_place(path: str, text: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # it may stand for a file of the host that is masked
    write_text(path, text, os.O_CREAT | os.O_EXCL)


def _names(hostname: str, name_servers: str) -> dict[str, str]:
    return {
        "/etc/hostname": f"{hostname}\n",
        "/etc/resolv.conf": name_servers,  # for commands on the host's network
        "/etc/hosts": f"127.0.0.1 localhost {hostname}\n::1 localhost\n",
    }


def settle_in(box: Box, owner: int, name_servers: str) -> None:
    """Make folders and files that are missing, owned by `owner`, who is root inside. The root has been entered."""
    for folder in (box.workdir, "/etc", *_FOLDERS):
        _make_folder(folder, owner)
    for folder in _FOLDERS:
        if stat.S_IMODE(os.stat(folder).st_mode) != 0o777:
            os.chmod(folder, 0o777)
    for path, text in _names(box.hostname, name_servers).items():
        if not _is_file_with(path, text):
            _write_anew(path, text, owner)


def _is_file_with(path: str, text: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        expected = text.encode()
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, len(expected) + 1) == expected
    finally:
        os.close(descriptor)


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
    """A small file, empty when it cannot be read. Not by `open`, whose machinery costs more in a fresh child."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 65536).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def write_text(path: str, text: str, flags: int = 0) -> None:
    """Write a file in one go."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
