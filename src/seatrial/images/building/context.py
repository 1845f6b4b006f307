"""The build context: the folder whose files COPY and ADD can see, without those that `.dockerignore` leaves out."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from seatrial.images.building.ignore import IgnoreRules
from seatrial.images.building.trees import FileTree, FoundFile, walk


class ContextTree:
    """A folder of this machine as a tree, seen through ignore rules."""

    def __init__(self, root: Path, rules: IgnoreRules) -> None:
        self._root = root
        self._rules = rules

    def look(self, path: str) -> FoundFile | None:
        """What is at a path that no link is in the way of; what is ignored is not there."""
        found = self.look_anyway(path)
        if found is None or not self.ignores(path):
            return found
        # A directory that is ignored is there all the same if something in it is brought back.
        return found if found.is_folder and self._rules.bring_back and self.names(path) else None

    def ignores(self, path: str) -> bool:
        """Whether the rules leave out a path."""
        relative = path.strip("/")
        return bool(relative) and not self._rules.empty and self._rules.ignores(relative)

    def look_anyway(self, path: str) -> FoundFile | None:
        """What is at a path, ignored or not."""
        place = self._root / path.strip("/")
        try:
            return FoundFile(place, place.lstat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        """The entries of a directory that count."""
        inside = path.strip("/")
        entries = sorted(entry.name for entry in (self._root / inside).iterdir())
        if self._rules.empty:
            return entries
        return [name for name in entries if self.look(f"/{inside}/{name}" if inside else f"/{name}")]


def digest_sources(tree: FileTree, paths: Iterable[str]) -> str:
    """A digest of what lies at some paths: names, kinds, permissions and content; times and owners do not count."""
    total = hashlib.sha256()
    for path in paths:
        found = tree.look(path)
        if found is None:
            continue
        _add(total, path, found)
        if found.is_folder:
            for relative, below in walk(tree, path):
                _add(total, relative, below)
    return total.hexdigest()


def _add(total: "hashlib._Hash", name: str, found: FoundFile) -> None:
    # Lengths before names: no two different trees can then feed the same bytes to the hash.
    encoded = os.fsencode(name)
    total.update(b"%d:%b%o:" % (len(encoded), encoded, found.status.st_mode))
    if found.is_link:
        target = os.fsencode(found.place.readlink())
        total.update(b"%d:%b" % (len(target), target))
    elif found.is_file:
        with found.place.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
