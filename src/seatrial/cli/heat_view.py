"""A heat map on the screen, in the colours of outcomes."""

import shutil
import sys

import click

from seatrial.analysis.heat import HeatMap
from seatrial.cli.colours import paint
from seatrial.report.heat_text import heat_lines


def show_heat(heat: HeatMap, *, everything: bool) -> None:
    """The map; on a terminal it folds where the screen ends."""
    is_screen = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_screen else None
    for line in heat_lines(heat, width, everything=everything):
        click.echo("".join(paint(text, colour) for text, colour in line).rstrip())
