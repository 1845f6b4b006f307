"""What agent and verifier printed and wrote: each file by its format, the beginning and the end of a long one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seatrial.errors import SeatrialError
from seatrial.view.rendering.bounded import read_bounded
from seatrial.view.rendering.show import ShownFile, show_file
from seatrial.view.trial.files import FileNode, FolderNode, tree_of
from seatrial.view.trial.opened import OpenedTrial

LogPlace = Literal["agent", "verifier", "artifacts"]

SHOWN_BYTES = 2**16
MOST_FILES = 20
_PRINTED = ("stdout.txt", "stderr.txt")
_DEEPEST = {"agent": 0, "verifier": 1, "artifacts": 24}
"""How far below its folder is looked: what an agent logged by itself may be very much."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file: `path` is what pages have for it (see `trial_files`), `shown` what is seen of it, or `trouble`."""

    name: str
    path: str
    size: int
    shown: ShownFile | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """What one of them left in a round: what it printed first. `left_out` files are too many to be shown with it."""

    step: str | None
    files: tuple[LogFile, ...]
    left_out: int


def logs_of(trial: OpenedTrial, place: LogPlace) -> list[Log]:
    """What is kept of one of them in each round: of the verifier, what it left when the newest revision was made."""
    revision = trial.record.revision if trial.record and place == "verifier" else 0
    folder, begin = (trial.latest, f"@revision.{revision}/") if revision else (trial.folder, "")
    return [log for step in trial.rounds if (log := _log(folder, begin, place, step))]


def _log(folder: Path, begin: str, place: LogPlace, step: str | None) -> Log | None:
    own = f"steps/{step}/{place}" if step else place
    paths = [node.path for node in _files(tree_of(folder, own, deepest=_DEEPEST[place]))]
    if not paths:
        return None
    files = tuple(_file(folder, begin, path, own) for path in paths[:MOST_FILES])
    return Log(step, files, len(paths) - len(files))


def _files(node: FolderNode) -> Iterator[FileNode]:
    """The plain files below a folder, its own before those of folders in it."""
    yield from (file for file in sorted(node.files, key=_order) if not file.kind)
    for folder in node.folders:
        yield from _files(folder)


def _order(node: FileNode) -> tuple[int, str]:
    """What was printed first, then the rest by name."""
    return (_PRINTED.index(node.name) if node.name in _PRINTED else len(_PRINTED)), node.name


def _file(folder: Path, begin: str, path: str, own: str) -> LogFile:
    name = path.removeprefix(f"{own}/")
    try:
        content = read_bounded(Path(path), folder, SHOWN_BYTES)
    except SeatrialError as error:
        return LogFile(name, begin + path, 0, None, str(error))
    return LogFile(name, begin + path, content.size, show_file(name, content) if content.size else None)
