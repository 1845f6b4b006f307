"""How a build is shown, on standard error: the running step with the end of its output, or plain lines in a pipe."""

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from seatrial.images.building.events import BuildEvent, Observer, StepBegan, StepEnded, StepOutput, ignore_events
from seatrial.report.text import format_duration, harmless, harmless_lines

_TYPEWRITERS = ("dumb", "unknown")
_SHOWN_LINES = 6
_MARKS = {"built": "done", "cached": "cached", "noted": ""}


@contextmanager
def show_build(*, quiet: bool) -> Iterator[Observer]:
    """Somebody to tell about a build, who shows it."""
    if quiet:
        yield ignore_events
    elif sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in _TYPEWRITERS:
        with _Display() as display:
            yield display.take
    else:
        yield _Lines().take


def ending(event: StepEnded) -> str:
    """How a step was done, in a word or two."""
    return f"{_MARKS[event.how]} {format_duration(event.seconds)}" if event.how == "built" else _MARKS[event.how]


class _Lines:
    """Plain lines, as they come."""

    def __init__(self) -> None:
        self._rest = ""

    def take(self, event: BuildEvent) -> None:
        if isinstance(event, StepBegan):
            click.echo(f"[{event.number}/{event.total}] {harmless(event.text)}", err=True)
        elif isinstance(event, StepOutput):
            *whole, self._rest = harmless_lines(self._rest + event.data.decode("utf-8", "replace"))
            for line in whole:
                click.echo(f"    {line}", err=True)
        else:
            if self._rest:
                click.echo(f"    {self._rest}", err=True)
            self._rest = ""
            if word := ending(event):
                click.echo(f"    {word}", err=True)


class _Display:
    """The steps that are done, one line each; below them the one that runs, with the end of what it says."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes do not need it
        from rich.live import Live  # noqa: PLC0415 - slow, and only a terminal needs it

        self._step: StepBegan | None = None
        self._lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._rest = ""
        self._console = Console(stderr=True)
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=8, transient=True)

    def __enter__(self) -> "_Display":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def take(self, event: BuildEvent) -> None:
        from rich.spinner import Spinner  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - slow, and only a terminal needs it

        if isinstance(event, StepBegan):
            self._step, self._rest = event, ""
            self._lines.clear()
            title = f"[{event.number}/{event.total}] {harmless(event.text)}"
            self._spinner = Spinner("dots", Text(title, overflow="ellipsis", no_wrap=True))
        elif isinstance(event, StepOutput):
            *whole, self._rest = harmless_lines(self._rest + event.data.decode("utf-8", "replace"))
            self._lines.extend(whole)
        elif self._step is not None:
            title = f"[{self._step.number}/{self._step.total}] {harmless(self._step.text)}"
            line = Text.assemble(title, ("  " + ending(event), "green" if event.how == "built" else "dim"))
            self._console.print(line, overflow="ellipsis", no_wrap=True)
            self._step = None

    def _render(self) -> Any:
        from rich.console import Group  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - slow, and only a terminal needs it

        if self._step is None:
            return Text("")
        shown = [Text(f"    {line}", style="dim", overflow="ellipsis", no_wrap=True) for line in list(self._lines)]
        return Group(self._spinner, *shown)
