"""A port to listen at, or the reason why it cannot be had."""

import errno
import os
import socket
from pathlib import Path

from seatrial.errors import UsageError

USUAL_PORT = 8765
_LISTENING = "0A"


def listen(host: str, port: int | None) -> socket.socket:
    """A socket to serve at. Without a port it is the usual one, or any other that is free.

    Raises UsageError that says why a port cannot be had, and by whom it is taken as far as that is known.
    """
    if port is None:
        try:
            return _bound(host, USUAL_PORT)
        except OSError:
            return listen(host, 0)
    try:
        return _bound(host, port)
    except OSError as error:
        why = _why(host, port, error)
        raise UsageError(f"{why}; choose another with --port, or a free one with --port 0") from None


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    listener.setblocking(False)
    return listener


def _why(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        owner = owner_of(port)
        return f"port {port} is in use" + (f" by {owner}" if owner else "")
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} is not for this user"
    return f"{host} port {port}: nobody can listen there ({error.strerror or error})"


def owner_of(port: int) -> str | None:
    """The process that listens at a port, by its number and name; None where that cannot be seen."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            owns = wanted and any(str(each.readlink()) in wanted for each in folder.iterdir())
        except OSError:
            continue
        if owns:
            pid = int(folder.parent.name)
            ours = " (this viewer)" if pid == os.getpid() else ""
            return f"process {pid}, {(folder.parent / 'comm').read_text().strip()}{ours}"
    return None


def _inodes(port: int) -> list[str]:
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        rows = (line.split() for line in lines)
        found += [row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port]
    return found
