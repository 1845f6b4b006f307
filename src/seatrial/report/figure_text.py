"""Figures as words: what repeated attempts, times and groups of trials amount to, as cells and lines."""

from collections.abc import Iterator, Mapping, Sequence

from seatrial.analysis.arms import Arm
from seatrial.analysis.figures import Figures
from seatrial.analysis.groups import Group, GroupKey
from seatrial.report.text import counted, estimate_cells, format_cost, format_duration, harmless, passes, share_cells

ATTEMPT_COLUMNS = ("agent", "k", "pass@k", "95 % interval", "pass^k", "95 % interval", "tasks")
NO_NAME = "(none)"
"""How tasks are called that do not say what they are grouped by."""


def attempt_rows(figures: Mapping[str, Figures], least: int) -> Iterator[tuple[str, ...]]:
    """A row for each arm and each k from `least` on that some of its tasks have enough attempts for."""
    for name, each in figures.items():
        for k, one in each.pass_at.items():
            if k < least:
                continue
            every = each.pass_all.get(k)
            yield harmless(name), str(k), *estimate_cells(one), *estimate_cells(every), f"{one.groups:,}"


def stability_line(figures: Figures) -> str | None:
    """Whether attempts at one task end alike, None where no task was judged twice."""
    found = figures.stability
    if figures.tally.scored <= found.tasks:
        return None
    counts = f"{found.always:,} always passed, {found.never:,} never, {found.flaky:,} sometimes"
    return f"of {counted(found.tasks, 'task')}, {counts}"


def times_line(figures: Figures) -> str | None:
    """How long trials took, None where there are not two."""
    times = figures.times
    if times is None or figures.tally.finished < 2:
        return None
    shown = [format_duration(seconds) for seconds in (times.median, times.p90, times.total)]
    return f"trials took {shown[0]} (median), 90 % at most {shown[1]}, {shown[2]} in all"


_MEANS = ("tasks", "mean", "95 % interval", "pass rate", "scored")
_COUNTS = ("tasks", "trials", "share")
_NUMBERS = {"task": ("mean", "passed", "scored"), "outcome": _COUNTS}


class GroupTable:
    """Groups as a table: its columns and rows, which depend on what the groups are made of.

    The mean of a single task is that of its trials and stands for no other task, so it has counts and no interval. With
    `by_verdict`, trials were chosen by their rewards, so that there are only counts. Their shares are of all trials of
    the `arms`, whichever groups are shown.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        key: GroupKey,
        arms: Sequence[Arm],
        sort: str | None = None,
        *,
        by_verdict: bool = False,
    ) -> None:
        labels = {group.arm for group in groups if group.arm is not None}
        self._groups, self._key, self._has_arms = groups, key, len(labels) > 1
        self._finished: dict[str | None, int] = {arm.label: len(arm.trials) for arm in arms}
        self._finished[None] = sum(self._finished.values())
        self._numbers = _COUNTS if by_verdict else _NUMBERS.get(key, _MEANS)
        wide = not self._has_arms
        usages = [group.figures.tally.usage for group in groups]
        priced = any(usage is not None and usage.cost_usd is not None for usage in usages)
        self._has_time = wide or sort == "time" or key in ("task", "outcome")
        self._has_cost = priced and (wide or sort == "cost" or key in ("task", "outcome"))

    @property
    def columns(self) -> tuple[str, ...]:
        """What the cells of each row are."""
        arm = ("agent",) if self._has_arms else ()
        more = [name for name, has in (("time", self._has_time), ("cost", self._has_cost)) if has]
        return self._key, *arm, *self._numbers, *more

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each group."""
        for group in self._groups:
            arm = (harmless(group.arm or ""),) if self._has_arms else ()
            name = NO_NAME if group.name is None else harmless(group.name)
            cells = _cells(group, self._finished[group.arm])
            yield name, *arm, *(cells[column] for column in self._numbers), *self._more(group.figures)

    def _more(self, figures: Figures) -> Iterator[str]:
        if self._has_time:
            yield format_duration(figures.times.median if figures.times else None)
        if self._has_cost:
            yield format_cost(figures.tally.usage.cost_usd if figures.tally.usage else None)


def _cells(group: Group, finished: int) -> Mapping[str, str]:
    """All cells that a group may have; `finished` is how many trials its arm has, or all have."""
    tally = group.figures.tally
    mean, interval = estimate_cells(tally.estimate)
    return {
        "tasks": f"{group.tasks:,}",
        "mean": mean,
        "95 % interval": interval,
        "pass rate": share_cells(tally.pass_estimate)[0],
        "passed": f"{passes(tally):,} of {tally.scored:,}",
        "scored": f"{tally.scored:,} of {tally.planned:,}",
        "trials": f"{tally.finished:,}",
        "share": f"{tally.finished / finished:.1%}" if finished else "-",
    }
