"""A comparison in words: the answer in one sentence, the gate's in another, and tables; and all of it as Markdown.

Both arms are called A and B, so that sentences and tables stay short whatever agents and jobs are called.
"""

from collections.abc import Iterable, Mapping, Sequence

from seatrial.analysis.arms import Arm
from seatrial.analysis.comparability import Difference
from seatrial.analysis.compare import (
    ComparedPair,
    Comparison,
    ComparisonSet,
    Flip,
    GateResult,
    Label,
    Measured,
    PartDifference,
    dimension_differences,
    group_differences,
    measured_differences,
)
from seatrial.analysis.figures import figures_of
from seatrial.analysis.power import DifferenceVariance, PowerPlan
from seatrial.analysis.tables import Row, Table, interval
from seatrial.model.outcome import format_mean
from seatrial.report.markdown import markdown_table, md_prose
from seatrial.report.text import bounds_text, counted, harmless, p_text, points
from seatrial.stats.expected import VarianceSplit
from seatrial.stats.sign_flips import fewest_tasks

_MOST_FLIPS = 20
"""How many flips Markdown has."""


def answer(comparison: Comparison) -> str:
    """What the comparison says, in one sentence."""
    paired = comparison.paired
    if paired is None:
        judged = (counted(len(arm.rewards), "judged task") for arm in (comparison.first, comparison.second))
        return f"nothing to compare: A has {next(judged)}, B has {next(judged)}, and none is the same"
    sign = -1.0 if comparison.verdict == "worse" else 1.0
    low, high = sorted(sign * each for each in comparison.interval or ())
    size = f"{points(sign * paired.difference)} points ({bounds_text(low, high)})"
    numbers = f"{_p(comparison)}, {counted(paired.wins, 'task')} won, {paired.losses:,} lost{_could(comparison)}"
    if comparison.verdict in ("better", "worse"):
        return f"B is {comparison.verdict} by {size}, {numbers}"
    seen = f"B - A is {size}, {numbers}"
    if comparison.verdict == "no difference seen":
        return f"no difference seen: {seen}"
    count = counted(paired.tasks, "task")
    if comparison.family_count is not None:
        count += f" of {counted(comparison.family_count, 'family', 'families')}"
    holm = " after Holm" if comparison.adjusted_least is not None else ""
    least = f"with all of them won, {p_text(comparison.least_p)}{holm}"
    return f"inconclusive: {count} cannot show a difference: {least}. {seen}"


def _p(comparison: Comparison) -> str:
    assert comparison.paired is not None  # noqa: S101 - asked for only where there is one
    if comparison.adjusted_p is None:
        return p_text(comparison.paired.p_value)
    return f"{p_text(comparison.adjusted_p)} after Holm ({p_text(comparison.paired.p_value)} alone)"


def _could(comparison: Comparison) -> str:
    """The difference that could have been seen, if any could; tasks that all differ alike say nothing about it."""
    assert comparison.paired is not None  # noqa: S101 - asked for only where there is one
    if comparison.too_few or comparison.paired.sd == 0:
        return ""
    detectable = comparison.paired.detectable
    return f"; could have seen {points(detectable)}" if detectable <= 1.0 else ""


def how_tested(comparison: Comparison) -> str | None:
    """By which test the p-value was computed; None where there is none."""
    if comparison.paired is None:
        return None
    how = "exact" if comparison.paired.test == "exact" else "by random signs"
    if comparison.family_count is not None:
        return f"sign-flip test by families of tasks ({comparison.family_count:,}), {how}"
    if (value := comparison.mcnemar_p) is None:
        return f"sign-flip test over {counted(comparison.paired.tasks, 'task')}, {how}"
    same = "this is" if comparison.paired.test == "exact" else "they estimate"
    return f"sign-flip test, {how}; {same} McNemar's exact test, for one trial each that passed or not: {p_text(value)}"


def gate_answer(comparison: Comparison, gate: GateResult) -> str:
    """What a gate says, in one sentence."""
    margin = f"{100 * gate.margin:g} points"
    if comparison.paired is None:
        return "gate: inconclusive; there is nothing to compare"
    alone = " alone" if comparison.adjusted_p is not None else ""
    bounds = bounds_text(comparison.paired.low, comparison.paired.high)
    interval = f"the interval of B - A{alone} is {bounds} points"
    if gate.verdict == "not worse":
        return f"gate: B is not worse than A by more than {margin}; {interval}"
    if gate.verdict == "worse":
        return f"gate: B is worse than A by more than {margin}; {interval}"
    if gate.needed is None:
        return f"gate: inconclusive for a margin of {margin}; {interval}, and its middle is at the margin"
    return (
        f"gate: inconclusive for a margin of {margin}; {interval}. If B - A is as seen, about {gate.needed:,} tasks "
        f"like these {comparison.paired.tasks:,} would decide it four times out of five"
    )


