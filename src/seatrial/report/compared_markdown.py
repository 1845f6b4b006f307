"""Comparisons as Markdown, for a comment on a pull request.

Names are strangers' text: nothing of them may end a cell, make a link, an image or HTML, or call somebody by @.
"""

from collections.abc import Iterable, Sequence

from seatrial.analysis.arms import Arm
from seatrial.analysis.compare_jobs import ComparedPair, ComparisonSet
from seatrial.analysis.comparison import Comparison, Flip
from seatrial.analysis.contrasts import Label, dimension_differences, group_differences, measured_differences
from seatrial.analysis.gate import GateResult
from seatrial.report.compared import (
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
from seatrial.report.formats.markdown_escape import md_prose
from seatrial.report.text import counted

_SHOWN = 20


def comparisons_markdown(made: ComparisonSet, by: Sequence[Label] = (), gates: Sequence[GateResult] = ()) -> str:
    """Every comparison of a set, each with its answer first."""
    parts = []
    for index, pair in enumerate(made.pairs):
        forced = forced_line(made)
        parts += [f"> **{md_prose(forced)}**"] if forced else []
        parts += _pair(pair, by, gates[index] if gates else None, made.options.level)
    if made.left_out:
        parts.append(f"Not compared, since only one side has them: {', '.join(map(md_prose, made.left_out))}.")
    if made.corrected:
        parts.append(f"p-values of {made.corrected:,} comparisons, corrected together after Holm.")
    return "\n\n".join(parts) + "\n"


def _pair(pair: ComparedPair, by: Sequence[Label], gate: GateResult | None, level: float) -> list[str]:
    comparison = pair.comparison
    parts = [f"**{md_prose(answer(comparison))}.**"]
    parts += [md_prose(gate_answer(comparison, gate)) + "."] if gate else []
    parts += [md_prose(line) + "."] if (line := how_tested(comparison)) else []
    arms = zip("AB", (comparison.first, comparison.second), strict=True)
    lines = [f"- **{name}**: {md_prose(arm_line(arm, level, comparison.families))}" for name, arm in arms]
    parts.append("\n".join(lines))
    parts += [f"Warning: {md_prose(warning)}." for warning in pair.comparability.warnings]
    if differences := pair.comparability.differences:
        rows = [(each.weight, *difference_row(each)) for each in differences]
        parts.append(_table(("weight", "what differs", "A", "B", "tasks"), rows))
    parts += _flips("Passed by B and not by A", comparison.gained, comparison)
    parts += _flips("Passed by A and not by B", comparison.dropped, comparison)
    return [*parts, *_details(comparison, by)]


def _flips(title: str, flips: Sequence[Flip], comparison: Comparison) -> list[str]:
    if not flips:
        return []
    shown = [
        (flip.task_id, _trial(comparison.first, flip.first), _trial(comparison.second, flip.second)) for flip in flips
    ]
    more = [("…", f"{counted(len(flips) - _SHOWN, 'more task')}", "")] if len(flips) > _SHOWN else []
    return [_table((f"{title} ({len(flips):,})", "trial of A", "trial of B"), [*shown[:_SHOWN], *more])]


def _trial(arm: Arm, trials: Sequence[str]) -> str:
    return f"{arm.job.path}/trials/{trials[0]}"


def _details(comparison: Comparison, by: Sequence[Label]) -> list[str]:
    tables = [("part of the breakdown", part_rows(several_tasks(dimension_differences(comparison))))]
    tables += [(label, part_rows(group_differences(comparison, label))) for label in by]
    tables.append(("a scored trial took", measured_rows(measured_differences(comparison))))
    return [_table((title, *PART_COLUMNS[1:]), rows) for title, rows in tables if rows]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns)]
    shown = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*shown, *(f"| {' | '.join(map(md_prose, row))} |" for row in rows)])
