"""Files that the agent added beside its work, where a verifier started there takes them for modules of its own.

Nearly everything in a task's folder is honest work. What has the name of a module that Python or pytest loads, and
that no instruction asks for, is hidden from the verifier.
"""

import posixpath
import re
import sys
from collections.abc import Collection, Iterable

from seatrial.verify.system.contents import announces_plugins
from seatrial.verify.system.facts import distribution_name, module_name, plain_name
from seatrial.verify.system.surroundings import FOREIGN_MODULES, HOOKS, Change, Reason, Surroundings
from seatrial.verify.system.verifier_needs import RUNNER

# Without a suffix it is a link to a package, for folders are never listed themselves.
_SUFFIXES = re.compile(r"(?:\.(?:py|pyc|so|[\w.-]+\.so))?")
# No program of the standard library imports these, and people call their own so.
_HARMLESS = frozenset({"test", "tests", "this", "antigravity"})
PLUGIN_FILE = "entry_points.txt"


def module_folders(folders: Iterable[str], python_paths: Iterable[str | None]) -> frozenset[str]:
    """The shared folders in which Python looks for modules: where it is started, and those that a path adds."""
    added = (folder for path in python_paths for folder in (path or "").split(":"))
    return frozenset(posixpath.normpath(folder) for folder in (*folders, *added) if folder.startswith("/"))


def may_announce_plugins(path: str, folders: Collection[str]) -> bool:
    """Whether a file may have pytest load code from one of the folders: only its text tells."""
    metadata, name = posixpath.split(path)
    folder, entry = posixpath.split(metadata)
    return name == PLUGIN_FILE and folder in folders and _is_metadata(folder, entry)


def _is_metadata(folder: str, entry: str) -> bool:
    return distribution_name(entry) is not None or (folder.endswith(".egg") and entry.lower() == "egg-info")


def may_be_links(changes: Iterable[Change], folders: Collection[str]) -> tuple[str, ...]:
    """Added files that Python takes for a package if they are links to folders, which their names do not tell."""
    added = (change.path for change in changes if change.kind == "added" and posixpath.dirname(change.path) in folders)
    return tuple(path for path in added if "." not in posixpath.basename(path))


def hidden_in(changes: Iterable[Change], folders: Collection[str], around: Surroundings) -> dict[str, Reason]:
    """What of the shared files is not to be there for the verifier: files, or whole packages by their folder."""
    found: dict[str, Reason] = {}
    for change in changes:
        is_new = change.kind == "added" and change.path not in around.plain_files
        if is_new and (place := _place(change.path, folders, around)):
            found[place[0]] = place[1]
        elif change.kind == "modified" and _announces(change.path, folders, around):
            found[change.path] = "loaded by itself"
    return found


def _announces(path: str, folders: Collection[str], around: Surroundings) -> bool:
    return may_announce_plugins(path, folders) and announces_plugins(around.texts.get(path))


def _place(path: str, folders: Collection[str], around: Surroundings) -> tuple[str, Reason] | None:
    folder, entry = posixpath.split(path)
    stem = module_name(entry)
    if not _SUFFIXES.fullmatch(entry.removeprefix(stem)):
        # Metadata are a folder: a link in its place leads to where nobody has looked.
        is_link = folder in folders and entry.lower().endswith("-info") and _is_metadata(folder, entry)
        return (path, "loaded by itself") if is_link or _announces(path, folders, around) else None
    if foreign := _foreign(path, folders, around):
        return foreign, "loaded by itself"
    if stem == "__init__":  # a package is its folder
        path = folder
        folder, stem = posixpath.split(folder)
    if around.named.has_file(path) or around.named.is_to_be_made(stem) or _is_named_by_word(entry, around):
        return None
    if stem in HOOKS:
        return path, "loaded by itself"
    return (path, "in front of the image's") if folder in folders and _is_known(stem, around) else None


def _is_named_by_word(entry: str, around: Surroundings) -> bool:
    return entry != "__init__.py" and "." in entry and around.named.has_word(entry)


def _foreign(path: str, folders: Collection[str], around: Surroundings) -> str | None:
    """The entry of a folder of modules, if the standard library asks for it and no such machine ever has it."""
    for folder in folders:
        if path.startswith(f"{folder}/"):
            entry = path.removeprefix(f"{folder}/").partition("/")[0]
            is_foreign = module_name(entry) in FOREIGN_MODULES and not around.named.has_word(module_name(entry))
            if is_foreign and _SUFFIXES.fullmatch(entry.removeprefix(module_name(entry))):
                return f"{folder}/{entry}"
    return None


def _is_known(module: str, around: Surroundings) -> bool:
    """Whether the verifier's Python has a module of that name: of its own, of the image, or installed before tests."""
    if module in _HARMLESS:
        return False
    is_installed = plain_name(module) in around.needs.modules
    return is_installed or module in sys.stdlib_module_names or module in RUNNER or module in around.importable
