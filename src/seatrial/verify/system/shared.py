"""Files that the agent added beside its work, where a verifier started there takes them for modules of its own.

Nearly everything in a task's folder is honest work. What has the name of a module that Python or pytest loads, and
that no instruction asks for, is hidden from the verifier.
"""

import posixpath
import re
import sys
from collections.abc import Collection, Iterable

from seatrial.verify.system.contents import announces_plugins
from seatrial.verify.system.facts import distribution_name, module_name
from seatrial.verify.system.surroundings import HOOKS, Change, Reason, Surroundings
from seatrial.verify.system.verifier_needs import RUNNER

# Without a suffix it is a link to a package, for folders are never listed themselves.
_SUFFIXES = re.compile(r"(?:\.(?:py|pyc|so|[\w.-]+\.so))?")
# No program of the standard library imports these, and people call their own so.
_HARMLESS = frozenset({"test", "tests", "this", "antigravity"})
PLUGIN_FILE = "entry_points.txt"


def module_folders(workdir: str, python_path: str | None) -> frozenset[str]:
    """The shared folders in which Python looks for modules: where it is started, and those the image adds."""
    added = (python_path or "").split(":")
    return frozenset(posixpath.normpath(folder) for folder in (workdir, *added) if folder.startswith("/"))


def may_announce_plugins(path: str, folders: Collection[str]) -> bool:
    """Whether a file may have pytest load code from one of the folders: only its text tells."""
    metadata, name = posixpath.split(path)
    folder, entry = posixpath.split(metadata)
    return name == PLUGIN_FILE and folder in folders and distribution_name(entry) is not None


def hidden_in(changes: Iterable[Change], folders: Collection[str], around: Surroundings) -> dict[str, Reason]:
    """What of the shared files is not to be there for the verifier: files, or whole packages by their folder."""
    found: dict[str, Reason] = {}
    for change in changes:
        if change.kind == "added" and (place := _place(change.path, folders, around)):
            found[place[0]] = place[1]
    return found


def _place(path: str, folders: Collection[str], around: Surroundings) -> tuple[str, Reason] | None:
    folder, entry = posixpath.split(path)
    stem = module_name(entry)
    if not _SUFFIXES.fullmatch(entry.removeprefix(stem)):
        announced = may_announce_plugins(path, folders) and announces_plugins(around.texts.get(path))
        return (path, "loaded by itself") if announced else None
    if stem == "__init__":  # a package is its folder
        path = folder
        folder, stem = posixpath.split(folder)
    if around.named.has_file(path) or (entry != "__init__.py" and around.named.has_word(entry) and "." in entry):
        return None
    if stem in HOOKS:
        return path, "loaded by itself"
    return (path, "in front of the image's") if folder in folders and _is_known(stem, around) else None


def _is_known(module: str, around: Surroundings) -> bool:
    """Whether a module of that name is in the standard library or belongs to pytest."""
    return module not in _HARMLESS and (module in sys.stdlib_module_names or module in RUNNER)
