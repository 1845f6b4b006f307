"""Directories of a run: locked as long as the run lives, so that a lock nobody holds marks what a crash left.

Backends keep their sandboxes in one, and scratch folders lie in one each; the next run, or `seatrial gc`, clears away.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import struct
import tempfile
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from seatrial.descriptors import raise_if_short
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.processes import Processes
from seatrial.untrusted.files import FOLDER

SANDBOXES = "run-"
CONTAINERS = "containers-"
_UNNAMED = "new-"
_TRIES = 100
_ENOUGH = "at least 64 MiB and 1,000 files to spare"  # with less, a job waits: `host/disks.py`
_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS and FS_IOC_SETFLAGS, for a long
_SET_FLAGS = 0x40086602
_TOP_DIRECTORY = 0x20000


class RunDirectory:
    """The directory of this run. Everything below it belongs to one process and dies with it.

    Its name begins with a `prefix` that tells what is in it, so that those who clear away know how to.
    """

    def __init__(self, root: Path, prefix: str = SANDBOXES) -> None:
        self.root = root
        self._prefix = prefix
        try:
            self.path, self._lock = _make(root, prefix)
        except OSError as error:
            raise unusable(root, error) from error
        if self._lock is not None:
            _spread(self._lock)

    @property
    def name(self) -> str:
        return self.path.name

    def abandoned(self) -> Generator[Path, None, None]:
        """The directories of runs that are no more. Each is locked while the caller has it, so only one cleans up."""
        return abandoned(self.root, self._prefix)

    def release(self) -> None:
        """Give up the lock; the directory itself is the backend's to remove."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def abandoned(root: Path, prefix: str = SANDBOXES) -> Generator[Path, None, None]:
    """The directories below a root that runs of ours left which are no more, locked one at a time.

    Also those of runs that were killed before their directory had its name.
    """
    ours = re.compile(rf"(?:{_UNNAMED})?{prefix}[0-9]+-[0-9a-f]{{8}}")
    for path in sorted(path for path in root.glob(f"*{prefix}*") if ours.fullmatch(path.name)):
        lock = _lock(path)
        if lock is None:
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                yield path
        finally:
            os.close(lock)


def _make(root: Path, prefix: str) -> tuple[Path, int | None]:
    """A new directory, and what locks it where the file system can.

    Locked before it has its name: by its name, others would take a run that is not locked for a dead one. Before that
    they may do so too; then another is made.
    """
    for _ in range(_TRIES):
        path = root / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}"
        unnamed = root / f"{_UNNAMED}{path.name}"
        unnamed.mkdir(mode=0o700)
        lock: int | None = None
        try:
            lock = _lock_own(unnamed)
            unnamed.rename(path)
        except (FileNotFoundError, BlockingIOError):  # somebody is clearing it away
            if lock is not None:
                os.close(lock)
            continue
        return path, lock
    raise SandboxError(f"{root}: a directory for this run was removed {_TRIES} times while it was being made")


def _lock_own(path: Path) -> int | None:
    """A locked descriptor of a directory, None where nothing can be locked. Raises when somebody else has it."""
    descriptor = os.open(path, FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


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
        return _lock_own(path)
    except OSError:
        return None


def unusable(root: Path, error: OSError) -> HostUnsupportedError:
    """What to tell when nothing can be put where sandboxes are kept. Raises the error if it is about something else."""
    raise_if_short(error)
    elsewhere = "set SEATRIAL_STATE_DIR to a directory"
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        why = error.strerror or str(error)
        return HostUnsupportedError(f"{root}, where sandboxes are kept, cannot be used: {why}; {elsewhere} of your own")
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    found = os.statvfs(there)
    left = f"{found.f_bavail * found.f_frsize:,} bytes free"
    if found.f_files:
        left += f" and room for {found.f_favail:,} files"
    quota = ", and a quota is used up" if error.errno == errno.EDQUOT else ""
    return HostUnsupportedError(
        f"{root}, where sandboxes are kept, is full ({left}{quota}); make room there, `seatrial gc` removes what "
        f"killed runs left, or {elsewhere} with {_ENOUGH}"
    )


def state_root() -> Path:
    """Where runs keep their files: $SEATRIAL_STATE_DIR, else a directory of our own below /var/tmp.

    Raises HostUnsupportedError when it cannot be used.
    """
    chosen = os.environ.get("SEATRIAL_STATE_DIR")
    root = Path(chosen) if chosen else Path(f"/var/tmp/seatrial-{os.getuid()}")  # noqa: S108 - made for this user alone
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
    except OSError as error:
        raise unusable(root, error) from error
    if status.st_uid != os.getuid() or any(character in str(root) for character in ":,\\ "):
        raise HostUnsupportedError(
            f"{root} belongs to somebody else or has a character that overlay mounts cannot take (colon, comma, "
            "backslash, space); set SEATRIAL_STATE_DIR to a directory of your own"
        )
    return root.resolve()


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was removed of killed runs, and what is still there, by name."""

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Whole sentences about what could not be tried."""

    def __add__(self, other: "Cleared") -> "Cleared":
        problems = (*self.problems, *other.problems)
        return Cleared((*self.removed, *other.removed), (*self.left, *other.left), problems)


def look_again(paths: Iterable[Path]) -> Cleared:
    """Which of those paths have gone by now, and which have not."""
    known = list(paths)
    there = {path for path in known if path.exists()}
    return Cleared(
        tuple(str(path) for path in known if path not in there), tuple(str(path) for path in known if path in there)
    )


_PREFIX = "seatrial-scratch-"
ROOT_VARIABLE = "SANDBOX_ROOT"
"""By this variable, which names its folder, a plain process belongs to a sandbox that is none."""


class Scratch:
    """A folder that is gone with the block or with `remove`; below the directory for temporary files, unless given.

    It lies in a folder of its own, which is locked while we live and tells others when we do not any more.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._run = RunDirectory(directory or Path(tempfile.gettempdir()), _PREFIX)
        self._folder = tempfile.TemporaryDirectory(prefix="", dir=self._run.path)

    @property
    def path(self) -> Path:
        return Path(self._folder.name)

    def remove(self) -> None:
        """Remove it. Raises OSError when that cannot be done."""
        self._folder.cleanup()
        self._run.path.rmdir()
        self._run.release()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # whoever comes next removes it
            self.remove()


async def sweep_scratch(directory: Path | None = None) -> list[Path]:
    """Remove what killed processes of ours left, and end what they left running in it; returns what has gone."""
    removed = []
    for path in abandoned(directory or Path(tempfile.gettempdir()), _PREFIX):
        for folder in path.iterdir():
            await Processes(f"{ROOT_VARIABLE}={folder.resolve()}").end_all()
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            removed.append(path)
    return removed
