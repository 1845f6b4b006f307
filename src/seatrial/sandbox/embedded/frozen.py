"""A copy of what the agent did to the system, which it cannot change.

The agent's processes may be at work meanwhile, renaming and replacing what is copied. So everything goes by descriptors
and no link is ever followed. The copy is laid out like a sandbox's state: `changes.py` can tell what is in it, and that
is what counts, not what was there before or after.
"""

import errno
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from seatrial.errors import ContentError, TooLargeError
from seatrial.sandbox.division import Division, Test, is_dot
from seatrial.sandbox.embedded.changes import (
    MAX_ENTRIES,
    ORIGIN,
    START,
    find_changes,
    read_start,
    stamp,
    upper_names,
    walk_upper,
)
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.layers import MAX_DEPTH, OPAQUE_MARKS, is_whiteout, shown
from seatrial.sandbox.sonames import is_searched, read_soname
from seatrial.untrusted.files import FOLDER, NEW_FILE, READ

_MEETING_POINTS = "meeting-points.json"
_MAX_BYTES = 4 * 2**30
_MAX_MEETING_POINTS = 1000
_CHUNK = 2**24
# Overlay's other notes (where a file was copied from) are about one mount and wrong in any other.
_OVERLAY_NOTES = (".opaque", ".redirect", ".metacopy")
# Not a folder, a link, or not a link any more; or renamed, so that it comes up twice.
_ANOTHER_BY_NOW = (errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.EEXIST)


def frozen_folder(state: str) -> str:
    """Where the copy of a sandbox's system goes: beside its state, since it must not use up the agent's disk space."""
    return f"{state}.frozen"


def freeze(state: int, trees: Sequence[Tree], division: Division, folder: str, *, still: bool) -> None:
    """Copy what the agent did to the system into a new folder. Raises ContentError for what cannot be copied.

    While all is `still`, because nothing of the agent runs, a second name for a file is as good as a copy.
    """
    copying = _Copying(read_start(state, ORIGIN), division.copied, may_link=still)
    os.makedirs(f"{folder}/upper")
    for tree in trees:
        try:
            source = os.open(f"upper/{tree.name}", FOLDER, dir_fd=state)
        except FileNotFoundError:
            continue  # shown read-only, so nothing can have changed
        os.mkdir(f"{folder}/upper/{tree.name}")
        target = os.open(f"{folder}/upper/{tree.name}", FOLDER)
        copying.copy_tree(tree, source, target)
        os.close(source)
        os.close(target)
    folders = {tree.name: tree.folder for tree in trees}
    points = (key.partition("/") for key in copying.meeting_points[:_MAX_MEETING_POINTS])
    for name, content in (
        (START, copying.untouched),
        (_MEETING_POINTS, [f"/{folders[name]}/{path}" for name, _, path in points]),
    ):
        with open(f"{folder}/{name}", "w") as file:
            json.dump(content, file)


def start_over(folder: str, trees: Sequence[Tree]) -> None:
    """Make a copy in which nothing is, in place of whatever there is."""
    shutil.rmtree(folder, ignore_errors=True)
    for tree in trees:
        os.makedirs(f"{folder}/upper/{tree.name}", exist_ok=True)
    with open(f"{folder}/{_MEETING_POINTS}", "w") as file:
        json.dump([], file)


def shared_within(folder: str, division: Division, workdir: str) -> list[str]:
    """The paths in a copied system that have to be shared nevertheless: the task's own directory, pipes and sockets."""
    with open(f"{folder}/{_MEETING_POINTS}") as file:
        points: list[str] = json.load(file)
    return [*([workdir] if division.is_system(workdir) else []), *points]


