"""The section about differences between agents: how large, how sure, and at which tasks."""

from collections.abc import Iterator, Sequence
from typing import Literal

from seatrial.analysis.arms import Arm
from seatrial.analysis.compare import Comparison, TaskPair
from seatrial.analysis.figures import Figures
from seatrial.analysis.groups import on_front
from seatrial.model.outcome import format_mean
from seatrial.report.document import AdjustedComparison, ReportDocument
from seatrial.report.html.parts import (
    SCORED_OUTCOMES,
    PageCell,
    PageFigure,
    PageSection,
    PageTable,
    estimate_cell,
    name_cell,
    number_cell,
    trials_link,
)
from seatrial.report.pictures.pictures import (
    FlipRow,
    TimeSpread,
    TimesRow,
    flips_picture,
    said_time,
    time_spread,
    times_picture,
)
from seatrial.report.pictures.scatter import CostAxis, ScatterPoint, scatter_picture
from seatrial.report.text import bounds_text, counted, format_cost, format_duration, p_number, points

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
        paragraphs.append(
            f"p-values after Holm, and intervals, allow for {counted(document.tested, 'comparison')}: every two agents."
        )
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
    comparison, paired, interval = made.comparison, made.comparison.paired, made.comparison.interval
    names = (
        name_cell(comparison.second.label, trials_link(comparison.second)),
        name_cell(comparison.first.label, trials_link(comparison.first)),
    )
    if paired is None or interval is None:
        return (*names, name_cell("no judged task in common"), *(number_cell("-") for _ in _HEAD[3:]))
    common, won, lost = (compared_link(comparison, tasks) for tasks in ("common", "won", "lost"))
    difference = f"{100 * paired.difference:+.1f}"
    return (
        *names,
        PageCell(difference, common, note=bounds_text(*interval)),
        number_cell(p_number(paired.p_value), common),
        number_cell(p_number(made.adjusted), common),
        number_cell(f"{paired.tasks:,}", common),
        number_cell(f"{paired.wins:,}", won),
        number_cell(f"{paired.losses:,}", lost),
        number_cell(f"{points(paired.detectable)} points" if paired.sd > 0 and paired.detectable <= 1 else "-", common),
        name_cell(comparison.verdict),
    )


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
        number_cell(format_mean(pair.first), trials_link(comparison.first, task=pair.task_id)),
        number_cell(format_mean(pair.second), trials_link(comparison.second, task=pair.task_id)),
        number_cell(
            f"{100 * pair.difference:+.1f}",
            trials_link(comparison.second, against=comparison.first.label, task=pair.task_id),
        ),
    )


# The sections about what trials took: rewards against costs, and times.


_MOST_ARMS = 40


def cost_section(document: ReportDocument) -> PageSection:
    """Rewards against costs where costs are known, else against time, which always is."""
    both = [*zip(document.arms, document.figures, strict=True)]
    costs = {arm.label: cost for arm, _ in both if (cost := cost_per_trial(arm)) is not None}
    said: tuple[str, ...] = ()
    if not costs:
        costs = {arm.label: figures.times.median for arm, figures in both if figures.times}
        said = ("No cost is known, because no agent called a model with known prices. Here is time instead.",)
        axis = CostAxis("median time of a trial", format_duration, said_time)
        return _against(both, costs, axis, "time", said)
    if unknown := [arm.label for arm, _ in both if arm.label not in costs]:
        said = (f"Not in the picture, because their cost is not known: {', '.join(unknown)}.",)
    return _against(both, costs, CostAxis("cost of a trial", _dollars, _dollars), "cost", said)


def cost_per_trial(arm: Arm) -> float | None:
    """What a trial of an arm cost, over all that called a model; None where that is not known."""
    usage = arm.figures.usage
    return usage.cost_usd / usage.trials if usage and usage.cost_usd is not None and usage.calls else None


def _dollars(usd: float) -> str:
    return f"${usd:.2g}" if usd < 1 else f"${usd:,.2f}".removesuffix(".00")


