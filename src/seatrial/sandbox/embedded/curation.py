"""A copied system before the verifier gets it: telling what is in it, and taking out what is to be as in the image.

Names are compared as they are told, since one that is not UTF-8 is told with its odd bytes written out.
"""

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from seatrial.sandbox.embedded.changes import MAX_ENTRIES, find_changes, shown, upper_names, walk_upper
from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.overlay import OPAQUE_MARKS, is_whiteout
from seatrial.sandbox.overlay_walk import FOLDER
from seatrial.sandbox.sonames import is_searched, read_soname

# Small files that tools load by themselves: whether they do harm depends on what they say.
_TELLING = (".pth", "_finder.py", "/entry_points.txt", "/.gitconfig", "/etc/passwd")
_MAX_TEXT_BYTES = 2**16
_MAX_TEXTS = 1000
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
                descriptor = os.open(f"upper/{tree.name}/{inside}", _FILE, dir_fd=copy)
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
