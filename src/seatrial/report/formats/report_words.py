"""Cells of the tables in written reports, as plain text: Markdown and LaTeX escape them, each in its own way."""

from collections.abc import Sequence

from seatrial.analysis.figures import Figures
from seatrial.report.compared import p_text, points
from seatrial.report.document import AdjustedComparison, ReportDocument
from seatrial.report.text import estimate_cells, format_cost, format_duration
from seatrial.stats.estimates import Estimate

Table = list[tuple[str, ...]]
"""A header and rows; the first cell of each row is a stranger's name."""


def percent(level: float) -> str:
    """A level as it is printed: `95 %`."""
    return f"{100 * level:g} %"


def arms_table(document: ReportDocument, most: int) -> Table:
    """What each arm amounts to, in the order of the document; at most so many of them."""
    figures = document.figures[:most]
    repeats = max((max(each.pass_at, default=1) for each in figures), default=1)
    costly = any(each.cost_per_solved is not None for each in figures)
    header = ["agent", "mean reward", f"{percent(document.options.level)} interval", "pass rate"]
    header += [f"pass@{repeats}", f"pass^{repeats}"] if repeats > 1 else []
    header += ["scored", "tasks", *(["cost per pass"] if costly else []), "median time"]
    rows = []
    for arm, each in zip(document.arms[:most], figures, strict=True):
        tasks = f"{each.mean.groups:,}" if each.mean else "0"
        cells = [arm.label, *estimate_cells(each.mean), share_words(each.pass_rate)]
        several = (each.pass_at, each.pass_all) if repeats > 1 else ()
        cells += [share_words(found.get(repeats)) for found in several]
        cells += [f"{each.tally.scored:,} of {each.tally.planned:,}", tasks]
        cells += [format_cost(each.cost_per_solved)] if costly else []
        rows.append((*cells, _median(each)))
    return [tuple(header), *rows]


def share_words(estimate: Estimate | None) -> str:
    """A share with its interval, in percent; a dash for none."""
    if estimate is None:
        return "-"
    return f"{100 * estimate.value:.1f} % ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"


def _median(figures: Figures) -> str:
    return format_duration(figures.times.median if figures.times else None)


def comparisons_table(document: ReportDocument, most: int) -> Table:
    """How each comparison ended, the second arm against the first: differences in points of a hundred."""
    made = [each for each in document.comparisons if each.comparison.paired][:most]
    level = percent(document.options.level)
    p_value = "p (Holm)" if document.tested > 1 else "p"
    header = ("agent", "against", "difference in points", f"{level} interval", p_value, "tasks", "won", "lost")
    return [(*header, "detectable"), *(_comparison(each) for each in made)]


def _comparison(made: AdjustedComparison) -> tuple[str, ...]:
    paired = made.comparison.paired
    if paired is None:
        return ()
    p_value = paired.p_value if made.adjusted is None else made.adjusted
    return (
        made.comparison.second.label,
        made.comparison.first.label,
        signed(paired.difference),
        f"{signed(paired.low)} to {signed(paired.high)}",
        p_text(p_value).removeprefix("p ").removeprefix("= "),
        f"{paired.tasks:,}",
        f"{paired.wins:,}",
        f"{paired.losses:,}",
        points(paired.detectable) if paired.detectable <= 1.0 else "-",
    )


def signed(share: float) -> str:
    """A difference in points with its sign: `+4.1`."""
    shown = points(share)
    return shown if shown.startswith("-") or shown == "0.0" else f"+{shown}"


def some(rows: Sequence[object], most: int, noun: str) -> str:
    """What is said below a table that has not everything; empty when it has."""
    return f"{len(rows) - most:,} more {noun} are not shown." if len(rows) > most else ""
