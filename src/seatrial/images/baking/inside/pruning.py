"""What a tree of npm's does without: caches, maps of sources, and what only other systems can run."""

import os
import re
import shutil
from pathlib import Path

_FILES = re.compile(r".*\.(map|tsbuildinfo)|\.package-lock\.json|package-lock\.json")
_FOLDERS = frozenset({".cache", ".github", ".nyc_output"})
# Programs that packages bring for every system at once, each in a folder named after the system.
_OTHER_SYSTEM = re.compile(r"(?:.*[-_])?(?:win32|windows|darwin|macos|freebsd|android)(?:[-_].*)?|.*-apple-.*")
_NATIVE = re.compile(r".*\.(?:node|exe|dll|dylib)|rg|fd|spawn-helper")
_SOURCES = (".js", ".mjs", ".cjs", ".ts")


def prune_packages(folder: Path) -> None:
    """Take out of npm's packages what is certain not to be used."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        for name in [*folders]:
            if name in _FOLDERS or (_OTHER_SYSTEM.fullmatch(name) and _is_native(here / name)):
                folders.remove(name)
                shutil.rmtree(here / name)
        for name in filter(_FILES.fullmatch, files):
            (here / name).unlink()


def _is_native(folder: Path) -> bool:
    """Whether a folder holds programs and libraries, and no sources: those may be named like a system by chance."""
    names = [name for _, _, files in os.walk(folder) for name in files]
    return any(map(_NATIVE.fullmatch, names)) and not any(name.endswith(_SOURCES) for name in names)
