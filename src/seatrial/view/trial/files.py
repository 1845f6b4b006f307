"""The files of a trial's folder as a tree. Links are shown for what they are and never followed."""

import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

MOST_ENTRIES = 2_000
_MOST_NAMES = 20_000
"""So many names of a folder are read and put in order, whichever a disk has first: more take seconds."""


@dataclass(slots=True)
class FileNode:
    """A file: `path` is relative to the folder it was found in. `kind` is empty for what can be opened."""

    name: str
    path: str
    size: int
    kind: str = ""


@dataclass(slots=True)
class FolderNode:
    """A folder with what is in it; `size` is that of all files below it."""

    name: str
    path: str
    folders: list["FolderNode"] = field(default_factory=list)
    files: list[FileNode] = field(default_factory=list)
    trouble: str = ""

    @property
    def size(self) -> int:
        """How many bytes all files below it have."""
        return sum(file.size for file in self.files) + sum(folder.size for folder in self.folders)

    @property
    def count(self) -> int:
        """How many files are below it."""
        return len(self.files) + sum(folder.count for folder in self.folders)


def tree_of(folder: Path, below: str = "", deepest: int = 24, begin: str = "") -> FolderNode:
    """What is `below` a folder, up to some thousands of entries; a folder that was not read to its end says so.

    Paths in it are those from the folder on; or they have this `begin` instead of `below`.
    """
    place = folder
    for name in Path(below).parts:
        place /= name
        if name == ".." or os.path.islink(place):  # noqa: PTH114 - a Path raises where this user may not look
            return FolderNode("", below, trouble="it lies behind a link, and links are not followed")
    return _Walk(MOST_ENTRIES, deepest).read(str(place), "", begin or below, 0)


@dataclass(slots=True)
class _Walk:
    """Reads folders until enough has been seen."""

    left: int
    deepest: int

    def read(self, place: str, name: str, path: str, depth: int) -> FolderNode:
        node = FolderNode(name, path)
        try:
            with os.scandir(place) as found:
                entries = sorted(islice(found, _MOST_NAMES), key=lambda entry: entry.name)
        except OSError as error:
            node.trouble = f"cannot be read: {error.strerror}"
            return node
        for entry in entries:
            if self.left <= 0 or depth > self.deepest:
                node.trouble = "there is more in it than is shown here"
                break
            self.left -= 1
            self._add(node, entry, f"{path}/{entry.name}" if path else entry.name, depth)
        return node

    def _add(self, node: FolderNode, entry: os.DirEntry[str], path: str, depth: int) -> None:
        if not _is_text(entry.name):
            node.files.append(FileNode(entry.name, path, 0, "its name is no text"))
        elif entry.is_dir(follow_symlinks=False):
            node.folders.append(self.read(entry.path, entry.name, path, depth + 1))
        elif entry.is_symlink():
            node.files.append(FileNode(entry.name, path, 0, "link"))
        elif entry.is_file(follow_symlinks=False):
            node.files.append(FileNode(entry.name, path, entry.stat(follow_symlinks=False).st_size))
        else:
            node.files.append(FileNode(entry.name, path, 0, "no plain file"))


def _is_text(name: str) -> bool:
    """Whether a name can be written in an address."""
    return not any("\udc80" <= letter <= "\udcff" for letter in name)
