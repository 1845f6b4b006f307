"""How checks are watched: a line for each task that is done, and on a terminal how far all of it is."""

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from seatrial.check.run import Told, Verified
from seatrial.cli.check_view import result_line
from seatrial.cli.colours import TYPEWRITERS
from seatrial.model.check import TaskCheck
from seatrial.report.text import harmless

if TYPE_CHECKING:  # slow to import, and only terminals need it
    from rich.status import Status


class CheckProgress:
    """Is told what happens, and shows it on standard error; `quiet` shows nothing."""

    def __init__(self, tasks: int, *, quiet: bool) -> None:
        self.finished = 0
        self._tasks = tasks
        self._quiet = quiet
        self._runs = 0
        self._status: Status | None = None

    def __enter__(self) -> Self:
        live = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in TYPEWRITERS
        if live and not self._quiet:
            from rich.console import Console  # noqa: PLC0415 - only on a terminal
            from rich.status import Status  # noqa: PLC0415 - as above

            self._status = Status(self._standing(), console=Console(stderr=True))
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, told: Told) -> None:
        """Show what happened."""
        if isinstance(told, Verified):
            self._runs += told.runs
        elif isinstance(told, TaskCheck):
            self.finished += 1
            self._say(f"[{self.finished:>{len(str(self._tasks))}}/{self._tasks}] {result_line(told)}")
        else:
            self._say(harmless(told.text))
        if self._status is not None:
            self._status.update(self._standing())

    def _say(self, line: str) -> None:
        if not self._quiet:
            click.echo(line, err=True)

    def _standing(self) -> str:
        return f"{self.finished} of {self._tasks} tasks checked, {self._runs:,} verifications"
