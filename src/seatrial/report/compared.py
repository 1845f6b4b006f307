"""A comparison in words: the answer in one sentence, the gate's in another, and cells for tables.

Both arms are called A and B, so that sentences and tables stay short whatever agents and jobs are called.
"""

from collections.abc import Mapping, Sequence

from seatrial.analysis.arms import Arm
from seatrial.analysis.compare_jobs import ComparisonSet
from seatrial.analysis.comparison import Comparison
from seatrial.analysis.contrasts import Measured, PartDifference
from seatrial.analysis.differences import Difference
from seatrial.analysis.figures import mean_of
from seatrial.analysis.gate import GateResult
from seatrial.report.text import counted, harmless

DIFFERENCE_COLUMNS = ("what differs", "A", "B", "tasks")
PART_COLUMNS = ("", "A", "B", "B - A", "interval", "tasks")


def answer(comparison: Comparison) -> str:
    """What the comparison says, in one sentence."""
    paired = comparison.paired
    if paired is None:
        judged = (counted(len(arm.rewards), "judged task") for arm in (comparison.first, comparison.second))
        return f"nothing to compare: A has {next(judged)}, B has {next(judged)}, and none is the same"
    sign = -1.0 if comparison.verdict == "worse" else 1.0
    low, high = sorted((sign * paired.low, sign * paired.high))
    size = f"{points(sign * paired.difference)} points ({points(low)} to {points(high)})"
    numbers = f"{_p(comparison)}, {counted(paired.wins, 'task')} won, {paired.losses:,} lost{_could(comparison)}"
    if comparison.verdict in ("better", "worse"):
        return f"B is {comparison.verdict} by {size}, {numbers}"
    seen = f"B - A is {size}, {numbers}"
    if comparison.verdict == "no difference seen":
        return f"no difference seen: {seen}"
    return f"inconclusive: {_why_open(comparison, paired.tasks)}. {seen}"


def _why_open(comparison: Comparison, tasks: int) -> str:
    if comparison.too_few:
        count = counted(tasks, "task")
        if comparison.family_count is not None:
            count += f" of {counted(comparison.family_count, 'family', 'families')}"
        return f"{count} cannot show a difference: with all of them won, {_least(comparison)}"
    return "the p-value speaks for a difference, and the interval still has 0 in it"


def _least(comparison: Comparison) -> str:
    return p_text(comparison.least_p) + (" after Holm" if comparison.adjusted_least is not None else "")


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


def p_text(value: float) -> str:
    """A p-value with as many digits as matter."""
    if value < 0.001:
        return "p < 0.001"
    return f"p = {value:.3f}" if value < 0.1 else f"p = {value:.2f}"


def how_tested(comparison: Comparison) -> str | None:
    """By which test the p-value was computed; None where there is none."""
    if comparison.paired is None:
        return None
    how = "exact" if comparison.paired.test == "exact" else "by random signs"
    if comparison.family_count is not None:
        return f"sign-flip test by families of tasks ({comparison.family_count:,}), {how}"
    if (value := comparison.mcnemar_p) is None:
        return f"sign-flip test over {counted(comparison.paired.tasks, 'task')}, {how}"
    return f"sign-flip test, {how}; McNemar's exact test, for one trial each that passed or not: {p_text(value)}"


def points(share: float) -> str:
    """A share as points of 100; no minus before a zero."""
    text = f"{100 * share:.1f}"
    return "0.0" if text == "-0.0" else text


def gate_answer(comparison: Comparison, gate: GateResult) -> str:
    """What a gate says, in one sentence."""
    margin = f"{100 * gate.margin:g} points"
    if comparison.paired is None:
        return "gate: inconclusive; there is nothing to compare"
    low, high = points(comparison.paired.low), points(comparison.paired.high)
    interval = f"the interval of B - A is {low} to {high} points"
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
    tally, mean = arm.tally, mean_of(arm, level=level, clusters=families)
    reached = f"mean {mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f})" if mean else "no mean"
    scored = f"{tally.scored:,} of {max(tally.planned, tally.finished):,} trials scored"
    return harmless(f"{arm.agent} in {arm.job.path}: {reached}, {counted(len(arm.rewards), 'task')}, {scored}")


def forced_line(made: ComparisonSet) -> str | None:
    """What every output of a forced comparison says; None where nothing had to be forced."""
    if not made.forced:
        return None
    names = ", ".join(dict.fromkeys(each.name for each in made.forced))
    return f"FORCED: a reward does not mean the same on both sides ({names}); the numbers below may say nothing"


def difference_row(difference: Difference) -> tuple[str, ...]:
    """The cells of a difference."""
    tasks = "all" if difference.tasks is None else f"{difference.tasks:,}"
    return tuple(map(harmless, (difference.name, difference.first, difference.second, tasks)))


def several_tasks(parts: Sequence[PartDifference]) -> list[PartDifference]:
    """Those that are of two tasks or more; of a single one, its own numbers say it better."""
    return [part for part in parts if part.tasks > 1]


def part_rows(parts: Sequence[PartDifference]) -> list[tuple[str, ...]]:
    """A row for each part of a breakdown, or for each label."""
    return [
        (
            harmless(part.name),
            f"{part.first:.3f}",
            f"{part.second:.3f}",
            f"{points(part.difference)}",
            f"{points(part.low)} to {points(part.high)}",
            f"{part.tasks:,}",
        )
        for part in parts
    ]


def measured_rows(measured: Sequence[Measured]) -> list[tuple[str, ...]]:
    """A row for each thing that trials took some of."""
    return [_measured_row(each) for each in measured]


def _measured_row(measured: Measured) -> tuple[str, ...]:
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
