"""Small machines for tests: a file system of a few megabytes, a control group of a few processes."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = {"pids": ("pids.max", "pids.max"), "memory": ("memory.limit_in_bytes", "memory.max")}


@contextmanager
def small_file_system(folder: Path, *options: str) -> Iterator[Path]:
    """A file system in memory, mounted at a new folder. Skips where nobody may mount one."""
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def control_group(controller: str, limit: int) -> Iterator[list[str]]:
    """A control group with that limit; yields what starts a command in it. Skips where none can be made."""
    group, version = _new_group(controller)
    try:
        (group / _LIMITS[controller][version - 1]).write_text(str(limit))
    except OSError as error:
        group.rmdir()
        pytest.skip(f"no control group with a limit of {controller} can be made here: {error}")
    join = group / ("tasks" if version == 1 else "cgroup.procs")
    try:
        yield ["/bin/sh", "-c", f'echo 0 > {join} && exec "$@"', "sh"]
    finally:
        _remove(group)


def _new_group(controller: str) -> tuple[Path, int]:
    name = f"faults-{os.getpid()}"
    for parent, version in ((_GROUPS / controller, 1), (_GROUPS, 2)):
        if (parent / "cgroup.procs").exists():
            try:
                (parent / name).mkdir()
            except OSError as error:
                pytest.skip(f"no control group can be made here: {error}")
            return parent / name, version
    pytest.skip("no control groups are mounted here")


def _remove(group: Path) -> None:
    for top, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(top).rmdir()
    shutil.rmtree(group, ignore_errors=True)
