"""One run at a time: a lock on the job's folder that ends with the process that holds it, and a look at who does."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.errors import JobError
from seatrial.store.files import read_plain, storing

_FILE = ".lock"
_LOCKS = Path("/proc/locks")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a job's folder. Raises JobError that names the process when another one holds it."""
    path = folder / _FILE
    with storing(path):
        # Not by way of a link: the folder may be a stranger's, and what is opened here is overwritten.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with storing(path):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
                raise JobError(
                    f"{folder}: another run (pid {holder}) is working on this job; wait for it or stop it"
                ) from None
            os.ftruncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def holder_of(folder: Path) -> int | None:
    """The process that holds the lock of a job's folder; None where none does, or none that can be seen from here.

    The kernel's own list is read and the lock is left alone: a run asks for it once, at its start, and to try it out
    just then, if only for a moment and together with others, would make that run fail.
    """
    path = folder / _FILE
    try:
        status, table = os.lstat(path), _LOCKS.read_text("ascii")
    except (OSError, UnicodeError):
        return None
    holders = dict(_holders(table, status.st_ino))
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    if device in holders:
        return holders[device]
    # Some file systems name other devices to programs than to the kernel; there the process wrote who it is.
    return next((pid for pid in holders.values() if pid == _written(path)), None)


def _holders(table: str, inode: int) -> Iterator[tuple[str, int]]:
    """By device, who holds a lock of the kind that runs take on a file of this number."""
    for line in table.splitlines():
        fields = line.split()  # 1: FLOCK  ADVISORY  WRITE 23371 fe:00:2195457 0 EOF
        if len(fields) == 8 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            yield fields[5].rpartition(":")[0], int(fields[4])


def _written(path: Path) -> int | None:
    try:
        return int(read_plain(path, 20))
    except (OSError, ValueError):
        return None
