"""What differs from the image: reads the writable directories of a sandbox's overlays, never the sandbox itself."""

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from seatrial.sandbox.embedded.roots import Tree
from seatrial.sandbox.layers import (
    EVERYTHING,
    MAX_DEPTH,
    Allowance,
    LayerFinder,
    find_in_layers,
    is_whiteout,
    shown,
    walk_folder,
)
from seatrial.untrusted.files import FOLDER

START = "start.json"
ORIGIN = "origin.json"
MAX_ENTRIES = 200_000


def walk_upper(state: int, name: str, allowance: Allowance = EVERYTHING) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Every entry of one writable directory of a sandbox, as `walk_folder` tells them."""
    top = os.open(f"upper/{name}", FOLDER, dir_fd=state)
    try:
        yield from walk_folder(top, allowance)
    finally:
        os.close(top)


def upper_names(state: int) -> list[str]:
    descriptor = os.open("upper", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=state)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def remember_files(state: int, allowance: Allowance = EVERYTHING) -> None:
    """Note what is there now, so that it does not count as anybody's change any more. Raises TooMuch."""
    files = {
        f"{name}/{path}": stamp(status)
        for name in upper_names(state)
        for path, status, _ in walk_upper(state, name, allowance)
        if not stat.S_ISDIR(status.st_mode)
    }
    if not files:  # as in most sandboxes that have just been set up
        with suppress(FileNotFoundError):
            os.unlink(START, dir_fd=state)
        return
    descriptor = os.open(START, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=state)
    with os.fdopen(descriptor, "w") as file:
        json.dump(files, file)


def keep_origin(state: int) -> None:
    """Keep what was noted before the first agent came, when another one is about to."""
    try:
        os.stat(ORIGIN, dir_fd=state)
    except FileNotFoundError:
        with suppress(FileNotFoundError):
            os.rename(START, ORIGIN, src_dir_fd=state, dst_dir_fd=state)
            return
        os.close(os.open(ORIGIN, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=state))


def stamp(status: os.stat_result) -> list[int]:
    """What tells that a file is untouched: its last change, which unlike that of its content is nobody's to set."""
    return [status.st_ctime_ns, status.st_size]


def write_changes(
    state: int, trees: Sequence[Tree], limit: int, target: int, allowance: Allowance = EVERYTHING
) -> None:
    found = find_changes(state, trees, limit, allowance)
    with os.fdopen(os.dup(target), "w") as file:
        json.dump(found, file)


def find_changes(state: int, trees: Sequence[Tree], limit: int, allowance: Allowance = EVERYTHING) -> dict[str, Any]:
    """`{"added": […], "modified": […], "removed": […], "truncated": …}`, with `limit` names at most.

    Truncated are also trees deeper than anybody builds by hand.
    """
    found: dict[str, list[str]] = {"added": [], "modified": [], "removed": [], "too deep": []}
    changes = _all_changes(state, trees, allowance)
    for kind, path in islice(changes, limit):
        found[kind].append(shown(path))
    truncated = bool(found.pop("too deep")) or next(changes, None) is not None
    return {**{kind: sorted(paths) for kind, paths in found.items()}, "truncated": truncated}


def _all_changes(state: int, trees: Sequence[Tree], allowance: Allowance) -> Iterator[tuple[str, str]]:
    start = read_start(state)
    for tree in reversed(trees):  # system folders that are trees of their own come first, as within a root
        prefix = f"/{tree.folder}/" if tree.folder else "/"
        yield from ((kind, prefix + path) for kind, path in _tree_changes(state, tree, start, allowance))


def read_start(state: int, *names: str) -> dict[str, list[int]]:
    """What `remember_files` has noted last, or in the first of some other files: stamps by where a file is."""
    for name in (*names, START):
        with suppress(FileNotFoundError):
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=state)
            with os.fdopen(descriptor, "rb") as file:
                start: dict[str, list[int]] = json.loads(file.read() or b"{}")
            return start
    return {}


def _tree_changes(
    state: int, tree: Tree, start: dict[str, list[int]], allowance: Allowance
) -> Iterator[tuple[str, str]]:
    if tree.name not in upper_names(state):
        return  # shown read-only, so nothing can have changed
    image = LayerFinder(tree.lowers)
    for path, status, opaque in walk_upper(state, tree.name, allowance):
        is_folder, is_gone = stat.S_ISDIR(status.st_mode), is_whiteout(status)
        if (opaque or is_gone) and _was_folder(tree.lowers, path):
            allowance.use(MAX_ENTRIES)  # nobody knows how much lies below
            yield from (("removed", gone) for gone in _missing(state, tree, path))
        elif opaque and image.find(path):
            yield "modified", path  # it has taken the place of a file
        elif not is_folder and (kind := _kind(image, path, status, start.get(f"{tree.name}/{path}"))):
            yield kind, path
        if is_folder and path.count("/") == MAX_DEPTH:
            yield "too deep", path


def _kind(image: LayerFinder, path: str, status: os.stat_result, before: list[int] | None) -> str | None:
    """What has been done to a file, or None when it is as it was."""
    if is_whiteout(status):
        return "removed" if image.find(path) else None
    if before is not None and before == stamp(status):
        return None
    return "modified" if image.find(path) else "added"


def _was_folder(lowers: Sequence[str], path: str) -> bool:
    place = find_in_layers(lowers, path)
    return place is not None and stat.S_ISDIR(os.lstat(place).st_mode)


def _missing(state: int, tree: Tree, folder: str) -> Iterator[str]:
    """The files of the image below a removed or replaced directory that are not in its replacement."""
    seen = set()
    for lower in (lower for lower in tree.lowers if _was_folder([lower], folder)):
        for current, _, files in os.walk(f"{lower}/{folder}"):
            for name in files:
                path = os.path.relpath(f"{current}/{name}", lower)
                replaced = os.path.lexists(f"/proc/self/fd/{state}/upper/{tree.name}/{path}")
                if path not in seen and not replaced and find_in_layers(tree.lowers, path):
                    seen.add(path)
                    yield path
