"""How many tasks or attempts it takes, in words and cells."""

from seatrial.analysis.planning import DifferenceVariance, PowerPlan
from seatrial.report.compared import points
from seatrial.report.text import counted
from seatrial.stats.power import fewest_tasks
from seatrial.stats.variance import VarianceSplit


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


def power_columns(plan: PowerPlan) -> tuple[str, str, str, str]:
    """What the columns of the table are called."""
    asked = plan.asked
    return "attempts", "sd of B - A", f"tasks for {points(asked.difference)} points", f"{asked.tasks:,} tasks show"


def power_rows(plan: PowerPlan) -> list[tuple[str, ...]]:
    """A row for each number of attempts."""
    return [
        (
            f"{row.attempts:,}",
            "-" if row.sd is None else f"{row.sd:.3f}",
            "-" if row.needed is None else f"{row.needed:,}",
            "-" if row.sd is None else _shown_difference(row.detectable),
        )
        for row in plan.rows
    ]


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
    return f" ({value / total:.0%})" if total else ""


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
