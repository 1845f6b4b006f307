"""A comparison on the screen: what differs between both sides first, then the answer, then where it comes from."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from seatrial.analysis.arms import Arm
from seatrial.analysis.compare_jobs import ComparedPair, ComparisonSet
from seatrial.analysis.comparison import Comparison, Flip
from seatrial.analysis.contrasts import Label, dimension_differences, group_differences, measured_differences
from seatrial.analysis.differences import Weight
from seatrial.analysis.gate import GateResult
from seatrial.analysis.loaded import LoadedJob
from seatrial.cli.colours import paint
from seatrial.cli.program import command_line
from seatrial.cli.render import show_table
from seatrial.report.compared import (
    DIFFERENCE_COLUMNS,
    PART_COLUMNS,
    answer,
    arm_line,
    difference_row,
    forced_line,
    gate_answer,
    how_tested,
    measured_rows,
    part_rows,
    several_tasks,
)
from seatrial.report.text import counted, harmless

_SHOWN = 5
_COLOURS = {"better": "green", "worse": "red", "no difference seen": "yellow", "inconclusive": "yellow"}
_GATE_COLOURS = {"not worse": "green", "worse": "red", "inconclusive": "yellow"}


def show_comparisons(
    made: ComparisonSet, by: Sequence[Label], gates: Sequence[GateResult], *, everything: bool
) -> None:
    """Every comparison of a set, one after the other."""
    for line in dict.fromkeys(map(_filtered, (made.first, made.second))):
        if line:
            _say(line)
    for index, pair in enumerate(made.pairs):
        if index:
            click.echo()
        if line := forced_line(made):
            _say(line, "red")
        _show_arms(pair.comparison, made.options.level)
        _show_pair(pair, by, gates[index] if gates else None, everything=everything)
    if made.left_out:
        click.echo()
        _say(f"not compared, since only one side has them: {', '.join(map(harmless, made.left_out))}")
    if made.corrected:
        click.echo()
        _say(f"p-values of {made.corrected:,} comparisons, corrected together after Holm; intervals are not")


def _show_arms(comparison: Comparison, level: float) -> None:
    for name, arm in zip("AB", (comparison.first, comparison.second), strict=True):
        _say(f"{name}  {arm_line(arm, level, comparison.families)}", indent=3)


def _filtered(job: LoadedJob) -> str | None:
    return harmless(f"{job.path}: {job.shown}") if job.shown else None


def _show_pair(pair: ComparedPair, by: Sequence[Label], gate: GateResult | None, *, everything: bool) -> None:
    comparison = pair.comparison
    _show_differences(pair)
    for warning in pair.comparability.warnings:
        _say(f"Warning: {harmless(warning)}", "yellow")
    click.echo()
    _say(answer(comparison), _COLOURS[comparison.verdict])
    if line := how_tested(comparison):
        _say(line)
    if gate:
        _say(gate_answer(comparison, gate), _GATE_COLOURS[gate.verdict])
    _show_flips("passed by B and not by A", comparison.gained, comparison, everything=everything)
    _show_flips("passed by A and not by B", comparison.dropped, comparison, everything=everything)
    _show_details(comparison, by, everything=everything)


def _show_differences(pair: ComparedPair) -> None:
    found = pair.comparability
    titles: tuple[tuple[Weight, str], ...] = (
        ("meaning", "changes what a reward means"),
        ("condition", "conditions"),
        ("subject", "compared"),
    )
    for weight, title in titles:
        if rows := [difference_row(each) for each in found.of(weight)]:
            click.echo()
            show_table("", (title, *DIFFERENCE_COLUMNS[1:]), rows)
    if not found.differences:
        click.echo()
        click.echo("both sides ran under the same conditions, as far as is known")


def _show_flips(title: str, flips: Sequence[Flip], comparison: Comparison, *, everything: bool) -> None:
    if not flips:
        return
    click.echo()
    click.echo(paint(f"{title} ({counted(len(flips), 'task')})", bold=True))
    shown = flips if everything else flips[:_SHOWN]
    for flip in shown:
        click.echo(harmless(flip.task_id))
        for arm, trials in ((comparison.first, flip.first), (comparison.second, flip.second)):
            click.echo(f"  {_how_to_look(arm, trials)}")
    if len(flips) > len(shown):
        click.echo(f"… and {counted(len(flips) - len(shown), 'more task')}; --all shows them")


def _how_to_look(arm: Arm, trials: Sequence[str]) -> str:
    more = f"  (and {len(trials) - 1:,} more)" if len(trials) > 1 else ""
    return harmless(command_line("show", str(arm.job.path), trials[0])) + more


def _show_details(comparison: Comparison, by: Sequence[Label], *, everything: bool) -> None:
    parts = dimension_differences(comparison)
    shown = parts if everything else several_tasks(parts)
    tables = [("part of the breakdown", part_rows(shown))]
    tables += [(label, part_rows(group_differences(comparison, label))) for label in by]
    tables.append(("a scored trial took", measured_rows(measured_differences(comparison))))
    for title, rows in tables:
        if rows:
            click.echo()
            show_table("", (title, *PART_COLUMNS[1:]), rows)
    if len(shown) < len(parts):
        single = counted(len(parts) - len(shown), "part of the breakdown is", "parts of the breakdown are")
        _say(f"{single} of a single task; --all shows them")


def _say(text: str, colour: str | None = None, indent: int = 0) -> None:
    """A sentence: as one line in a pipe, and as several on a terminal where it is too long for one."""
    lines = [text]
    if sys.stdout is not None and sys.stdout.isatty():
        lines = textwrap.wrap(text, shutil.get_terminal_size().columns, subsequent_indent=" " * indent)
    for line in lines:
        click.echo(paint(line, colour) if colour else line)
