"""Which of some files are opened while a command runs, by whomever and by whatever name.

The kernel reports it (inotify): opens and executions alike, through overlays and from other namespaces, at no cost for
what is not opened. Watches belong to files and not to names. They are placed where the command sees its files, in a
process which has no more rights there than the command, and the events are read by the process that runs the sandbox.
Nothing is imported here that a forked child would have to look up.
"""

import json
import os
import posixpath
import re
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if sys.platform == "linux":  # inotify is Linux
    from seatrial.sandbox import syscalls

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_IN_OPEN = 0x20
_IN_Q_OVERFLOW = 0x4000
_IN_ONLYDIR = 0x1000000
_IN_DONT_FOLLOW = 0x2000000
_IN_ISDIR = 0x40000000
_IN_ONESHOT = 0x80000000
_FILE = _IN_OPEN | _IN_ONESHOT
_FOLDER = _IN_OPEN | _IN_ONLYDIR
_BY_PROC = re.compile(r"/*proc/")
_ROOT_BY_PROC = re.compile(r"^/proc/[^/]+/root(?:/|$)")
_EVENT = struct.Struct("=iIII")
# Each file gives two events at most, and the kernel keeps 16,384 of them for us.
_MOST_FILES = 6000
_MOST_LINKS = 2000
_MOST_HOPS = 40
_READ_BYTES = 2**16


