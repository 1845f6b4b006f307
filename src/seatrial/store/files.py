"""Writing so that a crash leaves all of it or nothing, saying what to do when the disk refuses, and the lock of a job.

What a job's folder means is in `job_store.py`; reading what strangers wrote in `untrusted/files.py`.
"""

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from seatrial.errors import JobError, StoreError, StoreFullError
from seatrial.untrusted.files import CREATE, READ, read_file

JOB = "job.json"
"""What tells the folder of a job from any other."""

_ADVICE = {
    errno.ENOSPC: "free some space, then resume the job",
    errno.EDQUOT: "free some space or raise the quota, then resume the job",
    errno.EACCES: "make it accessible for this user, then resume the job",
    errno.EPERM: "make it accessible for this user, then resume the job",
    errno.EROFS: "the file system is read-only: make it writable or use another folder",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), then resume the job",
    errno.ELOOP: "it is a link; put the file itself there",
    errno.EISDIR: "move it elsewhere, then resume the job",
    errno.ENXIO: "move it elsewhere, then resume the job",
    errno.EFBIG: "move it elsewhere, then resume the job",
    errno.EIO: "the disk reports errors: check it before anything else",
}


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses in this block into a StoreError with the path and what to do."""
    try:
        yield
    except OSError as error:
        raise store_error(path, error) from error


def store_error(path: Path, error: OSError) -> StoreError:
    """The StoreError for a refusal of the operating system."""
    advice = _ADVICE.get(error.errno or 0, "check the file system, then resume the job")
    kind = StoreFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
    return kind(f"{path}: cannot be stored or read: {error.strerror or error}; {advice}")


def create_file(path: str, content: bytes, mode: int = 0o666) -> None:
    """Write a file that is not there yet, and see it safely on the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(file, content)
        os.fsync(file)
    except OSError:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - on the path of every trial; half of it would be in the way of another try
        raise
    finally:
        os.close(file)


def write_all(file: int, content: bytes) -> None:
    """Write every byte; a full disk may take only some of them before it says so."""
    while content:
        content = content[os.write(file, content) :]


def replace_file(path: Path, content: bytes) -> None:
    """Give a file new content, all at once."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of another when the block ends well; otherwise nothing has changed."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)  # left by a crash
    try:
        with _open_draft(draft) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not os.path.lexists(draft):
                _give_name(file, draft)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _open_draft(draft: Path) -> BinaryIO:
    """A file without a name, of which nothing is left if we are killed; with its name where there are none without."""
    if Path("/proc/self/fd").is_dir():
        with suppress(OSError):
            file = os.open(draft.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
            return os.fdopen(file, "w+b")
    return draft.open("xb")


def _give_name(file: BinaryIO, draft: Path) -> None:
    """Name a file that has none; where the file system has no hard links, name a copy of it."""
    try:
        os.link(f"/proc/self/fd/{file.fileno()}", draft, src_dir_fd=0)  # only with a folder, links are followed
    except OSError:
        file.seek(0)
        with draft.open("xb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fsync(copy.fileno())


def sync_folder(path: Path | str) -> None:
    """See the names in a folder safely on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sync_file_system(path: Path) -> None:
    """See all that was written to the file system that a folder is on safely on the disk."""
    import ctypes  # noqa: PLC0415 - hardly anybody needs it

    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        os.sync()
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if sync(folder):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(folder)


def sync_files(root: str) -> list[str]:
    """See every file below a folder safely on the disk. Returns the folders, whose names are still to be seen to.

    What is there may come from strangers: pipes and links are left alone, files that may not be read are trusted.
    """
    folders = [root]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with suppress(PermissionError):
                        sync_file(entry.path)
    return folders


def sync_file(path: str) -> None:
    """See a file safely on the disk; never waits for the other end of a pipe, never follows a link."""
    file = os.open(path, READ)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def remove_tree(root: Path) -> None:
    """Remove a folder that may hold folders without permissions; one that is gone already is fine."""

    def open_up(remove: Callable[..., Any], path: str, reason: tuple[Any, BaseException, Any]) -> None:
        if isinstance(reason[1], FileNotFoundError):
            return
        if not isinstance(reason[1], PermissionError):
            raise reason[1]
        place = Path(path)
        for folder in (place.parent, place):
            if stat.S_ISDIR(folder.lstat().st_mode):
                folder.chmod(0o700)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()

    shutil.rmtree(root, onerror=open_up)


# One run at a time: a lock on the job's folder that ends with the process that holds it.

_FILE = ".lock"
_LOCKS = Path("/proc/locks")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a job's folder. Raises JobError that names the process when another one holds it."""
    path = folder / _FILE
    with storing(path):
        # Not by way of a link: the folder may be a stranger's, and what is opened here is overwritten.
        file = os.open(path, os.O_RDWR | CREATE, 0o666)
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
        return int(read_file(path, 20))
    except (OSError, ValueError):
        return None
