"""Figures and trials as tables: the cells of each kind of table once, whoever shows it.

Names of agents, tasks and trials are strangers' text; in these tables they have been through `harmless`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seatrial.analysis.figures import Figures, UsageTotal, added_usage
from seatrial.analysis.tables import Row, Table, interval
from seatrial.model.outcome import format_mean, format_range, format_reward
from seatrial.report.text import format_cost, format_duration, harmless
from seatrial.stats.estimates import Estimate
from seatrial.store.index import TrialEntry

if TYPE_CHECKING:  # the end of a job needs no groups
    from seatrial.analysis.arms import Arm
    from seatrial.analysis.groups import Group, GroupKey

_NO_NAME = "(none)"
"""How tasks are called that do not say what they are grouped by."""


def estimate_cells(estimate: Estimate | None) -> tuple[str, str]:
    """A mean and its interval; dashes for none."""
    return format_mean(estimate.value if estimate else None), interval(estimate)


def share_cells(estimate: Estimate | None) -> tuple[str, str]:
    """A share and its interval, in percent; dashes for none."""
    if estimate is None:
        return "-", "-"
    return format_mean(estimate.value, ".1%"), format_range(estimate.low, estimate.high, ".1%")


def dollars(usd: float | None) -> str:
    """An amount of money in a column that says it is in USD."""
    return format_cost(usd).removesuffix(" USD")


def summary_table(agents: Mapping[str, Figures]) -> Table:
    """A row per agent: its mean and pass rate, and how many of the planned trials they rest on."""
    rows = [
        (
            harmless(name),
            *estimate_cells(figures.estimate),
            *share_cells(figures.pass_estimate),
            f"{figures.scored:,} of {figures.planned:,}",
        )
        for name, figures in agents.items()
    ]
    return Table(("agent", "mean", "95 % interval", "pass rate", "pass interval", "scored"), rows)


def attempts_table(agents: Mapping[str, Figures], least: int = 2) -> Table:
    """pass@k and pass^k: a row per agent and each k from `least` on that some of its tasks have enough attempts for."""
    rows = [
        (
            harmless(name),
            str(k),
            *estimate_cells(one),
            *estimate_cells(figures.pass_all.get(k)),
            f"{one.groups:,}",
        )
        for name, figures in agents.items()
        for k, one in figures.pass_at.items()
        if k >= least
    ]
    return Table(("agent", "k", "pass@k", "95 % interval", "pass^k", "95 % interval", "tasks"), rows)


def usage_table(agents: Mapping[str, Figures]) -> Table:
    """A row for each agent that called a model, and when there are several one for all; none when none did.

    What verifiers asked their models stands below, and is in no total.
    """
    used = {
        name: (figures.usage, figures.solved)
        for name, figures in agents.items()
        if figures.usage and (figures.usage.calls or figures.usage.input_tokens)
    }
    rows = [(harmless(name), *_used(usage, solved)) for name, (usage, solved) in used.items()]
    total = added_usage([usage for usage, _ in used.values()])
    if total and len(rows) > 1:
        rows.append(("(all)", *_used(total, sum(solved for _, solved in used.values()))))
    for name, figures in agents.items():
        if figures.verifier_usage and figures.verifier_usage.calls:
            rows.append((harmless(f"{name} (verifiers)"), *_used(figures.verifier_usage, figures.solved)))
    return Table(("agent", "calls", "tokens in", "tokens out", "cost", "per trial", "per pass"), rows)


def _used(usage: UsageTotal, passed: int) -> Row:
    cost = usage.cost_usd
    numbers = (usage.calls, usage.input_tokens, usage.output_tokens)
    each = (None if cost is None or not count else cost / count for count in (usage.trials, passed))
    return (*(f"{number:,}" for number in numbers), format_cost(cost), *map(dollars, each))


def trials_table(trials: Sequence[TrialEntry], *, with_usage: bool) -> Table:
    """A row per trial, with what its model used if so wished."""
    more = ("tokens", "cost") if with_usage else ()
    rows = [(*trial_row(trial), *(_used_cells(trial) if with_usage else ())) for trial in trials]
    return Table(("trial", "outcome", "reward", "time", *more), rows)


def trial_row(trial: TrialEntry) -> Row:
    """One trial: its id, outcome, reward and time."""
    tries = f" ({trial.tries} tries)" if trial.tries > 1 else ""
    shown = format_reward(None if trial.outcome in {"verifier_error", "infrastructure_error"} else trial.reward)
    outcome: str = trial.outcome
    if trial.disputed_reward is not None:
        outcome, shown = f"{outcome}, disputed", f"{shown} (or {format_reward(trial.disputed_reward)})"
    regraded = (f"revision {trial.revision}",) if trial.revision else ()
    outcome = ", ".join((outcome, *trial.warnings, *regraded))
    return harmless(f"{trial.trial_id}{tries}"), outcome, shown, format_duration(trial.duration_sec)


def _used_cells(trial: TrialEntry) -> Row:
    if trial.input_tokens is None:
        return "-", "-"
    return f"{(trial.input_tokens or 0) + (trial.output_tokens or 0):,}", format_cost(trial.cost_usd)


_MEANS = ("tasks", "mean", "95 % interval", "pass rate", "scored")
_COUNTS = ("tasks", "trials", "share")
_NUMBERS = {"task": ("mean", "passed", "scored"), "outcome": _COUNTS}


def groups_table(
    groups: "Sequence[Group]",
    key: "GroupKey",
    arms: "Sequence[Arm]",
    sort: str | None = None,
    *,
    by_verdict: bool = False,
) -> Table:
    """A row for each group; the columns depend on what the groups are made of.

    The mean of a single task is that of its trials and stands for no other task, so it has counts and no interval. With
    `by_verdict`, trials were chosen by their rewards, so that there are only counts. Their shares are of all trials of
    the `arms`, whichever groups are shown.
    """
    has_arms = len({group.arm for group in groups if group.arm is not None}) > 1
    finished: dict[str | None, int] = {arm.label: len(arm.trials) for arm in arms}
    finished[None] = sum(finished.values())
    numbers = _COUNTS if by_verdict else _NUMBERS.get(key, _MEANS)
    wide = not has_arms or key in ("task", "outcome")
    priced = any(group.figures.usage and group.figures.usage.cost_usd is not None for group in groups)
    more = ["time"] if wide or sort == "time" else []
    more += ["cost"] if priced and (wide or sort == "cost") else []

    def row(group: "Group") -> Iterator[str]:
        yield _NO_NAME if group.name is None else harmless(group.name)
        if has_arms:
            yield harmless(group.arm or "")
        cells = _group_cells(group, finished[group.arm])
        yield from (cells[column] for column in (*numbers, *more))

    columns = (key, *(("agent",) if has_arms else ()), *numbers, *more)
    return Table(columns, [tuple(row(group)) for group in groups], names=1 + has_arms)


def _group_cells(group: "Group", finished: int) -> Mapping[str, str]:
    """All cells that a group may have; `finished` is how many trials its arm has, or all have."""
    figures = group.figures
    mean, between = estimate_cells(figures.estimate)
    return {
        "tasks": f"{group.tasks:,}",
        "mean": mean,
        "95 % interval": between,
        "pass rate": share_cells(figures.pass_estimate)[0],
        "passed": f"{figures.solved:,} of {figures.scored:,}",
        "scored": f"{figures.scored:,} of {figures.planned:,}",
        "trials": f"{figures.finished:,}",
        "share": format_mean(figures.finished / finished, ".1%") if finished else "-",
        "time": format_duration(figures.times.median if figures.times else None),
        "cost": format_cost(figures.usage.cost_usd if figures.usage else None),
    }
