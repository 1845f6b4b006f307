"""The section about differences between agents: how large, how sure, and at which tasks."""

from collections.abc import Iterator, Sequence
from typing import Literal

from seatrial.analysis.comparison import Comparison, TaskPair
from seatrial.report.compared import p_text, points
from seatrial.report.document import AdjustedComparison, ReportDocument
from seatrial.report.html.links import SCORED_OUTCOMES, trials_link
from seatrial.report.html.parts import PageCell, PageFigure, PageSection, PageTable, name_cell, number_cell
from seatrial.report.pictures.flips import FlipRow, flips_picture
from seatrial.report.text import counted

_MOST_PICTURES, _MOST_CONDITIONS = 6, 60
_MOST_TASKS = 15
"""On each side of a picture: those with the largest difference."""

_HEAD = (
    *("agent", "against", "difference in points", "p", "p after Holm", "tasks", "won", "lost"),
    *("could have been seen", "in a word"),
)


def comparing_section(document: ReportDocument) -> PageSection:
    """Every agent against the baseline, by task, and where the two differ."""
    made = document.comparisons
    table = PageTable("Differences over common tasks", _HEAD, tuple(_row(each) for each in made))
    compared = [each.comparison for each in made if each.comparison.won or each.comparison.lost]
    figures = tuple(_figure(index, each) for index, each in enumerate(compared[:_MOST_PICTURES]))
    rest = len(compared) - len(figures)
    paragraphs = [f"Each agent is compared with {document.baseline.label} at the tasks that both were judged on."]
    if document.tested > 1:
        paragraphs.append(f"p-values after Holm allow for {counted(document.tested, 'comparison')}.")
    if rest > 0:
        paragraphs.append(f"Pictures of {counted(rest, 'more comparison')} are left out; seatrial compare has them.")
    paragraphs += [f"{_names(each)}: {warning}" for each in made for warning in each.warnings]
    tables = (table, *_conditions(made))
    return PageSection("differences", "Where do agents differ?", tuple(paragraphs), figures, tables)


def compared_link(comparison: Comparison, tasks: Literal["common", "won", "lost"]) -> str:
    """The judged trials of both at tasks that both were judged on, or of these at those that the second won or lost."""
    return trials_link(comparison.second, against=comparison.first.label, tasks=tasks, outcome=SCORED_OUTCOMES)


def _names(made: AdjustedComparison) -> str:
    return f"{made.comparison.second.label} against {made.comparison.first.label}"


def _conditions(made: Sequence[AdjustedComparison]) -> Iterator[PageTable]:
    """What else differs, which may explain a difference of rewards though it does not change what they mean."""
    rows = [
        (name_cell(_names(each)), *map(name_cell, (found.name, found.second, found.first)))
        for each in made
        for found in each.conditions
    ]
    if rows:
        more = len(rows) - _MOST_CONDITIONS
        rest = f"{counted(more, 'more difference')} not shown." if more > 0 else ""
        head = ("compared", "what differs", "the first named", "the other")
        yield PageTable("What else differs between both", head, tuple(rows[:_MOST_CONDITIONS]), rest, "folded")


def _row(made: AdjustedComparison) -> tuple[PageCell, ...]:
    comparison, paired = made.comparison, made.comparison.paired
    names = (
        name_cell(comparison.second.label, trials_link(comparison.second)),
        name_cell(comparison.first.label, trials_link(comparison.first)),
    )
    if paired is None:
        return (*names, name_cell("no judged task in common"), *(number_cell("-") for _ in _HEAD[3:]))
    common, won, lost = (compared_link(comparison, tasks) for tasks in ("common", "won", "lost"))
    difference = f"{100 * paired.difference:+.1f}"
    return (
        *names,
        PageCell(difference, common, note=f"{points(paired.low)} to {points(paired.high)}"),
        number_cell(_p_value(paired.p_value), common),
        number_cell(_p_value(made.adjusted), common),
        number_cell(f"{paired.tasks:,}", common),
        number_cell(f"{paired.wins:,}", won),
        number_cell(f"{paired.losses:,}", lost),
        number_cell(f"{points(paired.detectable)} points" if paired.sd > 0 and paired.detectable <= 1 else "-", common),
        name_cell(comparison.verdict),
    )


def _p_value(value: float | None) -> str:
    return "-" if value is None else p_text(value).removeprefix("p ").removeprefix("= ")


def _figure(index: int, comparison: Comparison) -> PageFigure:
    first, second = comparison.first.label, comparison.second.label
    shown = [*comparison.won[:_MOST_TASKS], *reversed(comparison.lost[:_MOST_TASKS])]
    left = len(comparison.won) + len(comparison.lost) - len(shown)
    rows = [FlipRow(pair.task_id, pair.first, pair.second, trials_link(task=pair.task_id)) for pair in shown]
    rest = f"{counted(left, 'more task')} with smaller differences are not shown." if left else ""
    caption = f"Tasks at which {second} is better (right) or worse (left) than {first}. {rest}".strip()
    head = ("task", first, second, "difference in points")
    table = PageTable(f"{second} against {first}", head, tuple(_task(comparison, pair) for pair in shown), rest)
    return PageFigure(flips_picture(f"flips-{index}", first, second, rows), caption, table)


def _task(comparison: Comparison, pair: TaskPair) -> tuple[PageCell, ...]:
    return (
        name_cell(pair.task_id, trials_link(task=pair.task_id)),
        number_cell(f"{pair.first:.3f}", trials_link(comparison.first, task=pair.task_id)),
        number_cell(f"{pair.second:.3f}", trials_link(comparison.second, task=pair.task_id)),
        number_cell(
            f"{100 * pair.difference:+.1f}",
            trials_link(comparison.second, against=comparison.first.label, task=pair.task_id),
        ),
    )
