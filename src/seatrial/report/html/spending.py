"""The sections about what trials took: rewards against costs, and times."""

from seatrial.analysis.arms import Arm
from seatrial.analysis.figures import Figures
from seatrial.analysis.front import on_front
from seatrial.report.document import ReportDocument
from seatrial.report.html.links import SCORED_OUTCOMES, trials_link
from seatrial.report.html.parts import (
    PageCell,
    PageFigure,
    PageSection,
    PageTable,
    estimate_cell,
    name_cell,
    number_cell,
)
from seatrial.report.pictures.scatter import CostAxis, ScatterPoint, scatter_picture
from seatrial.report.pictures.times import TimeSpread, TimesRow, said_time, time_spread, times_picture
from seatrial.report.text import format_cost, format_duration

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
    usage = arm.tally.usage
    return usage.cost_usd / usage.trials if usage and usage.cost_usd is not None and usage.calls else None


def _dollars(usd: float) -> str:
    return f"${usd:.2g}" if usd < 1 else f"${usd:,.2f}".removesuffix(".00")


def _against(
    both: list[tuple[Arm, Figures]], costs: dict[str, float], axis: CostAxis, word: str, said: tuple[str, ...]
) -> PageSection:
    known = [(arm, figures) for arm, figures in both if arm.label in costs and figures.mean]
    means = [figures.mean.value if figures.mean else 0.0 for _, figures in known]
    front = on_front([(costs[arm.label], mean) for (arm, _), mean in zip(known, means, strict=True)])
    found = [_point(arm, figures, costs[arm.label], best) for (arm, figures), best in zip(known, front, strict=True)]
    title = f"What does a reward {'cost' if word == 'cost' else 'take'}?"
    if not found:
        return PageSection("cost", title, ("No agent has both a mean and a cost or a time.",))
    head = ("agent", axis.title, "mean reward", "cost per pass", "on the front")
    rows = tuple(_row(each, axis) for each in zip(known, found, strict=True))
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
    mean = figures.mean
    value, low, high = (mean.value, mean.low, mean.high) if mean else (0.0, 0.0, 0.0)
    return ScatterPoint(arm.label, cost, value, low, high, best, trials_link(arm, outcome=SCORED_OUTCOMES))


def _row(each: tuple[tuple[Arm, Figures], ScatterPoint], axis: CostAxis) -> tuple[PageCell, ...]:
    (arm, figures), point = each
    return (
        name_cell(arm.label, trials_link(arm)),
        number_cell(axis.written(point.cost), trials_link(arm)),
        estimate_cell(figures.mean, point.target),
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
