"""Writing so that a crash leaves all of it or nothing, and saying what to do when the disk refuses."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from seatrial.errors import StoreError, StoreFullError

_ADVICE = {
    errno.ENOSPC: "free some space, then resume the job",
    errno.EDQUOT: "free some space or raise the quota, then resume the job",
    errno.EACCES: "make it accessible for this user, then resume the job",
    errno.EPERM: "make it accessible for this user, then resume the job",
    errno.EROFS: "the file system is read-only: make it writable or use another folder",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), then resume the job",
    errno.ELOOP: "it is a link; put the file itself there",
    errno.EINVAL: "move it elsewhere, then resume the job",
    errno.EFBIG: "move it elsewhere, then resume the job",
    errno.EIO: "the disk reports errors: check it before anything else",
}

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ELOOP: "it is a link, or lies behind one, and links are not followed",
    errno.ENOTDIR: "it lies behind something that is no folder, or behind a link, and links are not followed",
    errno.ENXIO: "it is no plain file",
    errno.EACCES: "this user may not read it",
    errno.ENAMETOOLONG: "no file can have a name so long",
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


def read_plain(path: Path, limit: int) -> bytes:
    """What a file says. Raises OSError for a link, a pipe, or one that is larger than anybody wrote: a job's folder
    may be a stranger's.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        check_plain(file, limit)
        return opened.read()


def check_plain(file: int, limit: int) -> os.stat_result:
    """The status of an opened file. Raises OSError for one that is no plain file, or too large."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no plain file")
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, expected {limit:,} at most")
    return status


@contextmanager
def open_plain(path: Path, folder: Path) -> Iterator[int]:
    """The descriptor of a plain file in a stranger's folder. Only the folder itself may be a link.

    Raises StoreError that says what is in the way: no such file, a link on the path, a pipe, a way out of the folder.
    """
    try:
        file = _open(_names(path, folder), folder)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = _REASONS.get(number or 0, "its name is none that a file can have" if number is None else str(error))
        raise StoreError(f"{path}: cannot be read: {reason}") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise StoreError(f"{path}: cannot be read: it is no plain file")
        yield file
    finally:
        os.close(file)


def read_below(path: Path, folder: Path) -> bytes:
    """What a plain file below a folder says. Raises StoreError as `open_plain` does."""
    with open_plain(path, folder) as file, open(file, "rb", closefd=False) as opened:
        return opened.read()


def _names(path: Path, folder: Path) -> tuple[str, ...]:
    below = PurePath(path)
    if below.is_relative_to(folder):
        below = below.relative_to(folder)
    elif below.is_absolute():
        raise StoreError(f"{path}: cannot be read: it is not below {folder}")
    if not below.parts or ".." in below.parts:
        raise StoreError(f"{path}: cannot be read: expected the path of a file below {folder}, without `..`")
    return below.parts


def _open(names: tuple[str, ...], folder: Path) -> int:
    step = os.open(folder.resolve(), _STEP)
    try:
        for name in names[:-1]:
            step, last = os.open(name, _STEP, dir_fd=step), step
            os.close(last)
        return os.open(names[-1], _FILE, dir_fd=step)
    finally:
        os.close(step)


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
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
