"""How commands show things: tables with aligned columns, JSON for programs, and lines for problems of a task."""

import shutil
import sys
from collections.abc import Iterable, Sequence

import click
from pydantic import BaseModel

from seatrial.cli.colours import SEVERITY_COLOURS, paint, paint_outcome
from seatrial.cli.table import GAP, Line, lay_out, wrapped
from seatrial.model.task import Problem
from seatrial.report.text import harmless


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table with aligned columns. On a terminal it has a title and fits the screen; in a pipe a row is one line."""
    width = None
    if sys.stdout is not None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        if title:
            click.echo(paint(title, "cyan"))
    header, *body = lay_out(columns, [tuple(map(harmless, row)) for row in rows], width)
    for line in header:
        click.echo(paint(_joined(line), bold=True))
    for row in body:
        for line in row:
            click.echo(_joined(line))


def _joined(line: Line) -> str:
    return GAP.join(f"{cell.before}{paint_outcome(cell.text)}{cell.after}" for cell in line).rstrip()


def show_line(text: str) -> None:
    """A line of words. On a terminal it is broken between words where the screen ends; in a pipe it is one line."""
    text = harmless(text)
    if sys.stdout is not None and sys.stdout.isatty():
        width = max(20, shutil.get_terminal_size().columns)
        text = "\n".join(wrapped(text, width, "    "))
    click.echo(text)


def show_warning(text: str) -> None:
    """A line about something that was passed over, for people to know and not for programs to read."""
    click.echo(f"Warning: {harmless(text)}", err=True)


def show_problem(owner: str, problem: Problem) -> None:
    """One problem as a line, and what to do about it as another."""
    severity = paint(problem.severity, SEVERITY_COLOURS[problem.severity])
    click.echo(f"{owner}: {severity}[{problem.code}] {problem}")
    if problem.fix:
        click.echo(f"    fix: {problem.fix}")


def show_json(value: BaseModel) -> None:
    """A stored type exactly as it is stored."""
    click.echo(value.model_dump_json(indent=2))
