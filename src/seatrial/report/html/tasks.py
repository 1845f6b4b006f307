"""The section about tasks: the heat map, with tasks drawn together where there are too many to draw each."""

import math
from collections.abc import Sequence

from seatrial.analysis.heat import HeatCell, HeatMap
from seatrial.report.document import ReportDocument
from seatrial.report.html.links import trials_link
from seatrial.report.html.parts import PageCell, PageFigure, PageSection, PageTable, name_cell, number_cell
from seatrial.report.pictures.heat import HeatRow, HeatSquare, heat_picture
from seatrial.report.text import counted

MOST_TASKS, _MOST_ARMS = 400, 40
_MOST_SQUARES = 4_000
_MOST_TOGETHER = 100


def tasks_section(document: ReportDocument, most_squares: int = _MOST_SQUARES) -> PageSection:
    """What each agent got at each task, the easiest task and the best agent first; so many squares are drawn."""
    heat = document.heat
    shown = len(heat.arms[:_MOST_ARMS])
    size = _tasks_a_row(len(heat.tasks), shown, most_squares)
    rows = [_row(heat, shown, start, size) for start in range(0, len(heat.tasks), size)]
    agents = [arm.label for arm in heat.arms[:shown]]
    together = f" A row stands for {size} tasks of neighbouring rank." if size > 1 else ""
    legend = "The stronger the colour, the higher the mean; a dash was never judged."
    caption = f"{legend} The easiest tasks and the best agents come first.{together}"
    rest = f"The best {shown} of {len(heat.arms)} agents are shown." if shown < len(heat.arms) else ""
    table = PageTable("Mean reward by task", ("task", *agents), tuple(_cells(row) for row in rows), rest)
    figure = PageFigure(heat_picture("heat", agents, rows), caption, table)
    return PageSection("tasks", "Which tasks are hard, and for whom?", (_said(heat),), (figure,) if rows else ())


def _tasks_a_row(tasks: int, arms: int, most: int) -> int:
    """How many tasks share a row, so that a page stays of a size whatever a job has."""
    if tasks <= MOST_TASKS and tasks * arms <= most:
        return 1
    return math.ceil(tasks / min(_MOST_TOGETHER, max(1, most // max(1, arms))))


def _said(heat: HeatMap) -> str:
    means = heat.task_means
    solved = sum(mean is not None and mean >= 1 for mean in means)
    never = sum(mean is not None and mean <= 0 for mean in means)
    unjudged = sum(mean is None for mean in means)
    tasks = counted(len(means), "task")
    said = f"Of {tasks}, {solved:,} got the full reward in every judged trial and {never:,} got nothing in any"
    return f"{said}; {unjudged:,} {'was' if unjudged == 1 else 'were'} never judged." if unjudged else f"{said}."


def _row(heat: HeatMap, arms: int, start: int, size: int) -> HeatRow:
    tasks, cells = heat.tasks[start : start + size], heat.cells[start : start + size]
    if len(tasks) == 1 and size == 1:
        squares = [_one(heat, at, tasks[0], cells[0][at]) for at in range(arms)]
        return HeatRow(tasks[0], tuple(squares), trials_link(task=tasks[0]))
    label = f"ranks {start + 1:,} to {start + len(tasks):,}"
    return HeatRow(label, tuple(_several(heat, at, label, [row[at] for row in cells]) for at in range(arms)))


def _one(heat: HeatMap, at: int, task: str, cell: HeatCell) -> HeatSquare:
    arm = heat.arms[at]
    got = "not judged" if cell.mean is None else f"mean {cell.mean:.3f}, {cell.passed} of {cell.scored} passed"
    return HeatSquare(cell.mean, f"{arm.label}, {task}: {got}", trials_link(arm, task=task))


def _several(heat: HeatMap, at: int, label: str, cells: Sequence[HeatCell]) -> HeatSquare:
    arm, known = heat.arms[at], [cell.mean for cell in cells if cell.mean is not None]
    mean = math.fsum(known) / len(known) if known else None
    got = f"not judged at {counted(len(cells), 'task')}" if mean is None else f"mean {mean:.3f} of {len(known)} judged"
    return HeatSquare(mean, f"{arm.label}, {label}: {got}", trials_link(arm))


def _cells(row: HeatRow) -> tuple[PageCell, ...]:
    means = [number_cell("-" if each.mean is None else f"{each.mean:.3f}", each.target) for each in row.squares]
    return (name_cell(row.label, row.target), *means)
