"""The files of a task folder: one walk lists them, and refuses links that lead out and folders that no task needs.

It counts as it goes, so that size, entries and depth are known before anything is read. The layout of a task, what a
`.harborignore` leaves out, and digests come from that list.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from math import comb, prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seatrial.errors import OversizeError
from seatrial.model.loaded_task import TaskLayout
from seatrial.untrusted.files import READ, read_with_status
from seatrial.untrusted.json import decode

IGNORED_FOLDERS = frozenset({".git", "__pycache__", ".pytest_cache", ".venv", "node_modules"})
_READ = READ & ~os.O_NOFOLLOW
"""Links within a task are followed: `list_files` tells which ones lead out."""

_COMPOSE_NAMES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_SOLUTION_NAMES = {"linux": ("solve.sh", "solve.py"), "windows": ("solve.bat",)}
_PARTS = ("environment/", "solution/", "steps/", "tests/")
TEST_SCRIPT = "test.sh"
RUBRIC_FILE = "rubric.toml"
"""A rubric among the tests, by which a judge grades what an agent left where there is no test script."""

_TEST_NAMES = {"linux": TEST_SCRIPT, "windows": "test.bat"}
_STAGED = frozenset({"tests", "solution"})
_MOST_LISTED = 3
MAX_STAGED_BYTES = 2**30
"""Of a folder that is laid into sandboxes: it goes there through memory."""


class Bounds(NamedTuple):
    """How much a folder of a stranger may hold before anybody reads it; `depth` counts directories within it."""

    max_bytes: int = 4 * 2**30
    entries: int = 200_000
    depth: int = 100


TASK_BOUNDS = Bounds()
"""For a whole task, without what `IGNORED_FOLDERS` name."""


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What a folder holds, as relative paths with `/`: regular files, links, and what a task must not have."""

    regular: frozenset[str]
    links: frozenset[str]
    escaping: tuple[str, ...]
    special: tuple[str, ...]
    size: int = field(default=0, compare=False)
    """How many bytes the files have together."""
    read: dict[str, tuple[bool, bytes]] = field(default_factory=dict, compare=False)
    """The files whose content is known: whether each is executable, and its SHA-256."""

    def has(self, path: str) -> bool:
        return path in self.regular or path in self.links

    def nested_tasks(self) -> list[str]:
        """The folders within that are tasks themselves. What a task's own parts hold is their business: fixtures."""
        return [
            path.removesuffix("/task.toml")
            for path in self.regular
            if path.endswith("/task.toml") and not path.startswith(_PARTS)
        ]


def list_files(
    root: Path,
    bounds: Bounds = TASK_BOUNDS,
    ignored: Container[str] = IGNORED_FOLDERS,
    ignored_with: str | None = None,
) -> TaskFiles:
    """Walk a folder without following links. Raises OSError when it cannot be read, OversizeError beyond bounds.

    Folders in it are left out by their names, or where they hold a file that is called as `ignored_with`.
    """
    regular, links, special, size = walk(str(root), bounds, ignored, ignored_with)
    home = os.path.realpath(root) if links else ""
    escaping = [link for link in sorted(links) if not _stays_inside(home, link)]
    return TaskFiles(frozenset(regular), frozenset(links), tuple(escaping), tuple(sorted(special)), size)


def refuse_large_trees(root: Path, files: TaskFiles, limit: int = MAX_STAGED_BYTES) -> None:
    """Raise OversizeError for a folder of a task that is laid into sandboxes and is too large for that."""
    if files.size <= limit:  # nearly always
        return
    sizes: Counter[str] = Counter()
    # What an image is built from is its context. Without such a recipe, environment/ itself is laid into the sandbox.
    built = any(files.has(f"environment/{name}") for name in ("Dockerfile", *_COMPOSE_NAMES))
    staged = _STAGED if built else _STAGED | {"environment"}
    for path in files.regular:
        parts = path.split("/")
        if parts[0] in staged or (parts[0] == "steps" and len(parts) > 3):
            sizes["/".join(parts[: 3 if parts[0] == "steps" else 1])] += os.lstat(f"{root}/{path}").st_size
    for folder, size in sizes.most_common(1):
        if size > limit:
            raise OversizeError(
                f"{folder}/ has {_shown(size)}, and a folder that is copied into a sandbox may have {_shown(limit)} "
                "at most"
            )