def _against(
    both: list[tuple[Arm, Figures]], costs: dict[str, float], axis: CostAxis, word: str, said: tuple[str, ...]
) -> PageSection:
    known = [(arm, figures) for arm, figures in both if arm.label in costs and figures.estimate]
    means = [figures.mean or 0.0 for _, figures in known]
    front = on_front([(costs[arm.label], mean) for (arm, _), mean in zip(known, means, strict=True)])
    found = [_point(arm, figures, costs[arm.label], best) for (arm, figures), best in zip(known, front, strict=True)]
    title = f"What does a reward {'cost' if word == 'cost' else 'take'}?"
    if not found:
        return PageSection("cost", title, ("No agent has both a mean and a cost or a time.",))
    head = ("agent", axis.title, "mean reward", "cost per pass", "on the front")
    rows = tuple(_spending_row(each, axis) for each in zip(known, found, strict=True))
    caption = f"The broken line is the front: no agent on it is beaten in both reward and {word}."
    if len(found) > _MOST_ARMS:
        caption += (
            f" Of {len(found):,} agents it has {_MOST_ARMS}: those on the front, then those with the highest means."
        )
    drawn = sorted(found, key=lambda point: (not point.on_front, -point.value, point.cost))[:_MOST_ARMS]
    table = PageTable(f"Mean reward against {axis.title}", head, rows)
    figure = PageFigure(scatter_picture("cost", drawn, axis), caption, table)
    return PageSection("cost", title, said, (figure,))


def _point(arm: Arm, figures: Figures, cost: float, best: bool) -> ScatterPoint:  # noqa: FBT001 - one of a row of values
    mean = figures.estimate
    value, low, high = (mean.value, mean.low, mean.high) if mean else (0.0, 0.0, 0.0)
    return ScatterPoint(arm.label, cost, value, low, high, best, trials_link(arm, outcome=SCORED_OUTCOMES))


def _spending_row(each: tuple[tuple[Arm, Figures], ScatterPoint], axis: CostAxis) -> tuple[PageCell, ...]:
    (arm, figures), point = each
    return (
        name_cell(arm.label, trials_link(arm)),
        number_cell(axis.written(point.cost), trials_link(arm)),
        estimate_cell(figures.estimate, point.target),
        number_cell(format_cost(figures.cost_per_solved), trials_link(arm) if figures.solved else None),
        name_cell("yes" if point.on_front else "no"),
    )


def times_section(document: ReportDocument) -> PageSection:
    """How long trials took, whatever became of them."""
    spreads = [
        (arm, time_spread([trial.duration_sec for trial in arm.trials if trial.duration_sec is not None]))
        for arm in document.arms
    ]
    if not any(spread for _, spread in spreads):
        return PageSection("times", "How long do trials take?", ("No trial has a time.",))
    head = ("agent", "shortest", "a quarter within", "half within", "three quarters within", "nine of ten", "longest")
    table = PageTable("Times of trials", head, tuple(_times(arm, spread) for arm, spread in spreads))
    drawn = [TimesRow(arm.label, spread, trials_link(arm)) for arm, spread in spreads[:_MOST_ARMS]]
    picture = times_picture("times", drawn)
    caption = (
        "The box has the middle half of all trials, the bar in it is the median, and the line reaches to both ends."
    )
    if len(spreads) > _MOST_ARMS:
        caption += f" It has the first {_MOST_ARMS} of {len(spreads):,} agents, and the table all."
    return PageSection("times", "How long do trials take?", (), (PageFigure(picture, caption, table),))


def _times(arm: Arm, spread: TimeSpread | None) -> tuple[PageCell, ...]:
    if spread is None:
        return (name_cell(arm.label), *(number_cell("-") for _ in range(6)))
    values = (spread.least, spread.quarter, spread.median, spread.three_quarters, spread.nine_tenths, spread.most)
    target = trials_link(arm)
    return (name_cell(arm.label, target), *(number_cell(format_duration(value), target) for value in values))