def arm_line(arm: Arm, level: float = 0.95, families: Mapping[str, str] | None = None) -> str:
    """What an arm is, and what it reached alone, with an interval as sure as those it is shown with."""
    found = figures_of(arm.selected, level=level, clusters=families, ks=())
    mean = found.estimate
    reached = f"mean {format_mean(mean.value)} ({interval(mean)})" if mean else "no mean"
    scored = f"{found.scored:,} of {max(found.planned, found.finished):,} trials scored"
    return harmless(f"{arm.agent} in {arm.job.path}: {reached}, {counted(len(arm.rewards), 'task')}, {scored}")


def forced_line(made: ComparisonSet) -> str | None:
    """What every output of a forced comparison says; None where nothing had to be forced."""
    if not made.forced:
        return None
    names = ", ".join(dict.fromkeys(each.name for each in made.forced))
    return f"FORCED: a reward does not mean the same on both sides ({names}); the numbers below may say nothing"


def differences_table(title: str, differences: Iterable[Difference]) -> Table:
    """What differs between both sides, under a title."""
    return Table((title, "A", "B", "tasks"), [*map(difference_row, differences)])


def difference_row(difference: Difference) -> Row:
    """What a difference is called, both of its sides, and at how many tasks it is."""
    tasks = "all" if difference.tasks is None else f"{difference.tasks:,}"
    return tuple(map(harmless, (difference.name, difference.first, difference.second, tasks)))


def several_tasks(parts: Sequence[PartDifference]) -> list[PartDifference]:
    """Those that are of two tasks or more; of a single one, its own numbers say it better."""
    return [part for part in parts if part.tasks > 1]


_PART_COLUMNS = ("A", "B", "B - A", "interval", "tasks")


def parts_table(title: str, parts: Sequence[PartDifference]) -> Table:
    """A row for each part of a breakdown, or for each label."""
    rows = [
        (
            harmless(part.name),
            format_mean(part.first),
            format_mean(part.second),
            f"{points(part.difference)}",
            bounds_text(part.low, part.high),
            f"{part.tasks:,}",
        )
        for part in parts
    ]
    return Table((title, *_PART_COLUMNS), rows)


def measured_table(title: str, measured: Sequence[Measured]) -> Table:
    """A row for each thing that trials took some of."""
    return Table((title, *_PART_COLUMNS), [*map(_measured_row, measured)])


def _measured_row(measured: Measured) -> Row:
    amounts, unit = measured.amounts, measured.unit
    numbers = (_amount(value, unit) for value in (amounts.first, amounts.second, amounts.difference))
    bounds = None if amounts.low is None or amounts.high is None else (amounts.low, amounts.high)
    interval = " to ".join(_amount(bound, unit) for bound in bounds) if bounds else "-"
    name = measured.name if unit in ("tokens", "calls") else f"{measured.name}, {unit}"
    return name, *numbers, interval, f"{amounts.tasks:,}"


def _amount(value: float, unit: str) -> str:
    """A number without its unit; of money as many digits as it takes to see it."""
    if unit == "USD":
        return f"{value:.4f}" if abs(value) >= 0.01 or value == 0 else f"{value:.6f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{round(value, 1) + 0.0:.1f}"  # never -0.0


def comparisons_markdown(made: ComparisonSet, by: Sequence[Label] = (), gates: Sequence[GateResult] = ()) -> str:
    """Every comparison of a set, each with its answer first."""
    parts = []
    for index, pair in enumerate(made.pairs):
        forced = forced_line(made)
        parts += [f"> **{md_prose(forced)}**"] if forced else []
        parts += _pair_markdown(pair, by, gates[index] if gates else None, made.options.level)
    if made.left_out:
        parts.append(f"Not compared, since only one side has them: {', '.join(map(md_prose, made.left_out))}.")
    if made.corrected:
        parts.append(
            f"p-values of {made.corrected:,} comparisons, corrected together after Holm, and so are their intervals."
        )
    return "\n\n".join(parts) + "\n"


def _pair_markdown(pair: ComparedPair, by: Sequence[Label], gate: GateResult | None, level: float) -> list[str]:
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
        parts.append(_markdown(Table(("weight", "what differs", "A", "B", "tasks"), rows)))
    parts += _flips("Passed by B and not by A", comparison.gained, comparison)
    parts += _flips("Passed by A and not by B", comparison.dropped, comparison)
    return [*parts, *_details(comparison, by)]


def _flips(title: str, flips: Sequence[Flip], comparison: Comparison) -> list[str]:
    if not flips:
        return []
    shown = [
        (
            flip.task_id,
            _trial(comparison.first, flip.first, flip.passed[0]),
            _trial(comparison.second, flip.second, flip.passed[1]),
        )
        for flip in flips
    ]
    more = [("…", f"{counted(len(flips) - _MOST_FLIPS, 'more task')}", "")] if len(flips) > _MOST_FLIPS else []
    columns = (f"{title} ({len(flips):,})", "trial of A", "trial of B")
    return [_markdown(Table(columns, [*shown[:_MOST_FLIPS], *more]))]


def _trial(arm: Arm, trials: Sequence[str], passed: int) -> str:
    several = f" ({passed_of(trials, passed)})" if len(trials) > 1 else ""
    return f"{arm.job.path}/trials/{trials[0]}{several}"


