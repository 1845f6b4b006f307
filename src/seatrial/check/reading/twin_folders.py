"""Writing impossible twins as tasks: copies of a task with one file changed, marked as what they are.

An agent that passes one has not done what the instruction says.
"""

import os
import re
import shutil
from pathlib import Path

import tomli

from seatrial.check.checks.twins import Twin
from seatrial.errors import UsageError
from seatrial.tasks.layout import IGNORED_FOLDERS

_METADATA = re.compile(r"^[ \t]*\[[ \t]*metadata[ \t]*\][^\n]*\n", re.MULTILINE)
_MARK = "impossible = true\n"


def write_twin(root: Path, twin: Twin, folder: Path) -> Path:
    """Write a twin of the task at `root` as `TASK--twin-N` into a folder, and say where it is.

    It is there as a whole or not at all. Raises UsageError where there is something of that name already, or where
    task.toml cannot be marked.
    """
    target = folder / f"{root.name}--twin-{twin.number}"
    if target.exists():
        raise UsageError(f"{target} is there already; name another folder, or remove it first")
    marked = _marked((root / "task.toml").read_text("utf-8"), root)
    draft = folder / f".{target.name}.part"
    shutil.rmtree(draft, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(root, draft, symlinks=True, ignore=shutil.ignore_patterns(*IGNORED_FOLDERS))
        _replace(draft / "task.toml", marked.encode())
        _replace(draft / "tests" / twin.expected.file, twin.content)
        os.replace(draft, target)  # noqa: PTH105 - as everywhere
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def _replace(path: Path, content: bytes) -> None:
    """Write a file in place of whatever is there, so that nothing is written through a link."""
    mode = path.stat().st_mode & 0o777
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)


def _marked(toml: str, root: Path) -> str:
    """The text of a task.toml that says of itself that the task cannot be done."""
    text, tables = _METADATA.subn(lambda header: f"{header[0]}{_MARK}", toml, count=1)
    if not tables:
        text = f"{toml.rstrip()}\n\n[metadata]\n{_MARK}"
    try:
        if tomli.loads(text).get("metadata", {}).get("impossible") is True:
            return text
    except tomli.TOMLDecodeError:
        pass
    raise UsageError(
        f"{root / 'task.toml'}: its metadata cannot be marked with `impossible = true`; give it a table `[metadata]`"
    )
