"""Which files a task folder has. One walk answers every question about presence and refuses links that lead out."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seatrial.model.task import TaskLayout

IGNORED_FOLDERS = frozenset({".git", "__pycache__", ".pytest_cache", ".venv", "node_modules"})
_COMPOSE_NAMES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_SOLUTION_NAMES = {"linux": ("solve.sh", "solve.py"), "windows": ("solve.bat",)}
_TEST_NAMES = {"linux": "test.sh", "windows": "test.bat"}


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What a folder holds, as relative paths with `/`: regular files, links, and what a task must not have."""

    regular: frozenset[str]
    links: frozenset[str]
    escaping: tuple[str, ...]
    special: tuple[str, ...]

    def has(self, path: str) -> bool:
        """Whether a file or a link of that name is there."""
        return path in self.regular or path in self.links


def list_files(root: Path) -> TaskFiles:
    """Walk a folder without following links. Raises OSError when it cannot be read."""
    regular: list[str] = []
    links: list[str] = []
    special: list[str] = []
    for relative, entry in _walk(str(root)):
        if entry.is_symlink():
            links.append(relative)
        else:
            (regular if entry.is_file(follow_symlinks=False) else special).append(relative)
    escaping = [link for link in sorted(links) if not _stays_inside(root, link)]
    return TaskFiles(frozenset(regular), frozenset(links), tuple(escaping), tuple(sorted(special)))


def _walk(folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    pending = [(folder, "")]
    while pending:
        place, prefix = pending.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield prefix + entry.name, entry
                elif entry.name not in IGNORED_FOLDERS:
                    pending.append((entry.path, f"{prefix}{entry.name}/"))


def _stays_inside(root: Path, link: str) -> bool:
    home = os.path.realpath(root)
    target = os.path.realpath(root / link)
    return target == home or target.startswith(home + os.sep)


def read_text(path: Path | str, limit: int, errors: Literal["strict", "replace"] = "strict") -> str:
    """The text of a regular UTF-8 file of at most `limit` bytes. Raises ValueError that says what was found instead.

    With `replace`, bytes that are not UTF-8 are no reason to raise.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for ever for somebody to write to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            data = os.read(descriptor, min(status.st_size, limit) + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    try:
        return data.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}") from None


def read_layout(files: TaskFiles, os_name: str, prefix: str = "") -> TaskLayout:
    """The layout of a task, or of one of its steps when `prefix` is its folder. Root tests serve every step."""

    def first(*names: str) -> str | None:
        return next(filter(files.has, names), None)

    test = _TEST_NAMES[os_name]
    return TaskLayout(
        instruction=first(f"{prefix}instruction.md"),
        test_script=first(f"{prefix}tests/{test}", f"tests/{test}"),
        solution_script=first(*(f"{prefix}solution/{name}" for name in _SOLUTION_NAMES[os_name])),
        dockerfile=first("environment/Dockerfile"),
        compose_file=first(*(f"environment/{name}" for name in _COMPOSE_NAMES)),
        verifier_dockerfile=first(f"{prefix}tests/Dockerfile", "tests/Dockerfile"),
        verifier_compose_file=first(*(f"{folder}tests/{name}" for folder in (prefix, "") for name in _COMPOSE_NAMES)),
        trajectory=first(f"{prefix}trajectory.json"),
        environment_files=any(path.startswith("environment/") for path in files.regular),
    )