def hide_shared(folder: str, trees: Sequence[Tree], parts: Mapping[str, Test], owner: int) -> None:
    """Hide in a copy what the image has in partly frozen folders and what is shared, to be shown there by other means.

    `owner` is what the sandbox's root is on this machine.
    """
    base = f"{folder}/upper/{trees[0].name}"
    for path, is_system in parts.items():
        places = [f"{lower}/{path}" for lower in trees[0].lowers]
        images = [(place, status) for place in places if (status := _folder_status(place))]
        if not path or not images or not _folder_status(os.path.dirname(f"{base}/{path}")):
            continue
        if not os.path.lexists(f"{base}/{path}"):
            _make_like(f"{base}/{path}", images[0][1], owner)
        if _folder_status(f"{base}/{path}"):
            names = {name for image, _ in images for name in os.listdir(image)}
            for name in names:
                if not is_system(name) and f"{path}/{name}" not in parts:
                    os.mknod(f"{base}/{path}/{name}", stat.S_IFCHR, os.makedev(0, 0))


def _make_like(path: str, status: os.stat_result, owner: int) -> None:
    os.mkdir(path)
    with suppress(OSError):  # as an ordinary user, the image's owner may be nobody who exists inside
        os.chown(path, status.st_uid + owner, status.st_gid + owner)
    os.chmod(path, stat.S_IMODE(status.st_mode))


class _Copying:
    """One copy in the making: how much more it may hold, and which files in it are as they were before the agent.

    `meeting_points` are pipes and sockets: copies of them lead to nobody.
    """

    def __init__(self, start: Mapping[str, list[int]], parts: Mapping[str, Test], *, may_link: bool) -> None:
        self.untouched: dict[str, list[int]] = {}
        self.meeting_points: list[str] = []
        self._start = start
        self._parts = parts
        self._may_link = may_link
        self._entries_left = MAX_ENTRIES
        self._bytes_left = _MAX_BYTES

    def copy_tree(self, tree: Tree, source: int, target: int) -> None:
        """Copy the writable directory of one overlay, or as much of it as belongs to the system."""
        if tree.folder:
            for name in os.listdir(source):
                self._copy(f"{tree.name}/{name}", name, source, target)
        else:
            self._copy_part("", tree.name, source, target)
        _copy_attributes(source, target)

    def _copy_part(self, path: str, key: str, source: int, target: int) -> None:
        for name in os.listdir(source):
            full, mode = f"{path}/{name}".lstrip("/"), _mode(name, source)
            is_part, is_system = full in self._parts, self._parts[path](name)
            if is_part and stat.S_ISDIR(mode):
                with _same_folder(name, source, target) as (below, within):
                    self._copy_part(full, f"{key}/{name}", below, within)
            elif is_part or is_system or (not path and not stat.S_ISDIR(mode)):
                # Of what lies in / itself, folders are shared and everything else is not.
                self._copy(f"{key}/{name}", name, source, target)
            if is_part or (is_system and not is_dot(name)):
                _refuse_link(full, _mode(name, target))

    def _copy(self, key: str, name: str, source: int, target: int, depth: int = 0) -> None:
        """Copy an entry and all that is in it; what is gone or something else since it was looked at is left out."""
        self._entries_left -= 1
        if self._entries_left < 0 or depth > MAX_DEPTH:
            raise TooLargeError("the agent's changes to the system are too many or too deep to be copied")
        try:
            mode = os.lstat(name, dir_fd=source).st_mode
            if stat.S_ISDIR(mode):
                self._copy_folder(key, name, source, target, depth)
            elif stat.S_ISREG(mode):
                self._copy_file(key, name, source, target)
            else:
                self._copy_special(key, name, source, target)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in _ANOTHER_BY_NOW:
                raise

    def _copy_folder(self, key: str, name: str, source: int, target: int, depth: int) -> None:
        with _same_folder(name, source, target) as (below, within):
            for entry in os.listdir(below):
                self._copy(f"{key}/{entry}", entry, below, within, depth + 1)

    def _copy_file(self, key: str, name: str, source: int, target: int) -> None:
        # A second name changes when a file was last touched, so not for those that are known by that.
        if self._may_link and key not in self._start and self._link(name, source, target):
            return
        reader = os.open(name, READ, dir_fd=source)
        try:
            if not stat.S_ISREG(os.fstat(reader).st_mode):
                return
            writer = os.open(name, NEW_FILE, 0o600, dir_fd=target)
            try:
                self._copy_content(reader, writer)
                _copy_attributes(reader, writer)
                # Looked at after its content was read: if nobody has touched it by now, this is its old content.
                self._compare(key, os.fstat(reader), os.fstat(writer))
            finally:
                os.close(writer)
        finally:
            os.close(reader)

    def _link(self, name: str, source: int, target: int) -> bool:
        """Give a file a second name; False, then and from now on, where that cannot be done: on a disk of its own."""
        try:
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except OSError as error:
            self._may_link = error.errno not in (errno.EXDEV, errno.EPERM)
            return False
        return True

    def _copy_content(self, reader: int, writer: int) -> None:
        self._take(0, expected=os.fstat(reader).st_size)  # a file of holes is large, too, and would take long
        while count := os.sendfile(writer, reader, None, _CHUNK):
            self._take(count)

    def _take(self, count: int, expected: int = 0) -> None:
        self._bytes_left -= count
        if self._bytes_left < expected:
            raise TooLargeError(f"the agent's changes to the system are more than {_MAX_BYTES:,} bytes")

    def _copy_special(self, key: str, name: str, source: int, target: int) -> None:
        """Links, the marks of what was removed, pipes and sockets; a device is dead inside and not taken along."""
        status = os.lstat(name, dir_fd=source)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif is_whiteout(status):
            os.mknod(name, status.st_mode, dir_fd=target)
        elif stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            os.mknod(name, status.st_mode, dir_fd=target)
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=target)
            self.meeting_points.append(key)
        else:
            return
        os.chown(name, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)
        times = (status.st_atime_ns, status.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)
        self._compare(key, os.lstat(name, dir_fd=source), os.lstat(name, dir_fd=target))

    def _compare(self, key: str, original: os.stat_result, copy: os.stat_result) -> None:
        if self._start.get(key) == stamp(original):
            self.untouched[key] = stamp(copy)


