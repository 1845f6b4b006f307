"""One run at a time: a lock on the job's folder that ends with the process that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.errors import JobError
from seatrial.store.files import storing


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a job's folder. Raises JobError that names the process when another one holds it."""
    path = folder / ".lock"
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
