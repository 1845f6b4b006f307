"""How images on their way are shown: bars on a terminal, lines in a pipe; and sizes as people write them."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from seatrial.errors import UsageError
from seatrial.images.progress import LayerProgress, OnProgress

_UNITS = ("B", "K", "M", "G", "T")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_TYPEWRITERS = ("dumb", "unknown")
_SHORT = 12


def parse_size(text: str) -> int:
    """`20G`, `512M`, `0`: bytes, in powers of 1024. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size; expected something like 20G or 512M")
    return int(float(match[1]) * 1024 ** _UNITS.index(match[2].upper() or "B"))


def show_size(size: int) -> str:
    """A size with three digits and its unit."""
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}{'' if unit == 0 else 'iB'}"


@contextmanager
def show_progress() -> Iterator[OnProgress]:
    """Somebody to tell about layers on their way, who shows them on standard error."""
    if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in _TYPEWRITERS:
        with _bars() as tell:
            yield tell
    else:
        yield _line


def _line(event: LayerProgress) -> None:
    if event.state in ("ready", "present"):
        what = "is here already" if event.state == "present" else "is ready"
        click.echo(f"{event.image}: layer {_short(event.layer)} {what} ({show_size(event.total)})", err=True)


def _short(layer: str) -> str:
    return layer.removeprefix("sha256:")[:_SHORT] if layer.startswith("sha256:") else layer


@contextmanager
def _bars() -> Iterator[OnProgress]:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes do not need it
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn  # noqa: PLC0415 - slow, and only a terminal needs it

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def tell(event: LayerProgress) -> None:
            if event.layer not in tasks:
                tasks[event.layer] = progress.add_task("", total=event.total or None)
            text = f"{_short(event.layer)} {event.state}"
            progress.update(tasks[event.layer], description=text, completed=event.done)

        yield tell