class Watched(NamedTuple):
    """What to watch, by absolute paths as the command sees them: files, and folders with all that is directly in them.

    Where there are very many files, their folders are watched instead.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...] = ()


class Opened(NamedTuple):
    """What was opened: files by all their names, and whatever was in folders.

    `links` are those of the watched paths that are links, with where they led. Unless `complete`, more may have been.
    """

    files: frozenset[str]
    links: dict[str, str]
    complete: bool


_UNKNOWN = Opened(frozenset(), {}, complete=False)


class Opens:
    """An inotify instance with a list of what to watch; both descriptors go to the process that places the watches."""

    def __init__(self, watched: Watched) -> None:
        """Raises OSError where there is no instance to be had."""
        self._seen: set[tuple[int, str]] = set()
        self._complete = True
        self.instance = syscalls.start_inotify()
        self.listing = os.memfd_create("watched")
        with os.fdopen(self.listing, "w", closefd=False) as file:
            json.dump(_few(watched), file)

    @property
    def descriptors(self) -> tuple[int, int]:
        return self.instance, self.listing

    def read(self) -> None:
        """Take in what has happened so far."""
        with suppress(BlockingIOError):
            while True:
                for number, events, name in _events(os.read(self.instance, _READ_BYTES)):
                    self._complete &= not events & _IN_Q_OVERFLOW
                    if events & _IN_OPEN and not events & _IN_ISDIR:
                        self._seen.add((number, name))

    def finish(self) -> Opened | None:
        """What was opened; None where no watch was ever placed."""
        self.read()
        placed = json.loads(os.pread(self.listing, os.fstat(self.listing).st_size, 0))
        if "paths" not in placed:
            return None
        names: dict[str, list[str]] = placed["paths"]
        found = [(path, name) for number, name in self._seen for path in names.get(str(number), ())]
        files = {f"{path.rstrip('/')}/{name}" if name else path for path, name in found}
        files |= {path for path, name in found if name and path in placed["links"]}
        return Opened(frozenset(files), placed["links"], self._complete and placed["complete"])

    def close(self) -> None:
        os.close(self.instance)
        os.close(self.listing)


@contextmanager
def reading_opens(watched: Watched | None, loop: "AbstractEventLoop") -> Iterator[Opens | None]:
    """Watches for the length of a block, read as events come; None where nothing is to be watched, or can be."""
    try:
        opens = Opens(watched) if watched and sys.platform == "linux" else None
    except OSError:  # this user has no instance left
        opens = None
    if opens is None:
        yield None
        return
    loop.add_reader(opens.instance, opens.read)
    try:
        yield opens
    finally:
        loop.remove_reader(opens.instance)
        # The kernel makes the one that closes an instance wait for 15 ms, until its watches are out of use.
        loop.run_in_executor(None, opens.close)


def opened(watched: Watched | None, opens: Opens | None) -> Opened | None:
    """What was opened in such a block; None where nothing was to be watched, or cannot be on such a machine.

    Without an instance anything may have been: an agent may hold all of them, which its user has in common with us.
    """
    if opens is None:
        return _UNKNOWN if watched and sys.platform == "linux" else None
    return opens.finish()


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    start = 0
    while start < len(data):
        number, events, _, length = _EVENT.unpack_from(data, start)
        start += _EVENT.size
        yield number, events, data[start : start + length].rstrip(b"\0").decode("utf-8", "backslashreplace")
        start += length


def _few(watched: Watched) -> dict[str, Any]:
    """The same with folders for those that have the most files, so that few watches do.

    Of files by whose folders is watched, it is only looked up whether they are links.
    """
    by_folder: dict[str, list[str]] = {}
    for path in watched.files:
        by_folder.setdefault(path.rpartition("/")[0] or "/", []).append(path)
    files, folders = list(watched.files), list(watched.folders)
    if len(files) > _MOST_FILES:
        ordered = sorted(by_folder, key=lambda folder: len(by_folder[folder]))
        files = []
        while ordered and len(files) + len(by_folder[ordered[0]]) <= _MOST_FILES:
            files += by_folder[ordered.pop(0)]
        folders += ordered
    # A name that is no text is known with its odd bytes written out: only its folder can be watched.
    folders += sorted({path.rpartition("/")[0] or "/" for path in files if "\\" in path})
    seen = set(files)
    rest = [path for path in watched.files if path not in seen]
    return {"files": files, "folders": list(dict.fromkeys(folders)), "rest": rest}


def place_watches(instance: int, listing: int, root: int | None = None) -> None:
    """Place the watches of a list, and put in place of the list what came of it.

    In the files that this process sees, or in those below the directory `root`, which nothing leads out of.
    """
    wanted = json.loads(os.pread(listing, os.fstat(listing).st_size, 0))
    paths: dict[int, list[str]] = {}
    links: dict[str, str] = {}
    complete = True
    places = [(path, _FILE) for path in wanted["files"]] + [(path, _FOLDER) for path in wanted["folders"]]
    for path, events in [*places, *((path, 0) for path in wanted["rest"])]:
        try:
            if root is None:
                numbers, target = _watch_here(instance, path, events)
            else:
                numbers, target = _watch_below(root, instance, path, events)
        except (FileNotFoundError, NotADirectoryError):  # gone since the list was made
            continue
        except OSError:
            complete = False
            continue
        for number in numbers:
            paths.setdefault(number, []).append(path)
        if target is not None:
            links[path] = target
            complete &= len(links) < _MOST_LINKS
    os.ftruncate(listing, 0)
    os.pwrite(listing, json.dumps({"paths": paths, "links": links, "complete": complete}).encode(), 0)


def _watch_here(instance: int, path: str, events: int) -> tuple[list[int], str | None]:
    """Watch a path, unless there are no events; also returns where it leads if it is a link.

    What a link leads to is watched too: it may be an unchanged file under another name.
    """
    numbers = [syscalls.add_watch(instance, path, events | _IN_DONT_FOLLOW)] if events else []
    if events == _FOLDER or not stat.S_ISLNK(os.lstat(path).st_mode):
        return numbers, None
    with suppress(OSError):  # it leads nowhere yet
        numbers.append(syscalls.add_watch(instance, path, _FILE))
    return numbers, _shown(_by_proc(path) or os.path.realpath(path))


def _watch_below(root: int, instance: int, path: str, events: int) -> tuple[list[int], str | None]:
    """The same below a directory, where links are followed by their names alone."""
    descriptor = syscalls.open_within(root, path, os.O_PATH | os.O_NOFOLLOW)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            said = _shown(os.readlink("", dir_fd=descriptor))
            target = _ROOT_BY_PROC.sub("/", said)
            numbers = []
            with suppress(OSError):
                numbers.append(_watch_followed(root, instance, path))
            return numbers, posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return [syscalls.add_watch(instance, f"/proc/self/fd/{descriptor}", events)] if events else [], None
    finally:
        os.close(descriptor)


def _watch_followed(root: int, instance: int, path: str) -> int:
    descriptor = syscalls.open_within(root, path, os.O_PATH)
    try:
        return syscalls.add_watch(instance, f"/proc/self/fd/{descriptor}", _FILE)
    finally:
        os.close(descriptor)


def _by_proc(path: str) -> str | None:
    """Where a chain of links goes through /proc, if it does: what is there depends on who follows it."""
    for _ in range(_MOST_HOPS):
        try:
            said = _ROOT_BY_PROC.sub("/", os.readlink(path))
        except OSError:
            return None
        if _BY_PROC.match(said):
            return posixpath.normpath(said)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), said))
    return None


def _shown(path: str) -> str:
    """A path with odd bytes written out, as lists of changes have them."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
