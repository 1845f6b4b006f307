"""Python packages: a distribution is one unit, the image's or the agent's as a whole, and never a mixture."""

import posixpath
import re
import sys

from seatrial.verify.facts import (
    FOREIGN_MODULES,
    HOOKS,
    RUNNER,
    SITE_FOLDERS,
    Change,
    Reason,
    Surroundings,
    SystemFacts,
    announces_plugins,
    distribution_name,
    is_harmless_path_file,
    module_name,
    path_folders,
    plain_name,
)

_COMPILED = "__pycache__"
_TOOLS = frozenset({"pip", "setuptools", "wheel", "distutils", "pkg-resources", "importlib-metadata", "coverage"})
_RUNNER_PLUGIN = re.compile(r"pytest[-_].+")


def python_folder(path: str, facts: SystemFacts) -> str | None:
    """The innermost folder on Python's path that a file lies in."""
    while path := path.rpartition("/")[0]:
        if path in facts.python:
            return path
    return None


def belongs_to_runner(name: str, around: Surroundings) -> bool:
    """Whether a module or distribution is part of what runs the tests, or is installed by the verifier itself."""
    plain = plain_name(name)
    known = {plain_name(each) for each in (*RUNNER, *around.needs.installs)}
    return plain in known or plain in _TOOLS or name in RUNNER or _RUNNER_PLUGIN.fullmatch(plain) is not None


def is_python_tool(name: str, around: Surroundings) -> bool:
    """Whether a distribution only installs others, and the verifier does not install it itself."""
    return plain_name(name) in _TOOLS and plain_name(name) not in {plain_name(each) for each in around.needs.installs}


def why_not_python(change: Change, folder: str, around: Surroundings) -> Reason | None:
    """Why a verifier must not meet a change in a folder on Python's path; None when it may."""
    inside = change.path.removeprefix(f"{folder}/")
    entry, _, below = inside.partition("/")
    if _is_unit_of_agent(entry, folder, around):
        return _why_not_loaded(change, below, entry, around)
    if change.kind != "added" or entry in around.facts.python[folder] or entry == _COMPILED:
        return "of the image"
    return _why_not_added(change, folder, entry, below, around)


def _is_unit_of_agent(entry: str, folder: str, around: Surroundings) -> bool:
    """Whether the agent may change something of the image here: another version, or a package the task names."""
    if posixpath.basename(folder) not in SITE_FOLDERS:
        return False
    name = distribution_name(entry) or module_name(entry)
    if belongs_to_runner(name, around) or name in HOOKS:
        return False
    if f"{folder}/{entry}" in around.replaced:
        return True
    # Installers cannot remove what the distribution's own tools have installed, and put theirs in front of it.
    is_of_image = entry in around.facts.python[folder] or name in around.facts.packages
    return is_of_image and around.named.has_package(name) and not entry.endswith(".pth")


def _why_not_added(change: Change, folder: str, entry: str, below: str, around: Surroundings) -> Reason | None:
    facts, module, distribution = around.facts, module_name(entry), distribution_name(entry)
    if distribution and distribution in facts.distributions:
        return "of the image"
    if not distribution and module in facts.python_modules and entry not in SITE_FOLDERS:
        return "in front of the image's"
    if not distribution and _is_asked_for(module, folder, around):
        return "loaded by itself"
    if belongs_to_runner(distribution or module, around):
        return "a tool of the verifier"
    return _why_not_loaded(change, below, entry, around)


def _is_asked_for(module: str, folder: str, around: Surroundings) -> bool:
    """Whether Python's own code, or what the image has it run at its start, would load a module if it were there."""
    if module in FOREIGN_MODULES or module in around.facts.asked_for:
        return True
    # Distributions split the standard library: the rest of it may come later, but never among packages.
    return posixpath.basename(folder) in SITE_FOLDERS and module in sys.stdlib_module_names


def _why_not_loaded(change: Change, below: str, entry: str, around: Surroundings) -> Reason | None:
    """Whether something that may be there is loaded without anybody asking for it."""
    text = around.texts.get(change.path)
    if change.kind == "removed":
        return None
    if module_name(entry) in HOOKS:
        return "loaded by itself"
    if entry.endswith(".pth") and not below:
        return None if is_harmless_path_file(text) and not _adds_a_file(text, around) else "loaded by itself"
    if distribution_name(entry) is None:
        return None
    # Metadata are a folder: a link in its place leads to where nobody has looked.
    announced = not below if entry.lower().endswith("-info") else False
    return "loaded by itself" if announced or (below == "entry_points.txt" and announces_plugins(text)) else None


def _adds_a_file(text: str | None, around: Surroundings) -> bool:
    """Whether a `.pth` file names what is no folder: an archive, or a link to where nobody has looked."""
    return bool(path_folders(text) & around.added_files)


def replaced_distributions(changes: list[Change], facts: SystemFacts) -> dict[str, str]:
    """Distributions of the image of which there is another version now: the folders of their old metadata, by the new.

    Only whole replacements, as an installer makes them: the old metadata are gone, or were never part of the image.
    """
    gone = {change.path for change in changes if change.kind == "removed"}
    found = {}
    for path in {
        metadata for change in changes if change.kind == "added" and (metadata := _metadata_of(change.path, facts))
    }:
        name = distribution_name(posixpath.basename(path))
        for folder, entries in facts.python.items():
            for entry in entries:
                old = f"{folder}/{entry}"
                if distribution_name(entry) == name and old != path and (old in gone or f"{old}/METADATA" in gone):
                    found[path] = old
    return found


def uninstalled_distributions(changes: list[Change], facts: SystemFacts) -> frozenset[str]:
    """The metadata of distributions of the image that are gone, with no other version in their place."""
    gone = {change.path for change in changes if change.kind == "removed"}
    entries = [f"{folder}/{entry}" for folder, names in facts.python.items() for entry in names]
    metadata = {path for path in entries if distribution_name(posixpath.basename(path))}
    return frozenset(path for path in metadata if path in gone or f"{path}/METADATA" in gone)


def _metadata_of(path: str, facts: SystemFacts) -> str | None:
    folder = python_folder(path, facts)
    entry = path.removeprefix(f"{folder}/").partition("/")[0] if folder else ""
    return f"{folder}/{entry}" if distribution_name(entry) else None


def entries_in_record(record: str) -> frozenset[str]:
    """The entries of a folder of packages that a distribution's RECORD says are its own."""
    paths = (line.rsplit(",", 2)[0].strip('"') for line in record.splitlines())
    return frozenset(path.partition("/")[0] for path in paths if path and not path.startswith(("..", "/", _COMPILED)))
