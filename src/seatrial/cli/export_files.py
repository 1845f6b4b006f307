"""The files of an export: there as a whole or not at all, and nothing that was there before is replaced."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, cast

from seatrial.errors import UsageError
from seatrial.gateway.dialects.fields import dump
from seatrial.report.export import LINE_FORMATS, LineFormat, TrialTalk, training_lines, trajectory_of
from seatrial.trajectories.files import TRAJECTORY_FILE, write_trajectory
from seatrial.trajectories.pictures import FOLDER as IMAGES

Threads = Literal["main", "all"]
_NEW, _METADATA = "new", "metadata"  # what an export is called before it is in its place


class Sink(Protocol):
    """Takes one trial after the other. `damaged` counts those that could not be read."""

    written: int
    damaged: int
    noun: tuple[str, str]

    def write(self, talk: TrialTalk) -> None:
        """Export the calls of a trial. Raises OSError, or ValueError for damaged calls."""
        ...


@contextmanager
def open_sink(form: str, output: Path, threads: Threads) -> Iterator[Sink]:
    """Where an export in the format `form` goes; it is in its place when the block ends well. Raises UsageError."""
    is_lines = form in LINE_FORMATS
    sidecar = output.with_name(f"{output.stem}.metadata.jsonl") if form == "openai-jsonl" else None
    for path in filter(None, (output, sidecar)):
        if os.path.lexists(path):
            raise UsageError(f"{path} is there already, and is not replaced; name another with -o")
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        with ExitStack() as stack:
            yield _line_sink(stack, folder, cast(LineFormat, form), threads) if is_lines else _TrajectorySink(folder)
        if not is_lines:
            _place_trajectories(folder / _NEW, output)
        else:
            (folder / _NEW).rename(output)
            if sidecar:
                (folder / _METADATA).rename(sidecar)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _LineSink:
    """Lines of training data; what they are of is in each line, or in a second file with as many lines."""

    noun = ("line", "lines")

    def __init__(self, lines: BinaryIO, metadata: BinaryIO | None, form: LineFormat, threads: Threads) -> None:
        self._lines = lines
        self._metadata = metadata
        self._form = form
        self._threads: Threads = threads
        self.written = self.damaged = 0

    def write(self, talk: TrialTalk) -> None:
        """Write the lines of a trial."""
        for made in list(training_lines(talk, self._form, threads=self._threads)):
            if self._metadata:
                self._metadata.write(_line(made.facts))
                self._lines.write(_line(made.line))
            else:
                self._lines.write(_line({**made.line, "metadata": made.facts}))
            self.written += 1


class _TrajectorySink:
    """A folder for each trial, and below it one for each step."""

    noun = ("trajectory", "trajectories")

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _NEW
        self.written = self.damaged = 0

    def write(self, talk: TrialTalk) -> None:
        """Write the trajectory of a trial."""
        if made := trajectory_of(talk):
            write_trajectory(made, self._folder / talk.place / TRAJECTORY_FILE)
            self.written += 1


def _line_sink(stack: ExitStack, folder: Path, form: LineFormat, threads: Threads) -> Sink:
    lines = stack.enter_context((folder / _NEW).open("wb"))
    metadata = stack.enter_context((folder / _METADATA).open("wb")) if form == "openai-jsonl" else None
    return _LineSink(lines, metadata, form, threads)


def _place_trajectories(made: Path, output: Path) -> None:
    """Move what was made to its place: a folder, or the one trajectory there is if a file was asked for."""
    if output.suffix != ".json":
        made.rename(output)
        return
    found = sorted(made.rglob(TRAJECTORY_FILE))
    if len(found) != 1:
        raise UsageError(f"{output} is one file, and there are {len(found)} trajectories; name a folder with -o")
    images = found[0].parent / IMAGES
    if images.is_dir():
        (output.parent / IMAGES).mkdir(exist_ok=True)
        for image in images.iterdir():  # named by what is in them, so that one of that name is the same
            image.replace(output.parent / IMAGES / image.name)
    found[0].rename(output)


def _line(value: dict[str, Any]) -> bytes:
    return dump(value).encode() + b"\n"