def walk(
    folder: str,
    bounds: Bounds = TASK_BOUNDS,
    ignored: Container[str] = IGNORED_FOLDERS,
    ignored_with: str | None = None,
) -> tuple[list[str], list[str], list[str], int]:
    """The regular files, the links and everything else below a folder, in any order, and the size of the files.

    Raises OSError, and OversizeError as soon as the folder is known to hold more than the bounds allow.
    """
    regular: list[str] = []
    links: list[str] = []
    special: list[str] = []
    pending = [(folder, "", 0)]
    count = size = 0
    while pending:
        place, prefix, depth = pending.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                name = entry.name
                count += 1
                if count > bounds.entries or depth > bounds.depth:
                    raise OversizeError(
                        f"{folder}: it holds more than {bounds.entries:,} files and directories, or directories nested "
                        f"more than {bounds.depth} deep, which are the limits"
                    )
                # Files come first because most entries are files: one question then does for them.
                if entry.is_file(follow_symlinks=False):
                    regular.append(prefix + name)
                    try:
                        size += entry.stat(follow_symlinks=False).st_size
                    except FileNotFoundError:  # such as what an editor keeps there for a moment
                        continue
                elif entry.is_dir(follow_symlinks=False):
                    if name not in ignored and not (ignored_with and os.path.lexists(f"{entry.path}/{ignored_with}")):
                        pending.append((entry.path, f"{prefix}{name}/", depth + 1))
                else:
                    (links if entry.is_symlink() else special).append(prefix + name)
    if size > bounds.max_bytes:
        raise OversizeError(_too_large(folder, regular, size, bounds.max_bytes))
    return regular, links, special, size


def _too_large(folder: str, regular: list[str], size: int, limit: int) -> str:
    """Says how large a folder is, and which files are to blame."""
    sizes = sorted(((os.lstat(f"{folder}/{path}").st_size, path) for path in regular), reverse=True)[:_MOST_LISTED]
    # Only those that matter beside the first are worth a word.
    largest = ", ".join(f"{path} ({_shown(each)})" for each, path in sizes if each * 10 >= sizes[0][0])
    return f"{folder}: its files have {_shown(size)}, the limit is {_shown(limit)}; the largest: {largest}"


