"""What the task's own solution changes in the system is the agent's to change too: by units, and no more than these.

A unit is a package as a whole, else a single file. Where the agent left the same as the solution does, there is nothing
to ask. Where it left something else, that may stay as well, but not in the place of what verifiers are made of: start
files, plug-ins, test runners, and, unless the task names them, tools and libraries.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from seatrial.model.record import FileChanges
from seatrial.verify.guard import Fingerprint
from seatrial.verify.system.facts import distribution_name, module_name, plain_name
from seatrial.verify.system.python_rules import belongs_to_runner, is_python_tool, python_folder
from seatrial.verify.system.surroundings import Reason, Surroundings, is_tool

_OF_PYTHON = re.compile(r".*/(?:site|dist)-packages/([^/]+)(?:/.*)?")
_LIST = re.compile(r"/var/lib/dpkg/info/[^/]+\.list")
# Many units write into these, so that none of them has a part in what the others put there.
_OF_ALL = re.compile(
    r".*/__pycache__/.*|.*\._?pth|/etc/ld\.so\.(?:cache|preload)|/etc/passwd"
    r"|/var/lib/(?:dpkg|apt|rpm|pacman)/.*|/var/cache/.*|/lib/apk/.*"
)
_AT_ROOT = re.compile(r"/[^/]+")


@dataclass(frozen=True, slots=True)
class Units:
    """Units of a system, by what belongs to them: files, and packages of Python by their names.

    `contents` are fingerprints of those files that a verifier would not meet as they were left.
    """

    files: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    contents: Mapping[str, Fingerprint] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        """Whether a file, or a package of Python that was added with all that is in it, belongs to one of them."""
        if _OF_ALL.fullmatch(path):
            return False
        is_listed = path in self.files or f"{path}/__init__.py" in self.files
        return is_listed or _package_of(path) in self.packages


NO_UNITS = Units()


@dataclass(frozen=True, slots=True)
class Expected:
    """The units that an agent may change, and those files of them that it left as the task's own solution does."""

    units: Units = NO_UNITS
    same: frozenset[str] = frozenset()


NOTHING_EXPECTED = Expected()


def package_lists(changes: FileChanges) -> tuple[str, ...]:
    """The files that list what belongs to the packages of the distribution that were installed or replaced."""
    return tuple(path for path in (*changes.added, *changes.modified) if _LIST.fullmatch(path))


def find_units(changes: FileChanges, lists: Iterable[str], contents: Mapping[str, Fingerprint]) -> Units:
    """The units that some changes concern; `lists` say what belongs to packages of the distribution."""
    changed = [*changes.added, *changes.modified, *changes.removed]
    packages = frozenset(name for path in changed if not _OF_ALL.fullmatch(path) and (name := _package_of(path)))
    listed = (file for text in lists for file in _files_listed(text))
    return Units(frozenset((*changed, *listed)), packages, contents)


def _package_of(path: str) -> str | None:
    """The package of Python that a file belongs to, by module or distribution."""
    match = _OF_PYTHON.fullmatch(path)
    return plain_name(distribution_name(match[1]) or module_name(match[1])) if match else None


def _files_listed(text: str) -> Iterator[str]:
    """The files in a list of dpkg, which has their folders too, under all names that they have."""
    paths = [line for line in text.splitlines() if line.startswith("/")]
    folders = {posixpath.dirname(path) for path in paths}
    for path in paths:
        if path not in folders and path != "/.":
            yield path
            yield path.removeprefix("/usr") if path.startswith("/usr/") else f"/usr{path}"


def expected_among(expected: Expected, reasons: Mapping[str, Reason], around: Surroundings) -> frozenset[str]:
    """Those of some files, which a verifier would not meet for a reason each, that may stay as the agent left them."""
    others = {_unit_of(path) for path in reasons if path not in expected.same and not _OF_ALL.fullmatch(path)}
    return frozenset(
        path
        for path, reason in reasons.items()
        if (path in expected.same and _unit_of(path) not in others)
        or (expected.units.has(path) and not _is_of_verifiers(path, reason, around))
    )


def _unit_of(path: str) -> str:
    return _package_of(path) or path


def _is_of_verifiers(path: str, reason: Reason, around: Surroundings) -> bool:
    """Whether a file is what verifiers are made of, so that only the solution's own may take its place."""
    if (reason == "loaded by itself" and not _AT_ROOT.fullmatch(path)) or path in around.facts.places:
        return True
    name = posixpath.basename(path)
    if package := _package_of(path):
        is_named = is_python_tool(package, around) and around.named.has_program(package)
        return belongs_to_runner(package, around) and not is_named
    is_library = python_folder(path, around.facts) is not None or ".so" in name
    return (is_tool(name) or is_library) and not (around.named.has_file(path) or around.named.has_program(name))