def passed_of(trials: Sequence[str], passed: int) -> str:
    """How many of the trials at a task passed."""
    return f"{passed:,} of {len(trials):,} passed"


def _details(comparison: Comparison, by: Sequence[Label]) -> list[str]:
    tables = [parts_table("part of the breakdown", several_tasks(dimension_differences(comparison)))]
    tables += [parts_table(label, group_differences(comparison, label)) for label in by]
    tables.append(measured_table("a scored trial took", measured_differences(comparison)))
    return [_markdown(table) for table in tables if table.rows]


def _markdown(table: Table) -> str:
    """A table as Markdown in which everything is words."""
    rows = [[*map(md_prose, row)] for row in table.rows]
    return markdown_table(Table(table.columns, rows, names=len(table.columns)), "spaced")


# How many tasks or attempts it takes, in words and cells.


def power_answer(plan: PowerPlan) -> str:
    """How many tasks it takes, in one sentence, and what those that there are can show."""
    asked = plan.asked
    row = next((each for each in plan.rows if each.attempts == asked.attempts), plan.rows[0])
    attempts = counted(row.attempts, "attempt") + " each"
    if row.needed is None:
        return f"How many tasks show {points(asked.difference)} points cannot be told from this job."
    wanted = f"To see {points(asked.difference)} points takes {counted(row.needed, 'task')} with {attempts}"
    if row.needed <= asked.tasks:
        return f"{wanted}: {counted(asked.tasks, 'task')} are enough."
    return f"{wanted}; {counted(asked.tasks, 'task')} show {_shown_difference(row.detectable)}."


def power_table(plan: PowerPlan) -> Table:
    """A row for each number of attempts."""
    asked = plan.asked
    columns = ("attempts", "sd of B - A", f"tasks for {points(asked.difference)} points", f"{asked.tasks:,} tasks show")
    rows = [
        (
            f"{row.attempts:,}",
            "-" if row.sd is None else f"{row.sd:.3f}",
            "-" if row.needed is None else f"{row.needed:,}",
            "-" if row.sd is None else _shown_difference(row.detectable),
        )
        for row in plan.rows
    ]
    return Table(columns, rows)


def _shown_difference(detectable: float | None) -> str:
    return "nothing" if detectable is None or detectable > 1.0 else f"{points(detectable)} points"


def split_line(split: VarianceSplit) -> str:
    """Where the differences between rewards come from, in numbers and shares."""
    if split.between is None:
        return "fewer than two judged tasks: nothing can be said of the variance"
    parts = [("between tasks", split.between)]
    if split.within is not None:
        parts.append(("between attempts at one task", split.within))
    if split.verifier is not None:
        parts.append(("of the verifier about one output", split.verifier))
    total = sum(value for _, value in parts)
    shares = ", ".join(f"{value:.4f} {name}{_share(value, total)}" for name, value in parts)
    unknown = "" if split.within is not None else "; no task was attempted twice, so chance is part of it"
    noise = "; what was seen between tasks is no more than chance" if "between" in split.truncated else ""
    return f"variance of a reward: {shares}{unknown}{noise}"


def _share(value: float, total: float) -> str:
    return f" ({format_mean(value / total, '.0%')})" if total else ""


def source_line(variance: DifferenceVariance, correlation: float) -> str:
    """What the plan rests on."""
    if variance.source == "two agents":
        return "B - A varies as the differences of these two agents do"
    if variance.source == "given":
        return "B - A varies as --sd says"
    if correlation:
        return f"assumed: another agent that varies as much, with a correlation of {correlation:g} between tasks"
    return "assumed: another agent that varies as much, on its own; the worst case (--correlation, or two agents)"


def attempts_line(plan: PowerPlan) -> str:
    """Whether more attempts help, and how many would do."""
    asked, more = plan.asked, plan.more_attempts
    if asked.too_few:
        fewest = fewest_tasks(asked.alpha)
        return f"{counted(asked.tasks, 'task')} show nothing, with any number of attempts: it takes {fewest} at least"
    if more is None:
        if plan.variance.source == "given":
            return "whether more attempts help, only a job with two attempts or more can tell"
        return "whether more attempts help cannot be told: no task was attempted twice (`seatrial run --attempts 2`)"
    wanted = f"{points(asked.difference)} points with {counted(asked.tasks, 'task')}"
    if more.attempts is None:
        return f"no number of attempts shows {wanted}: below {points(more.floor)} points only more tasks help"
    enough = counted(more.attempts, "attempt") + (
        " at each task is enough" if more.attempts == 1 else " at each task are enough"
    )
    floor = f"; below {points(more.floor)} points only more tasks help" if more.floor >= 0.0005 else ""
    return f"{enough} to show {wanted}{floor}"


def width_line(plan: PowerPlan) -> str | None:
    """How sure the mean of one agent alone would be."""
    if plan.half_width is None:
        return None
    asked = plan.asked
    with_them = f"{counted(asked.tasks, 'task')} and {counted(asked.attempts, 'attempt')}"
    return f"one agent's mean with {with_them}: about ± {points(plan.half_width)} points"