def _shown(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def files_below(root: Path, folders: Iterable[str]) -> list[str]:
    """The files in some folders of a task, sorted; links that lead out of the task are left out, linked folders too."""
    home = os.path.realpath(root)
    found: list[str] = []
    for folder in folders:
        place = f"{home}/{folder}"
        if os.path.realpath(place) == place and Path(place).is_dir():
            regular, links, _, _ = walk(place)
            found += [f"{folder}/{path}" for path in regular]
            found += [path for link in links if _stays_inside(home, path := f"{folder}/{link}")]
    return sorted(found)


def _stays_inside(home: str, link: str) -> bool:
    target = os.path.realpath(f"{home}/{link}")
    return target == home or target.startswith(home + os.sep)


def read_text(path: Path | str, limit: int, errors: Literal["strict", "replace"] = "strict") -> str:
    """The text of a regular UTF-8 file of at most `limit` bytes. Raises ValueError that says what was found instead.

    With `replace`, bytes that are not UTF-8 are no reason to raise.
    """
    return decode(read_file(path, limit)[0], errors)


def read_file(path: Path | str, limit: int) -> tuple[bytes, bool]:
    """The content of a regular file of at most `limit` bytes, and whether it is executable. Raises ValueError."""
    try:
        data, status = read_with_status(path, limit, _READ)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    return data, bool(status.st_mode & 0o100)


def read_layout(files: TaskFiles, os_name: str, prefix: str = "") -> TaskLayout:
    """The layout of a task, or of one of its steps when `prefix` is its folder. Root tests serve every step."""
    found: dict[str, Any] = {}
    for place, names in _places(os_name, prefix):
        for name in names:
            if files.has(name):
                found[place] = name
                break
    if any(path.startswith("environment/") for path in files.regular):
        found["environment_files"] = True
    return TaskLayout(**found)


@lru_cache(maxsize=64)
def _places(os_name: str, prefix: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """For each file of a layout the paths at which it may lie, the first one that is there counting."""
    test = _TEST_NAMES[os_name]
    verifier_compose = [f"{folder}tests/{name}" for folder in (prefix, "") for name in _COMPOSE_NAMES]
    return (
        ("instruction", (f"{prefix}instruction.md",)),
        ("test_script", (f"{prefix}tests/{test}", f"tests/{test}")),
        ("rubric", (f"{prefix}tests/{RUBRIC_FILE}", f"tests/{RUBRIC_FILE}")),
        ("solution_script", tuple(f"{prefix}solution/{name}" for name in _SOLUTION_NAMES[os_name])),
        ("dockerfile", ("environment/Dockerfile",)),
        ("compose_file", tuple(f"environment/{name}" for name in _COMPOSE_NAMES)),
        ("verifier_dockerfile", (f"{prefix}tests/Dockerfile", "tests/Dockerfile")),
        ("verifier_compose_file", tuple(dict.fromkeys(verifier_compose))),
        ("trajectory", (f"{prefix}trajectory.json",)),
    )


# `.harborignore` in tests/ or solution/, in the syntax of .gitignore: files that are neither laid out nor in a digest.
# A line that git would not understand has no effect.

IGNORE_FILE = ".harborignore"
_FOLDERS = ("tests", "solution")
_MAX_BYTES = 2**20
_STARS = re.compile(r"\*+")

Ignored = Callable[[str], bool]
"""Whether a file is left out, given by its path within a folder; that of a directory ends in a slash."""


def ignored_in(folder: Path) -> Ignored:
    """What the `.harborignore` of a folder says. Only tests/ and solution/ have one."""
    if folder.name not in _FOLDERS:
        return _nothing
    try:
        text = read_text(folder / IGNORE_FILE, _MAX_BYTES, "replace")
    except ValueError:  # mostly, there is none
        return _nothing
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - hardly any task needs it

    def says_something(line: str) -> bool:
        try:
            return bool(GitIgnoreSpec.from_lines([line]))
        except ValueError:
            return False

    rules = list(filter(says_something, text.splitlines()))
    spec = GitIgnoreSpec.from_lines(rules)
    stars = {_stars(rule): rule for rule in rules if "*" in rule}

    def ignored(path: str) -> bool:
        parts = path.split("/")
        longest = max(map(len, parts))
        for (doubles, singles), rule in stars.items():
            if comb(len(parts) + doubles, doubles) * prod(comb(longest + each, each) for each in singles) > _MOST_WAYS:
                raise OversizeError(
                    f"{folder / IGNORE_FILE}: the pattern {rule[:_SHOWN]!r} has more stars than can be matched with a "
                    f"path like {path[:_SHOWN]!r}; write it with fewer"
                )
        return spec.match_file(path)

    return ignored


_MOST_WAYS = 10**7
_SHOWN = 80


def _stars(rule: str) -> tuple[int, tuple[int, ...]]:
    """How many parts of a pattern may stand for any number of folders, and how many stars each other part has.

    A regular expression tries out all ways to share a path among them before it finds that none fits.
    """
    parts = rule.split("/")
    singles = (len(_STARS.findall(part)) for part in parts if part != "**")
    return 1 + parts.count("**"), tuple(sorted(filter(None, singles)))


def ignored_below(root: Path, paths: Iterable[str]) -> Ignored:
    """What all such files below a root say, of which `paths` are the files."""
    found = [path for path in paths if path.endswith(IGNORE_FILE)]
    if not found:  # the usual case, asked of every task
        return _nothing
    folders = [path.removesuffix(IGNORE_FILE) for path in found if path.rpartition("/")[2] == IGNORE_FILE]
    rules = [(folder, ignored_in(root / folder)) for folder in folders]
    return lambda path: any(path.startswith(folder) and ignored(path[len(folder) :]) for folder, ignored in rules)


def _nothing(_: str) -> bool:
    return False


# Digests: the same for the same files wherever they are, different for any change.

_AT_ONCE = 2**20  # a file of up to this size is read by one call, a larger one piece by piece


def digest_folder(root: Path, files: TaskFiles | None = None) -> str:
    """SHA-256 over the sorted paths, executable bits and contents of a folder. Links count by where they point.

    What a `.harborignore` leaves out does not count. Whoever has just listed the folder can say which `files` it holds,
    and what is known of them. Raises OSError, and OversizeError for a folder that is too large to be a task.
    """
    place = str(root)
    regular, links = (files.regular, files.links) if files else map(frozenset, walk(place)[:2])
    ignored = ignored_below(root, regular)
    total = []
    for relative in sorted(regular | links):
        if ignored(relative):
            continue
        if relative in links:
            kind, content = b"link", hashlib.sha256(os.fsencode((root / relative).readlink())).digest()
        else:
            known = files.read.get(relative) if files else None
            executable, content = known or _look(f"{place}/{relative}")
            kind = b"exec" if executable else b"file"
        # Lengths before names: no two different folders can then feed the same bytes to the hash.
        name = os.fsencode(relative)
        total.append(b"%d:%b%b%b" % (len(name), name, kind, content))
    return hashlib.sha256(b"".join(total)).hexdigest()


def _look(path: str) -> tuple[bool, bytes]:
    """Whether a file is executable, and the digest of its content."""
    descriptor = os.open(path, READ)
    try:
        status = os.fstat(descriptor)
        data = os.read(descriptor, min(status.st_size, _AT_ONCE) + 1)
        content, seen = hashlib.sha256(data), len(data)
        # What a file had when it was opened counts: one that grows would never come to an end.
        while data and seen < status.st_size:
            data = os.read(descriptor, _AT_ONCE)
            content.update(data)
            seen += len(data)
        return bool(status.st_mode & 0o100), content.digest()
    finally:
        os.close(descriptor)
