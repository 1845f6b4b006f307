"""What a verifier brings along for itself: the programs and packages that its scripts install before they judge.

They must not be the agent's: an installer that finds something of that name already there leaves it as it is.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_CONTINUED = re.compile(r"\\\n")
_INSTALL = re.compile(
    r"\b(apt-get|apt|aptitude|dpkg|apk|dnf|yum|pip3?|uv|pipx|npm|conda|mamba|gem|brew)\b[^;&|\n]*?"
    r"\s(?:install|add|i|-i)\b([^;&|\n]*)"
)
_UVX = re.compile(r"\b(?:uvx|uv\s+(?:tool\s+)?run)\b([^;&|\n]*)")
_UV_INSTALLER = re.compile(r"astral\.sh/uv")
_GOES_TO = re.compile(r"\b(?:cd|pushd)\s+(?:--\s+)?([\"']?/[\w./@+-]+)")
_PYTHON_PATH = re.compile(r"\bPYTHONPATH=([\"']?[^\s;&|\"']+)")
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_PACKAGES = ("apt-get", "apt", "aptitude", "dpkg")
# pytest and what it is made of: nobody installs its parts by name.
RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "py"})


@dataclass(frozen=True, slots=True)
class VerifierNeeds:
    """What a verifier installs, by names in small letters, and whether it uses the packages of the distribution.

    `folders` are those in which its scripts have Python look for modules, because they go or point there.
    """

    installs: frozenset[str] = frozenset()
    uses_packages: bool = False
    folders: frozenset[str] = frozenset()


def find_needs(scripts: Iterable[str]) -> VerifierNeeds:
    """What some scripts install for themselves."""
    found: set[str] = set()
    folders: set[str] = set()
    uses_packages = False
    for script in scripts:
        text = _CONTINUED.sub(" ", script)
        paths = [*_GOES_TO.findall(text), *(each for path in _PYTHON_PATH.findall(text) for each in path.split(":"))]
        folders.update(posixpath.normpath(path.strip("\"'")) for path in paths if path.strip("\"'").startswith("/"))
        for match in _INSTALL.finditer(text):
            uses_packages |= match[1] in _PACKAGES
            found.update(_names(match[2]))
        for match in _UVX.finditer(text):
            found.update(_names(match[1]))
        if _UV_INSTALLER.search(text):
            found.update(("uv", "uvx"))
    return VerifierNeeds(frozenset(found), uses_packages, frozenset(folders - {"/"}))


def _names(arguments: str) -> Iterator[str]:
    for word in arguments.split():
        name = _NAME.match(word.strip("\"'"))
        if name and not word.startswith("-"):
            yield name[0].lower()
