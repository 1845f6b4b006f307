"""One directory per run of a backend, locked as long as the run lives; a lock nobody holds marks what a crash left."""

import fcntl
import os
import secrets
import struct
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from seatrial.errors import HostUnsupportedError

_PREFIX = "run-"
_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS and FS_IOC_SETFLAGS, for a long
_SET_FLAGS = 0x40086602
_TOP_DIRECTORY = 0x20000


class RunDirectory:
    """The directory of this run. Everything below it belongs to one process and dies with it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        # Locked before it has its name: by its name, others would take a run that is not locked for a dead one.
        unnamed = root / f"new-{self.path.name}"
        unnamed.mkdir(mode=0o700)
        self._lock = _lock(unnamed)
        if self._lock is not None:
            _spread(self._lock)
        unnamed.rename(self.path)

    @property
    def name(self) -> str:
        """A name no other run has."""
        return self.path.name

    def abandoned(self) -> Generator[Path, None, None]:
        """The directories of runs that are no more. Each is locked while the caller has it, so only one cleans up."""
        for path in sorted(self.root.glob(f"{_PREFIX}*")):
            if path == self.path:
                continue
            lock = _lock(path)
            if lock is None:
                continue
            try:
                yield path
            finally:
                os.close(lock)

    def release(self) -> None:
        """Give up the lock; the directory itself is the backend's to remove."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _spread(directory: int) -> None:
    """Have ext4 put each subdirectory into a region of the disk of its own, as for homes below /home.

    In one region every new inode is searched for among those just freed: eight times slower without a journal.
    """
    with suppress(OSError):  # another file system, which needs no such hint
        flags = struct.unpack("l", fcntl.ioctl(directory, _GET_FLAGS, bytes(struct.calcsize("l"))))[0]
        fcntl.ioctl(directory, _SET_FLAGS, struct.pack("l", flags | _TOP_DIRECTORY))


def _lock(path: Path) -> int | None:
    """A locked descriptor of the directory itself, None when somebody else has it or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def state_root() -> Path:
    """Where runs keep their files: $SEATRIAL_STATE_DIR, else a directory of our own below /var/tmp."""
    chosen = os.environ.get("SEATRIAL_STATE_DIR")
    root = Path(chosen) if chosen else Path(f"/var/tmp/seatrial-{os.getuid()}")
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.stat()
    if status.st_uid != os.getuid() or any(character in str(root) for character in ":,\\ "):
        raise HostUnsupportedError(
            f"{root} belongs to somebody else or has a character that overlay mounts cannot take (colon, comma, "
            "backslash, space); set SEATRIAL_STATE_DIR to a directory of your own"
        )
    return root.resolve()
