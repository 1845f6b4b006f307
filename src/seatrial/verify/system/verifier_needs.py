"""What a verifier brings along for itself: the programs and packages that its scripts install before they judge.

They must not be the agent's: an installer that finds something of that name already there leaves it as it is.
"""

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
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_PACKAGES = ("apt-get", "apt", "aptitude", "dpkg")
# pytest and what it is made of: nobody installs its parts by name.
RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "py"})


@dataclass(frozen=True, slots=True)
class VerifierNeeds:
    """What a verifier installs, by names in small letters, and whether it uses the packages of the distribution."""

    installs: frozenset[str] = frozenset()
    uses_packages: bool = False


def find_needs(scripts: Iterable[str]) -> VerifierNeeds:
    """What some scripts install for themselves."""
    found: set[str] = set()
    uses_packages = False
    for script in scripts:
        text = _CONTINUED.sub(" ", script)
        for match in _INSTALL.finditer(text):
            uses_packages |= match[1] in _PACKAGES
            found.update(_names(match[2]))
        for match in _UVX.finditer(text):
            found.update(_names(match[1]))
        if _UV_INSTALLER.search(text):
            found.update(("uv", "uvx"))
    return VerifierNeeds(frozenset(found), uses_packages)


def _names(arguments: str) -> Iterator[str]:
    for word in arguments.split():
        name = _NAME.match(word.strip("\"'"))
        if name and not word.startswith("-"):
            yield name[0].lower()
