"""What a build tells while it goes on, and the log that is kept of it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

How = Literal["built", "cached", "noted"]
"""How a step was done: its layer was made, or was there before, or it needed none."""

_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class StepBegan:
    """A step begins: which one of how many, and what it says on one line."""

    number: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class StepOutput:
    """A step's command wrote something."""

    data: bytes


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step is done."""

    number: int
    how: How
    seconds: float


BuildEvent: TypeAlias = StepBegan | StepOutput | StepEnded
Observer: TypeAlias = Callable[[BuildEvent], None]


def ignore_events(_: BuildEvent) -> None:
    """The observer for whoever does not care."""


class StepLog:
    """What one step writes: kept in a file, its end in memory, and passed on as it comes."""

    def __init__(self, path: Path, observer: Observer) -> None:
        self.path = path
        self._file: BinaryIO = path.open("wb")
        self._observer = observer
        self._tail = b""

    def write(self, data: bytes) -> None:
        """Take what came."""
        with suppress(OSError):  # a full disk: the command must go on
            self._file.write(data)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        self._observer(StepOutput(data))

    @property
    def tail(self) -> str:
        """The end of it, from the beginning of a line."""
        text = self._tail
        if len(text) == _TAIL_BYTES:
            text = text.partition(b"\n")[2] or text
        return text.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Finish the file."""
        with suppress(OSError):
            self._file.close()
