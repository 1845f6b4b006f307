"""How a job is watched: a live display on a terminal, lines in a pipe, JSON for programs, or nothing but the end.

A display only tells. The job goes on whether or not anybody can be told, so none of them may raise while it runs.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import click

from seatrial.analysis.finished import Finished
from seatrial.analysis.summary import JobSummary
from seatrial.cli.colours import SEVERITY_COLOURS, TYPEWRITERS, paint
from seatrial.cli.job_view import show_summary
from seatrial.cli.program import command_line
from seatrial.cli.progress_board import Board
from seatrial.cli.trial_lines import TrialLines
from seatrial.model.job import ModelOptions
from seatrial.report.reasons import NO_LIMITS
from seatrial.report.text import counted, harmless
from seatrial.trial.events import Event, Notice, RolloutFinished, TrialFinished, TrialPassedOver, TrialRetried

_log = logging.getLogger(__name__)

Ended = Literal[
    "complete", "trial budget", "wall budget", "agent warnings", "interrupted", "failed", "not started", "refused"
]


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a display needs to know before anything happens; `earlier` are the results there are already.

    `limits` are those of the agents' models. `unit` is what is planned; when a rollout starts, no event tells.
    """

    name: str
    folder: Path
    planned: int
    earlier: Sequence[Finished] = ()
    limits: ModelOptions = NO_LIMITS
    unit: Literal["trial", "rollout"] = "trial"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended: the summary, None after an error, and why the exit code is what it is.

    `go_on` says how to go on with one that was stopped; usually that is by `seatrial resume`.
    """

    folder: Path
    ended: Ended
    summary: JobSummary | None
    reasons: Sequence[str]
    exit_code: int
    go_on: str | None = None


class Display(Protocol):
    """Somebody who is told about a job. `close` is called once, before `conclude`, however the job ends."""

    def begin(self, job: Beginning) -> None:
        """The job is about to start."""
        ...

    def observe(self, event: Event) -> None:
        """Something happened. Never raises."""
        ...

    def close(self) -> None:
        """Nothing more will happen."""
        ...

    def conclude(self, end: Ending) -> None:
        """The job has ended."""
        ...


def choose_display(*, as_json: bool, quiet: bool) -> Display:
    """The display that suits where our output goes."""
    if as_json:
        from seatrial.cli.events_json import JsonDisplay  # noqa: PLC0415 - each display is loaded only where it is used

        return JsonDisplay()
    if quiet:
        return QuietDisplay()
    if sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") not in TYPEWRITERS:
        from seatrial.cli.live_display import LiveDisplay  # noqa: PLC0415 - rich is slow to import

        return LiveDisplay()
    return LinesDisplay()


class Telling:
    """Calls a function with events until it fails once: a reader who has gone away must not stop the job."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell: Callable[[Event], None] | None = tell

    def __call__(self, event: Event) -> None:
        """Tell it. Never raises."""
        if self._tell is None:
            return
        try:
            self._tell(event)
        except OSError:  # the reader or the terminal has gone
            self._tell = None
        except Exception:  # noqa: BLE001 - whatever it is, it is no concern of the trials
            self._tell = None
            _log.exception("the display failed and is off from now on; the job goes on")


class QuietDisplay:
    """Says nothing until the end."""

    def begin(self, job: Beginning) -> None:
        """Say nothing."""

    def observe(self, event: Event) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Say nothing."""

    def conclude(self, end: Ending) -> None:
        """Show the summary."""
        conclude_in_words(end)


class LinesDisplay:
    """One line for each trial that finishes or has to be started again, for pipes and logs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.observe: Callable[[Event], None] = Telling(self._line)

    def begin(self, job: Beginning) -> None:
        """Say what is going to happen."""
        self._board = Board(job.planned, job.earlier, self._clock())
        self._lines = TrialLines(job.limits)
        before = f", {self._board.finished:,} of them finished before" if self._board.finished else ""
        click.echo(f"{job.folder}: {counted(job.planned, job.unit)}{before}")

    def _line(self, event: Event) -> None:
        self._board.apply(event, self._clock())
        if isinstance(event, TrialFinished):
            click.echo(f"{self._position()} {self._lines.finished(event.record)}")
        elif isinstance(event, RolloutFinished):
            click.echo(f"{self._position()} {self._lines.rollout(event)}")
        elif isinstance(event, TrialRetried):
            click.echo(f"{self._position()} {self._lines.retried(event)}")
        elif isinstance(event, TrialPassedOver):
            click.echo(f"{self._position()} {self._lines.passed_over(event)}")
        elif isinstance(event, Notice):
            click.echo(notice_line(event))

    def _position(self) -> str:
        planned = str(self._board.planned)
        return f"[{self._board.finished:>{len(planned)}}/{planned}]"

    def close(self) -> None:
        """There is nothing to put away."""

    def conclude(self, end: Ending) -> None:
        """Show the summary."""
        conclude_in_words(end)


def notice_line(notice: Notice) -> str:
    """What the user should know; loud if it speaks against results that are being made."""
    text = harmless(notice.text)
    return paint(text, SEVERITY_COLOURS["warning"], bold=True) if notice.urgent else text


def conclude_in_words(end: Ending) -> None:
    """The summary, why the exit code is what it is, and what to do next."""
    if end.summary is not None:
        show_summary(end.summary)
        for reason in end.reasons:
            click.echo(reason, err=True)
    if end.ended in _SAID:
        click.echo(_SAID[end.ended], err=True)
    elif end.ended == "complete":
        click.echo(f"Look at it with: {command_line('show', str(end.folder))}", err=True)
    else:
        go_on = end.go_on or f"Continue with: {command_line('resume', str(end.folder))}"
        click.echo(f"{_STOPPED[end.ended]} {go_on}", err=True)


_STOPPED = {
    "trial budget": "Stopped: as many trials as --max-trials allows have been started.",
    "wall budget": "Stopped: the time that --max-wall allows is over.",
    "interrupted": "Interrupted. Finished trials are kept.",
    "failed": "Stopped by an error. Finished trials are kept.",
}
# What is to be done then depends on the reason, which has been told.
_SAID = {
    "agent warnings": "Stopped: an agent never really ran.",
    "not started": "Nothing was run.",
    "refused": "Nothing was run, and no job was made.",
}