@contextmanager
def _same_folder(name: str, source: int, target: int) -> Iterator[tuple[int, int]]:
    """Both descriptors of a folder and of a new one like it; its attributes are copied at the end."""
    below = os.open(name, FOLDER, dir_fd=source)
    try:
        os.mkdir(name, dir_fd=target)
        within = os.open(name, FOLDER, dir_fd=target)
        try:
            yield below, within
            _copy_attributes(below, within)
        finally:
            os.close(within)
    finally:
        os.close(below)


def _refuse_link(path: str, mode: int) -> None:
    """A folder of the system may be missing, but something else in its place is not to be had: it may lead anywhere."""
    if mode and not stat.S_ISDIR(mode) and not stat.S_ISCHR(mode):
        raise ContentError(f"/{path} has been replaced by something that is not a folder")


def _mode(name: str, folder: int) -> int:
    """The type and permissions of an entry, 0 when there is none."""
    try:
        return os.lstat(name, dir_fd=folder).st_mode
    except FileNotFoundError:
        return 0


def _folder_status(path: str) -> os.stat_result | None:
    """The status of a folder of an image; None for anything else."""
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            return status
    return None


def _copy_attributes(source: int, target: int) -> None:
    """Owner first, since it clears some of the others; times last."""
    status = os.fstat(source)
    os.fchown(target, status.st_uid, status.st_gid)
    os.fchmod(target, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source):
        if ".overlay." not in name or name.endswith(_OVERLAY_NOTES):
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


# Before a verifier gets the copy: what is in it, and taking out what is to be as in the image. Paths are compared as
# they are shown, since one that is not UTF-8 is shown with its odd bytes written out.

