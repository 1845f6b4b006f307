"""How commands show things: tables on a terminal, plain tab-separated lines in a pipe, JSON for machines."""

import sys
from collections.abc import Iterable, Sequence

import click
from pydantic import BaseModel

from seatrial.model.task import Problem
from seatrial.report.text import harmless

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table people can read on a terminal and programs can split in a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo("\t".join(map(harmless, row)))
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes do not need it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    Console().print(table)


def show_problem(owner: str, problem: Problem) -> None:
    """One problem as a line, and what to do about it as another."""
    severity = click.style(problem.severity, fg=_COLOURS[problem.severity])
    click.echo(f"{owner}: {severity}[{problem.code}] {problem}")
    if problem.fix:
        click.echo(f"    fix: {problem.fix}")


def show_json(value: BaseModel) -> None:
    """A stored type exactly as it is stored."""
    click.echo(value.model_dump_json(indent=2))
