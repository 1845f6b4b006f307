"""Folders for files that nobody keeps, found again and removed when whoever made them was killed."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from seatrial.sandbox.processes import Processes
from seatrial.sandbox.runs import RunDirectory, abandoned

_PREFIX = "seatrial-scratch-"
ROOT_VARIABLE = "SANDBOX_ROOT"
"""By this variable, which names its folder, a plain process belongs to a sandbox that is none."""


class Scratch:
    """A folder that is gone with the block or with `remove`; below the directory for temporary files, unless given.

    It lies in a folder of its own, which is locked while we live and tells others when we do not any more.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._run = RunDirectory(directory or Path(tempfile.gettempdir()), _PREFIX)
        self._folder = tempfile.TemporaryDirectory(prefix="", dir=self._run.path)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self._folder.name)

    def remove(self) -> None:
        """Remove it. Raises OSError when that cannot be done."""
        self._folder.cleanup()
        self._run.path.rmdir()
        self._run.release()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # whoever comes next removes it
            self.remove()


async def sweep_scratch(directory: Path | None = None) -> list[Path]:
    """Remove what killed processes of ours left, and end what they left running in it; returns what has gone."""
    removed = []
    for path in abandoned(directory or Path(tempfile.gettempdir()), _PREFIX):
        for folder in path.iterdir():
            await Processes(f"{ROOT_VARIABLE}={folder.resolve()}").end_all()
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            removed.append(path)
    return removed
