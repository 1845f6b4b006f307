"""A digest of a folder's content: the same for the same files wherever they lie, different for any change."""

import hashlib
import os
from pathlib import Path

from seatrial.tasks.ignore import ignored_below
from seatrial.tasks.layout import TaskFiles, walk

# Neither waits for the other end of a pipe nor follows a link, should one have taken the place of a file.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 2**20  # a file of up to this size is read by one call, a larger one piece by piece


def digest_folder(root: Path, files: TaskFiles | None = None) -> str:
    """SHA-256 over the sorted paths, executable bits and contents of a folder. Links count by where they point.

    What a `.harborignore` leaves out does not count. Whoever has just listed the folder can say which `files` it holds,
    and what is known of them. Raises OSError, and OversizeError for a folder that is too large to be a task.
    """
    place = str(root)
    regular, links = (files.regular, files.links) if files else map(frozenset, walk(place)[:2])
    ignored = ignored_below(root, regular)
    total = []
    for relative in sorted(regular | links):
        if ignored(relative):
            continue
        if relative in links:
            kind, content = b"link", hashlib.sha256(os.fsencode((root / relative).readlink())).digest()
        else:
            known = files.read.get(relative) if files else None
            executable, content = known or _look(f"{place}/{relative}")
            kind = b"exec" if executable else b"file"
        # Lengths before names: no two different folders can then feed the same bytes to the hash.
        name = os.fsencode(relative)
        total.append(b"%d:%b%b%b" % (len(name), name, kind, content))
    return hashlib.sha256(b"".join(total)).hexdigest()


def _look(path: str) -> tuple[bool, bytes]:
    """Whether a file is executable, and the digest of its content."""
    descriptor = os.open(path, _READ)
    try:
        status = os.fstat(descriptor)
        data = os.read(descriptor, min(status.st_size, _AT_ONCE) + 1)
        content, seen = hashlib.sha256(data), len(data)
        # What a file had when it was opened counts: one that grows would never come to an end.
        while data and seen < status.st_size:
            data = os.read(descriptor, _AT_ONCE)
            content.update(data)
            seen += len(data)
        return bool(status.st_mode & 0o100), content.digest()
    finally:
        os.close(descriptor)
