"""The first sentence of a report: who leads, by how much, and how sure that is."""

from seatrial.analysis.comparison import Comparison
from seatrial.report.compared import p_text, points
from seatrial.report.document import AdjustedComparison, ReportDocument
from seatrial.report.text import counted
from seatrial.stats.estimates import Estimate
from seatrial.stats.paired import Paired


def headline(document: ReportDocument) -> str:
    """One or two sentences. Names in them are strangers' text."""
    ranked = document.ranked
    if not ranked:
        return "No trial was judged, so there is no mean."
    arm, mean = ranked[0][0], ranked[0][1].mean
    if len(ranked) == 1 or mean is None:
        tasks = counted(mean.groups if mean else 0, "task")
        return f"{arm.label} has a mean reward of {in_words(mean)} over {tasks}."
    other = ranked[1][0].label
    alone = ranked[1][1].mean is None or ranked[1][1].mean.value < mean.value
    highest = f"{arm.label} {'has the highest mean' if alone else 'and others have the highest mean'}, {in_words(mean)}"
    if document.lead is None:
        return f"{highest}, but cannot be compared with {other}: a reward does not mean the same for both."
    if document.lead.comparison.paired is None:
        return f"{highest}, but no judged task in common with {other}."
    return _lead(arm.label, other, document.lead, document.lead.comparison.paired)


def _lead(leader: str, other: str, lead: AdjustedComparison, paired: Paired) -> str:
    """On the tasks of both, the one with the higher mean over all of its own may be behind."""
    sign = 1 if lead.comparison.second.label == leader else -1
    if sign * paired.difference < 0:
        leader, other, sign = other, leader, -sign
    low, high = sorted((sign * paired.low, sign * paired.high))
    over = f"on {counted(paired.tasks, 'common task')}"
    between = f"{100 * paired.level:g} % interval {points(low)} to {points(high)}"
    if paired.difference == 0:
        return f"{leader} and {other} are level {over} ({between} points)."
    p_value = paired.p_value if lead.adjusted is None else lead.adjusted
    ahead = points(abs(paired.difference))
    sure = _sure(lead.comparison, paired)
    return f"{leader} leads {other} by {ahead} points {over} ({between}, {p_text(p_value)}). {sure}"


def _sure(comparison: Comparison, paired: Paired) -> str:
    if comparison.verdict in ("better", "worse"):
        return "So large a difference would be rare if both were equally good."
    if comparison.too_few:
        return "So few tasks cannot show a difference, however large."
    if comparison.verdict == "inconclusive":
        return "The p-value speaks for a difference; the interval, which is more careful, has room for none."
    if paired.sd == 0 or paired.detectable > 1:
        return "That may be chance."
    found = f"{points(paired.detectable)} points"
    return f"That may be chance: with tasks like these, a difference of {found} is found four times out of five."


def in_words(estimate: Estimate | None) -> str:
    """A mean with its interval: `0.833 (0.601 to 0.952)`, a dash for none."""
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})" if estimate else "-"