# Small files that tools load by themselves: whether they do harm depends on what they say.
_TELLING = (".pth", "_finder.py", "/entry_points.txt", "/.gitconfig", "/etc/passwd")
_MAX_TEXT_BYTES = 2**16
_MAX_TEXTS = 1000


def write_copy(copy: int, trees: Sequence[Tree], target: int) -> None:
    """Write `{"changes": {…}, "texts": {path: text}}` about a copied system to a descriptor."""
    changes = find_changes(copy, trees, MAX_ENTRIES)
    changed = (path for kind in ("added", "modified") for path in changes[kind])
    telling = {path for path in changed if path.endswith(_TELLING) or is_searched(path)}
    texts = dict(_texts(copy, trees, telling)) if telling else {}
    with os.fdopen(os.dup(target), "w") as file:
        json.dump({"changes": changes, "texts": texts}, file)


def _texts(copy: int, trees: Sequence[Tree], wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    names = frozenset(sorted(wanted)[:_MAX_TEXTS])
    for path, tree, inside in _entries(copy, trees):
        if path in names:
            with suppress(OSError):
                descriptor = os.open(f"upper/{tree.name}/{inside}", READ, dir_fd=copy)
                with os.fdopen(descriptor, "rb") as file:
                    if is_searched(path):
                        yield path, read_soname(file)
                        continue
                    text = file.read(_MAX_TEXT_BYTES + 1)
                if len(text) <= _MAX_TEXT_BYTES:
                    yield path, text.decode("utf-8", "replace")


def _entries(copy: int, trees: Sequence[Tree]) -> Iterator[tuple[str, Tree, str]]:
    """Every entry of a copy: how it is told, and where it is."""
    there = upper_names(copy)
    for tree in trees:
        prefix = f"/{tree.folder}/" if tree.folder else "/"
        for inside, _, _ in walk_upper(copy, tree.name) if tree.name in there else ():
            yield shown(prefix + inside), tree, inside


def take_out(copy: int, trees: Sequence[Tree], paths: Collection[str], texts: Mapping[str, str]) -> None:
    """Remove entries of a copy, marks of removal among them, so that the image is seen there again.

    A folder that hides all of the image's stops to do so if anything in it is to be seen. Files with `texts` say that.
    """
    if not paths and not texts:
        return
    above = {path[:end] for path in paths for end in range(len(path)) if path[end] == "/"}
    for path, tree, inside in list(_entries(copy, trees)):
        place = f"upper/{tree.name}/{inside}"
        if path in paths:
            _remove(place, copy)
        elif path in above:
            _open_up(place, copy)
        elif path in texts:
            _rewrite(place, copy, texts[path])


def _remove(place: str, copy: int) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISDIR(os.lstat(place, dir_fd=copy).st_mode):
            folder = os.open(place, FOLDER, dir_fd=copy)
            for name in os.listdir(folder):
                _remove(f"{place}/{name}", copy)
            os.close(folder)
            os.rmdir(place, dir_fd=copy)
        else:
            os.unlink(place, dir_fd=copy)


def _rewrite(place: str, copy: int, text: str) -> None:
    """A new file in place of the old one, which may be the agent's own by another name."""
    with suppress(OSError):  # gone, or no file
        status = os.lstat(place, dir_fd=copy)
        os.unlink(place, dir_fd=copy)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=copy)
        with os.fdopen(descriptor, "w") as file:
            os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            file.write(text)


def _open_up(place: str, copy: int) -> None:
    """Have a folder hide nothing of the image any more, be it that it is new or that it is gone."""
    with suppress(OSError):
        if is_whiteout(os.lstat(place, dir_fd=copy)):
            os.unlink(place, dir_fd=copy)
            return
        folder = os.open(place, FOLDER, dir_fd=copy)
        for mark in OPAQUE_MARKS:
            with suppress(OSError):
                os.removexattr(folder, mark)
        os.close(folder)
